//! A line on the terminal that shows the progress; nothing without a terminal.

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    time::{Duration, Instant},
};

use plimsoll_core::domain::Bytes;

/// Time between two updates: often enough to see that it lives.
const EVERY: Duration = Duration::from_millis(100);
/// Characters of the bar.
const WIDTH: usize = 30;

/// A progress bar.
#[derive(Debug)]
pub(super) struct Progress {
    shown: bool,
    last: Option<Instant>,
}

impl Progress {
    /// One that is shown if standard error is a terminal.
    pub(super) fn new() -> Self {
        Self { shown: stderr().is_terminal(), last: None }
    }

    /// Whether it is time for a new line, and there is a terminal.
    fn due(&mut self) -> bool {
        if !self.shown || self.last.is_some_and(|last| last.elapsed() < EVERY) {
            return false;
        }
        self.last = Some(Instant::now());
        true
    }

    /// `count` of `what` are done; how many there are in all is not known.
    pub(super) fn count(&mut self, what: &str, count: u64) {
        if self.due() {
            // a terminal that is gone needs no count
            let _unseen = write!(stderr(), "\r\u{1b}[K{what:<16} {count}");
        }
    }

    /// `share` of `what` is done, 0 to 1.
    pub(super) fn tell(&mut self, what: &str, share: f64) {
        if !self.due() {
            return;
        }
        let percent = (share.clamp(0.0, 1.0) * 100.0).round();
        let full = (0..WIDTH)
            .take_while(|n| f64::from(u32::try_from(*n).unwrap_or(0)) * 100.0 < percent * 30.0)
            .count();
        let bar: String = (0..WIDTH).map(|n| if n < full { '#' } else { '.' }).collect();
        // a terminal that is gone needs no bar
        let _unseen = write!(stderr(), "\r\u{1b}[K{what:<16} [{bar}] {percent:>3.0} %");
    }

    /// Clears the line.
    pub(super) fn end(&mut self) {
        if self.shown && self.last.is_some() {
            let _unseen = write!(stderr(), "\r\u{1b}[K");
        }
    }
}

/// How much `done` is of `whole`, 0 to 1.
pub(super) fn share(done: u64, whole: u64) -> f64 {
    let (done, whole) = (Bytes(done).as_f64(), Bytes(whole).as_f64());
    if whole > 0.0 { (done / whole).min(1.0) } else { 0.0 }
}
