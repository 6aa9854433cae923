//! Words for people: sources of evidence, outcomes and causes.

use std::fmt::Write as _;

use crate::{
    cause, measured,
    v1::{Action, Cause, Outcome, Summary, Verdict},
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

/// The result of an attempt as text: `failed, out of memory (exit 2)`.
#[must_use]
pub fn result(summary: &Summary) -> String {
    let (outcome, cause) = (summary.outcome(), summary.cause());
    let words = match (outcome, cause_words(cause)) {
        (_, "") => outcome_words(outcome).to_owned(),
        (Outcome::Ended, _) if cause == Cause::Unknown => outcome_words(outcome).to_owned(),
        _ if measured::is_canceled(summary) => "canceled".to_owned(),
        (_, words) => format!("{}, {words}", outcome_words(outcome)),
    };
    with_exit(words, summary)
}

/// The result in a list: a cause replaces the word `failed`, as on the web page: `out of memory (exit 2)`.
#[must_use]
pub fn result_cell(summary: &Summary) -> String {
    let is_known = !matches!(summary.cause(), Cause::Unspecified | Cause::Unknown);
    if summary.outcome() == Outcome::Failed && is_known {
        return with_exit(cause_words(summary.cause()).to_owned(), summary);
    }
    result(summary)
}

fn with_exit(mut text: String, summary: &Summary) -> String {
    let exit = summary.exit.unwrap_or_default();
    if let Some(code) = exit.code.filter(|code| *code != 0) {
        let _written = write!(text, " (exit {code})");
    }
    if let Some(signal) = exit.signal {
        let _written = write!(text, " (signal {signal})");
    }
    text
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
    fn a_verdict_on_success_is_recognized() {
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
    fn an_unknown_source_is_shown_unchanged() {
        assert_eq!(["log", "ci", "moon"].map(source_in_words), ["log", "CI system", "moon"]);
    }
}
