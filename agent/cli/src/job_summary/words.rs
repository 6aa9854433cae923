//! Words for how a measured command ended, and where its samples are.

use std::fmt::{self, Write as _};

use plimsoll_proto::{shown::clean, v1::Exit};

use super::{BuildFacts, MeasurementEnd};

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

/// Where the samples are: `delivered as job-7`, `job-7 kept for the next run in /spool: connection refused`.
pub(super) fn samples(facts: &BuildFacts) -> String {
    if facts.measures_only {
        return "kept nowhere: no server is set".to_owned();
    }
    let report = &facts.delivery;
    let mut text = match &report.kept {
        _ if report.delivered => format!("delivered as {}", facts.attempt),
        Some(kept) => format!("{} kept for the next run in {}", facts.attempt, kept.display()),
        None => format!("{} not delivered", facts.attempt),
    };
    if report.lost > 0 {
        let _written = write!(text, ", {} lost", report.lost);
    }
    if let Some(problem) = &report.problem {
        let _written = write!(text, ": {problem}");
    }
    clean(&text)
}
