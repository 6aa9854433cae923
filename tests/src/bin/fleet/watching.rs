//! Looks at the server while the fleet runs.

use std::time::Duration;

use anyhow::Context as _;
use plimsoll_tests::{
    Server,
    figures::{Usage, metric},
};
use tokio::sync::watch;

/// Seconds between two lines.
const LINE_EVERY: u64 = 10;

/// The most that was seen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Most {
    /// Requests that waited for the writer.
    pub(crate) queue: u64,
    pub(crate) resident_kib: u64,
}

/// Looks every second until `stop`.
pub(crate) async fn look(server: &Server, mut stop: watch::Receiver<bool>) -> anyhow::Result<Most> {
    let (mut most, mut looks, mut before) = (Most::default(), 0_u64, ([0.0; 3], Usage::default()));
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            _ = stop.changed() => return Ok(most),
        }
        let (_, metrics) = tokio::task::block_in_place(|| server.get("/metrics"))?;
        let number = |name| metric(&metrics, name).with_context(|| format!("no metric {name}"));
        let usage = Usage::of(server.pid())?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
        let queue = number("plimsoll_ingest_queue_requests")? as u64;
        most.queue = most.queue.max(queue);
        most.resident_kib = most.resident_kib.max(usage.resident_kib);
        if looks.is_multiple_of(LINE_EVERY) {
            let now = [
                number("plimsoll_ingest_samples_total")?,
                number("plimsoll_store_commit_seconds_count")?,
                number("plimsoll_store_commit_seconds_sum")?,
            ];
            let [samples, commits, seconds] = [0, 1, 2].map(|n: usize| {
                let of = |row: &[f64; 3]| row.get(n).copied().unwrap_or_default();
                of(&now) - of(&before.0)
            });
            let cpu = (usage.cpu_ms - before.1.cpu_ms) / (LINE_EVERY * 10);
            println!(
                "  {looks:>4} s: {:.0} samples/s, queue {queue}, {} MiB, {cpu} % of a core, {:.1} commits/s of {:.1} ms",
                samples / f64::from(u32::try_from(LINE_EVERY)?),
                usage.resident_kib / 1024,
                commits / f64::from(u32::try_from(LINE_EVERY)?),
                seconds * 1000.0 / commits.max(1.0),
            );
            before = (now, usage);
        }
        looks += 1;
    }
}
