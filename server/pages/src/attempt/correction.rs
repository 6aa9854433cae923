//! The form with which a person corrects the cause of a failed attempt.

use maud::{Markup, html};
use plimsoll_proto::{
    WireEnum as _, limits,
    v1::{Cause, Correction, GetAttemptResponse, Outcome},
};

use crate::{times, words};

/// How long a correction may also hold for other failures with the same signature: milliseconds, and the words
/// for it.
const SIGNATURE_TIMES: [(&str, &str); 4] = [
    ("", "this attempt"),
    ("3600000", "the same failures for 1 hour"),
    ("86400000", "the same failures for 24 hours"),
    ("604800000", "the same failures for 7 days"),
];

/// The form; it appears only for an attempt that ended without success.
pub(super) fn form(shown: &GetAttemptResponse, address: &str) -> Markup {
    let summary = shown.summary.clone().unwrap_or_default();
    let correction = shown.verdict.as_ref().and_then(|verdict| verdict.correction.as_ref());
    let has_signature = shown
        .verdict
        .as_ref()
        .and_then(|verdict| verdict.outlook.as_ref())
        .is_some_and(|outlook| !outlook.signature.is_empty());
    html! {
        @if matches!(summary.outcome(), Outcome::Failed | Outcome::Lost | Outcome::Ended) {
            h2 { "Correct the cause" }
            @if let Some(correction) = correction { (correction_note(correction)) }
            form.search action=(address) method="post" {
                label { "Cause" select name="cause" {
                    @for one in Cause::all().filter(|one| *one != Cause::Unknown) {
                        option value=(one.short_name()) selected[one == summary.cause()] { (words::cause(one)) }
                    }
                } }
                label { "Why" input name="why" required maxlength=(limits::CORRECTION_BYTES); }
                @if has_signature {
                    label { "For" select name="signature_for_ms" {
                        @for (value, words) in SIGNATURE_TIMES { option value=(value) { (words) } }
                    } }
                }
                button { "Correct" }
            }
            @if correction.is_some() {
                form.search action=(address) method="post" {
                    input type="hidden" name="undo" value="1";
                    button { "Take the correction back" }
                }
            }
        }
    }
}

fn correction_note(correction: &Correction) -> Markup {
    html! {
        p {
            (correction.by) " corrected it to " strong { (words::cause(correction.cause())) } ", "
            (times::time(correction.at_unix_ms)) ". The rules found " (words::cause(correction.found())) " (rule " (correction.rule) ")."
            @if let Some(until) = correction.signature_until_unix_ms { " It holds for the same failures until " (times::time(until)) "." }
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Outlook, Summary, Verdict};

    use super::*;

    fn shown(outcome: Outcome, verdict: Option<Verdict>) -> String {
        let summary = Summary { outcome: outcome.into(), cause: Cause::Infra.into(), ..Summary::default() };
        let shown = GetAttemptResponse { summary: Some(summary), verdict, ..Default::default() };
        form(&shown, "/attempts/7").into_string()
    }

    #[test]
    fn only_failures_are_correctable_and_corrections_undoable() {
        assert_eq!(shown(Outcome::Succeeded, None) + &shown(Outcome::Running, None), "");
        let plain = shown(Outcome::Failed, Some(Verdict::default()));
        assert!(plain.contains("method=\"post\"") && plain.contains("value=\"INFRA\" selected"), "{plain}");
        for absent in ["signature_for_ms", "undo", "value=\"UNKNOWN\""] {
            assert!(!plain.contains(absent), "{absent}: {plain}");
        }
        let outlook = Some(Outlook { signature: "0123456789abcdef".into(), ..Outlook::default() });
        let correction =
            Correction { by: "<ann>".into(), rule: "compile-error".into(), ..Correction::default() };
        let corrected = Verdict { outlook, correction: Some(correction), ..Verdict::default() };
        let form = shown(Outcome::Failed, Some(corrected));
        for there in ["signature_for_ms", "name=\"undo\"", "&lt;ann&gt; corrected it", "rule compile-error"] {
            assert!(form.contains(there), "{there}: {form}");
        }
    }
}
