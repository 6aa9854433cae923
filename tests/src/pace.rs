//! When calls at a fixed rate are due, whether or not those before them were answered.

use std::{thread, time::Duration};

use tokio::{sync::mpsc, time::Instant};

/// Moments that may wait to be taken.
const WAITING: usize = 4096;

/// A moment every so often, for `time` or until the receiver is gone. From a thread of its own: the runtime's clock goes in
/// milliseconds, and is late by one.
#[must_use]
pub fn every(step: Duration, time: Duration) -> mpsc::Receiver<Instant> {
    let (moment, moments) = mpsc::channel(WAITING);
    drop(thread::spawn(move || {
        let begin = Instant::now();
        let mut due = begin;
        while due - begin < time && moment.blocking_send(due).is_ok() {
            due += step;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }));
    moments
}
