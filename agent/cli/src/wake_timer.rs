//! Wakes the agent when a reading is due. One wake-up of an idle machine costs as much CPU time as a reading, and the timer of the runtime
//! wakes the thread up to three times for each: at the borders of its wheel, and because it wakes itself when a time is set. A timer of the
//! kernel wakes it once.

use std::{
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::{Instant, sleep_until},
};

/// A timer for one time after another.
#[derive(Debug)]
pub(crate) struct WakeTimer {
    /// `None` if the kernel refuses it; the timer of the runtime serves then.
    timer: Option<AsyncFd<OwnedFd>>,
    /// The time that the timer is set to.
    set_to: Option<Instant>,
}

impl WakeTimer {
    /// Must be called within a tokio runtime with I/O and time.
    pub(crate) fn new() -> Self {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, flags).map_err(std::io::Error::from).and_then(watch);
        let timer = timer.inspect_err(|error| tracing::debug!(%error, "no timer of the kernel"));
        Self { timer: timer.ok(), set_to: None }
    }

    /// Waits until `due`. The future may be dropped and the method called again, also with another time.
    pub(crate) async fn until(&mut self, due: Instant) {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let Some(timer) =
                self.timer.as_ref().filter(|timer| self.set_to == Some(due) || set(timer, left))
            else {
                return sleep_until(due).await;
            };
            self.set_to = Some(due);
            match timer.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_closed) => return sleep_until(due).await,
            }
        }
    }
}

/// Waits with the runtime for what a descriptor becomes readable by. `F` must own one descriptor, and never change it.
#[expect(
    deprecated,
    reason = "the replacement is unsafe, because a type could change its descriptor; those used here do not"
)]
pub(crate) fn watch<F: AsRawFd>(descriptor: F) -> std::io::Result<AsyncFd<F>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}

/// Sets the timer to go off once, after `left`; false if the kernel refuses it.
fn set(timer: &AsyncFd<OwnedFd>, left: Duration) -> bool {
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let Ok(it_value) = Timespec::try_from(left) else { return false };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: zero, it_value }).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_for_each_time_in_turn() {
        let mut timer = WakeTimer::new();
        assert!(timer.timer.is_some());
        let far = Instant::now() + Duration::from_hours(1);
        // a wait that is given up for an earlier time
        assert!(tokio::time::timeout(Duration::from_millis(1), timer.until(far)).await.is_err());
        for step in [20, 0, 1, 20] {
            let due = Instant::now() + Duration::from_millis(step);
            timer.until(due).await;
            assert!(Instant::now() >= due);
        }
        timer.timer = None;
        let due = Instant::now() + Duration::from_millis(1);
        timer.until(due).await;
        assert!(Instant::now() >= due, "the timer of the runtime serves as well");
    }
}
