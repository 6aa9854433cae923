//! A build that needs much memory for a moment, again and again.

use std::{thread, time::Duration};

/// Spikes.
pub(super) const COUNT: u32 = 12;
/// What each needs.
pub(super) const BYTES: u64 = 64 << 20;
/// Quiet before the first.
pub(super) const BEFORE: Duration = Duration::from_secs(6);
/// How long each lasts.
const PLATEAU: Duration = Duration::from_millis(300);
/// Quiet after each: no multiple of a second, so that who looks once a second is not always early or always late.
const QUIET: Duration = Duration::from_millis(2130);

/// From the first to the last.
pub(super) fn lasts() -> Duration {
    (PLATEAU + QUIET) * COUNT
}

pub(super) fn make() -> anyhow::Result<()> {
    thread::sleep(BEFORE);
    for _ in 0..COUNT {
        let memory = vec![1_u8; usize::try_from(BYTES)?];
        std::hint::black_box(&memory);
        thread::sleep(PLATEAU);
        drop(memory);
        thread::sleep(QUIET);
    }
    Ok(())
}
