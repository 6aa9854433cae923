//! Formats numbers and results for a report.

use std::fmt;

use plimsoll_proto::{
    evidence,
    v1::{Exit, OomOrigin},
};

use super::MeasurementEnd;

impl fmt::Display for MeasurementEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |signal| nix::sys::signal::Signal::try_from(signal).map(nix::sys::signal::Signal::as_str);
        match self {
            Self::Exited(Exit { code: Some(code), .. }) => write!(f, "ended with exit code {code}"),
            Self::Exited(Exit { signal: Some(signal), .. }) => match known(*signal) {
                Ok(name) => write!(f, "was ended by {name}"),
                Err(_realtime) => write!(f, "was ended by signal {signal}"),
            },
            Self::Exited(_unseen) => write!(f, "ended unseen"),
            Self::Ended(how) => write!(f, "ended ({how}), exit status not known,"),
            Self::Followed(until) => write!(f, "was followed until {until}"),
        }
    }
}

/// Describes the memory limit at which the kernel killed a process.
pub(super) fn limit_words(origin: OomOrigin) -> &'static str {
    match origin {
        // the kernel's counters do not show which of these two limits it was
        OomOrigin::OwnLimit => "at the build's own limit, or at one that the build set itself",
        OomOrigin::Unspecified => "for memory",
        above => evidence::oom_origin(above),
    }
}
