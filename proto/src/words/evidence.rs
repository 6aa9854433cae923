//! Words for people: sources of evidence, outcomes and causes.

use crate::{
    cause,
    v1::{Action, Cause, OomOrigin, Outcome, Verdict},
};

/// The name of a source of evidence, as it follows "from the": `kernel`, `CI system`. An unknown source is returned unchanged.
#[must_use]
pub fn source_in_words(source: &str) -> &str {
    match source {
        "ci" => "CI system",
        "exit" => "exit status",
        "measured" => "measurements",
        "person" => "person who corrected it",
        known => known,
    }
}

/// Words for the memory limit at which the kernel killed; empty if it is not known.
#[must_use]
pub fn oom_origin(origin: OomOrigin) -> &'static str {
    match origin {
        OomOrigin::Unspecified => "",
        OomOrigin::OwnLimit => "at the build's own limit",
        OomOrigin::LimitAbove => "at a limit above the build's own, which others may share",
        OomOrigin::Host => "because the whole machine had no memory left",
    }
}

/// Whether a verdict recommends another attempt.
#[must_use]
pub fn is_retry(action: Action) -> bool {
    !matches!(action, Action::No | Action::Unspecified)
}

/// Words for how an attempt ended.
#[must_use]
pub fn outcome_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unspecified => "not known",
        Outcome::Running => "running",
        Outcome::Succeeded => "succeeded",
        Outcome::Failed => "failed",
        Outcome::Lost => "lost",
        Outcome::Ended => "ended, exit status not known",
    }
}

/// Words for a cause, such as `out of memory`; empty if there is no cause.
#[must_use]
pub fn cause_words(cause: Cause) -> &'static str {
    cause::Cause::of_wire(cause).map_or("", |known| known.traits().words)
}

/// The name of a cause in a list for people, made from [`cause_words`]. JSON and command-line options use other names.
#[must_use]
pub fn cause_name(of: Cause) -> String {
    match of {
        Cause::Unspecified => "no cause known".to_owned(),
        known => cause_words(known).to_owned(),
    }
}

/// First words of a verdict on an attempt that succeeded.
pub const NOTHING_TO_RETRY: &str = "Nothing to retry: the attempt succeeded";

/// Whether the verdict is on an attempt that succeeded. Such a verdict has full confidence and no cause.
#[must_use]
pub fn is_of_success(verdict: &Verdict) -> bool {
    verdict.action() == Action::No && verdict.cause() == Cause::Unknown && verdict.confidence >= 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_on_what_succeeded_is_known_by_being_sure_of_no_cause() {
        let of = |cause: Cause, confidence| {
            is_of_success(&Verdict {
                action: Action::No.into(),
                cause: cause.into(),
                confidence,
                ..Verdict::default()
            })
        };
        assert!(of(Cause::Unknown, 1.0) && !of(Cause::Unknown, 0.25) && !of(Cause::Oom, 1.0));
    }

    #[test]
    fn no_and_not_known_are_no_retry() {
        assert!([Action::No, Action::Unspecified].into_iter().all(|action| !is_retry(action)));
        assert!([Action::AsIs, Action::Bigger, Action::Elsewhere].into_iter().all(is_retry));
    }

    #[test]
    fn a_source_of_a_newer_server_is_shown_as_it_is() {
        assert_eq!(["log", "ci", "moon"].map(source_in_words), ["log", "CI system", "moon"]);
    }
}
