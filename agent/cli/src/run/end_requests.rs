//! Whether a build ended because of a signal, or failed by itself.
//!
//! A signal that the build survives changes nothing: a hangup under `nohup`, SIGHUP to read a configuration again,
//! SIGQUIT for a dump of threads. A build ended because of a signal if one of these holds:
//!
//! - The signal ended it, or its exit code is 128 + n.
//! - It got SIGTERM or SIGINT, did not ignore it, and ended within 30 s; SIGHUP or SIGQUIT, within 1 s.

use std::{collections::BTreeMap, time::Duration};

use plimsoll_proto::v1::Exit;
use rustix::process::Signal;
use tokio::time::Instant;

/// Signals that stop a process by default (signal(7)), apart from SIGSTOP.
pub(super) const STOPPING: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::TTOU];
/// Signals that ask a job to end, and how long a build may clean up after each. 30 s is what Kubernetes waits before
/// it kills. The second two have other uses, which a build survives.
const ENDING_SIGNALS: [(Signal, Duration); 4] = [
    (Signal::TERM, Duration::from_secs(30)),
    (Signal::INT, Duration::from_secs(30)),
    (Signal::HUP, Duration::from_secs(1)),
    (Signal::QUIT, Duration::from_secs(1)),
];

/// When each signal has reached a build last.
#[derive(Debug, Default)]
pub(super) struct EndRequests(BTreeMap<i32, Instant>);

impl EndRequests {
    /// Notes a signal that the build does not ignore.
    pub(super) fn note(&mut self, signal: Signal, at: Instant) {
        self.0.insert(signal.as_raw(), at);
    }

    /// Whether a build that ended in this way at this time ended because of a signal.
    pub(super) fn have_ended(&self, exit: Exit, at: Instant) -> bool {
        let soon = |(signal, within): &(Signal, Duration)| {
            self.0.get(&signal.as_raw()).is_some_and(|sent| at.saturating_duration_since(*sent) <= *within)
        };
        ENDING_SIGNALS.iter().any(soon) || self.0.keys().any(|number| is_end_by(exit, *number))
    }
}

/// Whether a signal that asks jobs to end was the end of a build, also if the agent has not seen it.
pub(super) fn is_end_by_request(exit: Exit) -> bool {
    ENDING_SIGNALS.iter().any(|(signal, _within)| is_end_by(exit, signal.as_raw()))
}

fn is_end_by(exit: Exit, number: i32) -> bool {
    exit.signal == Some(number) || exit.code == Some(128_i32.saturating_add(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survived_signal_is_not_the_end() {
        let code = |code| Exit { code: Some(code), signal: None };
        let by = |signal| Exit { code: None, signal: Some(signal) };
        for (sent, after_ms, exit, ended) in [
            (Signal::TERM, 29_000, code(4), true),
            (Signal::TERM, 31_000, code(4), false),
            (Signal::TERM, 90_000, code(143), true),
            (Signal::INT, 5_000, code(2), true),
            (Signal::HUP, 500, code(4), true),
            (Signal::HUP, 1_300, by(9), false),
            (Signal::HUP, 1_300, by(1), true),
            (Signal::QUIT, 1_300, code(1), false),
            (Signal::XCPU, 0, code(1), false),
            (Signal::XCPU, 90_000, by(24), true),
        ] {
            let (mut requests, at) = (EndRequests::default(), Instant::now());
            requests.note(sent, at);
            let end = at + Duration::from_millis(after_ms);
            assert_eq!(requests.have_ended(exit, end), ended, "{sent:?} {after_ms} {exit:?}");
        }
    }
}
