//! How many files this process may have open: each connection is one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Ten thousand connections, twice over, and the rest.
const WANTED: u64 = 32_768;

/// Raises the bound on open files as far as this process may, and gives it. A child process has the same bound.
pub fn allow_open_files() -> anyhow::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let wanted = WANTED.max(soft);
    // beyond the hard limit only root may go
    let raised = [(wanted, hard.max(wanted)), (wanted.min(hard), hard)].into_iter();
    for (soft, hard) in raised {
        if setrlimit(Resource::RLIMIT_NOFILE, soft, hard).is_ok() {
            return Ok(soft);
        }
    }
    Ok(soft)
}
