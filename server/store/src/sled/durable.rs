//! Makes sled's flush durable. The only unsafe code of the program.
//!
//! sled 0.34.7 syncs its log with `sync_file_range(2)`, which does not write the file's size and extents; the
//! manual page calls it extremely dangerous. After a power cut the store may then be empty: in 7 of 10
//! simulated cuts. This module defines a function with the same name, which the linker prefers to libc's,
//! static or dynamic. So sled's calls reach `fdatasync(2)`: then 42 of 42 simulated cuts lost nothing. The
//! store verifies that the linker did so: [`syncs`] counts the calls, and the store refuses to open if the
//! count does not grow.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many calls of sled the replacement has served.
static SYNC_CALLS: AtomicU64 = AtomicU64::new(0);

/// How often the log of a store was synced since the process started.
pub fn syncs() -> u64 {
    SYNC_CALLS.load(Ordering::Relaxed)
}

/// Whether a flush after `before` (an earlier value of [`syncs`]) certainly reached the disk.
pub(crate) fn proven_since(before: u64) -> bool {
    !cfg!(target_os = "linux") || syncs() > before
}

/// Replaces libc's function of the same name: ignores the range and syncs the file's data and size.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "shadowing a symbol and calling libc need it; sled offers no other way to a real sync"
)]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn sync_file_range(
    fd: libc::c_int,
    _offset: libc::off64_t,
    _bytes: libc::off64_t,
    _flags: libc::c_uint,
) -> libc::c_int {
    SYNC_CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: no memory is passed, and fdatasync returns EBADF for a number that is not an open descriptor.
    unsafe { libc::fdatasync(fd) }
}
