//! Predictions, explanations and verdicts for people.

use std::fmt::Write as _;

use plimsoll_proto::{
    reasons::{self, SizeKind},
    v1::{Prediction, Verdict},
};

use super::{clean, groups};
use crate::ask::{numbers, outlook, words};

/// A line for each number, with what decided it.
pub(in crate::ask) fn render_prediction(prediction: &Prediction) -> String {
    let mut text = String::new();
    for kind in SizeKind::ALL {
        let Some(quantity) = kind.of(prediction) else { continue };
        let why = reasons::sentence(kind, quantity);
        let row = format!("{:<15}{:<12} {}", kind.name(), kind.shown(quantity.value), clean(&why));
        let _written = writeln!(text, "{}", row.trim_end());
    }
    if !prediction.pool_reason.is_empty() {
        let name = if prediction.pool.is_empty() { "none" } else { &prediction.pool };
        let clamped = if prediction.clamped { "lowered to what it takes: " } else { "" };
        let row = format!("{:<15}{:<12} {clamped}{}", "pool", clean(name), clean(&prediction.pool_reason));
        let _written = writeln!(text, "{row}");
    }
    let confidence = numbers::percent(prediction.confidence);
    let _written = writeln!(text, "{:<15}{confidence}, from {}", "confidence", attempts(prediction.attempts));
    if !prediction.reason.is_empty() {
        let _written = writeln!(text, "{}", clean(&prediction.reason));
    }
    text.push_str(&groups::render(prediction.need_groups.as_ref()));
    if prediction.shadow {
        text.push_str("shadow mode: these sizes are not put into force; the build keeps what it has\n");
    }
    text
}

/// The answer in the first line, then why (`+` for it, `-` against it), then what a retry would mean, then with what size.
pub(in crate::ask) fn render_verdict(verdict: &Verdict) -> String {
    let answer = match words::action(verdict.action()).as_str() {
        _ if !words::is_retry(verdict.action()) => "do not retry".to_owned(),
        action => format!("retry {}", action.replace('_', " ")),
    };
    let cause = words::cause(verdict.cause()).replace('_', " ");
    let sure = numbers::percent(verdict.confidence);
    let mut text = format!("{answer}: {cause} ({sure} sure, {} left)\n", attempts(verdict.attempts_left));
    if !verdict.reason.is_empty() {
        let _written = writeln!(text, "{}", clean(&verdict.reason));
    }
    for line in &verdict.evidence {
        let mark = if line.supports { '+' } else { '-' };
        let _written = writeln!(text, "  {mark} {:<9} {}", clean(&line.source), clean(&line.text));
    }
    for line in outlook::lines(verdict) {
        let _written = writeln!(text, "{line}");
    }
    if let Some(next) = &verdict.next {
        let head = if words::is_retry(verdict.action()) { "next attempt" } else { "to start it by hand" };
        let _written = write!(text, "{head}:\n{}", render_prediction(next));
    }
    text
}

pub(super) fn attempts(count: u32) -> String {
    if count == 1 { "1 attempt".to_owned() } else { format!("{count} attempts") }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Action, Basis, Cause, EvidenceLine, Outlook, Quantity, Rung};

    use super::*;

    fn prediction() -> Prediction {
        let basis = Basis {
            rung: Rung::Exact.into(),
            attempts: 7,
            quantile: 0.95,
            margin: 1.15,
            bound: String::new(),
        };
        Prediction {
            memory_request_bytes: Some(Quantity { value: 3 << 29, basis: Some(basis) }),
            build_jobs: Some(Quantity { value: 4, basis: None }),
            confidence: 0.8,
            attempts: 7,
            reason: "seven attempts\u{1b}[2J agree".to_owned(),
            ..Prediction::default()
        }
    }

    #[test]
    fn each_number_has_its_reason() {
        let expected = "\
memory request 1.50 GiB     the cheapest size: covers 95 % of similar builds (7 attempts, mostly of this key)
build jobs     4
confidence     80 %, from 7 attempts
seven attempts [2J agree
";
        assert_eq!(render_prediction(&prediction()), expected);
    }

    #[test]
    fn the_pool_is_named_with_its_reason() {
        let of = |pool: &str, clamped, reason: &str| {
            let (pool, pool_reason) = (pool.to_owned(), reason.to_owned());
            render_prediction(&Prediction { pool, clamped, pool_reason, ..Prediction::default() })
        };
        assert!(of("big", false, "by rule 1").starts_with("pool           big          by rule 1\n"));
        let text = of("big", true, "too large");
        assert!(
            text.starts_with("pool           big          lowered to what it takes: too large\n"),
            "{text}"
        );
        assert!(of("", false, "no pool has s390x").starts_with("pool           none         no pool"));
        assert!(!of("", false, "").contains("pool"));
    }

    #[test]
    fn every_reason_is_the_sentence_that_the_page_and_the_report_say() {
        for (kind, quantity) in reasons::examples() {
            let said = reasons::sentence(kind, &quantity);
            let row = format!("{:<15}{:<12} {said}", kind.name(), kind.shown(quantity.value));
            let text = render_prediction(&reasons::prediction_of(kind, &quantity));
            assert!(text.starts_with(&format!("{}\n", row.trim_end())), "{row:?} in {text}");
        }
    }

    #[test]
    fn a_verdict_begins_with_the_answer() {
        let line = EvidenceLine { source: "kernel".to_owned(), text: "1 kill".to_owned(), supports: true };
        let against = EvidenceLine { source: "exit".to_owned(), text: "code 1".to_owned(), supports: false };
        let outlook = Outlook { retried: 4, passed: 1, ..Outlook::default() };
        let verdict = Verdict {
            action: Action::FewerJobs.into(),
            cause: Cause::Oom.into(),
            confidence: 0.9,
            evidence: vec![line, against],
            next: Some(prediction()),
            attempts_left: 1,
            outlook: Some(outlook),
            ..Verdict::default()
        };
        let text = render_verdict(&verdict);
        assert!(
            text.starts_with("retry fewer jobs: oom (90 % sure, 1 attempt left)\n  + kernel    1 kill\n"),
            "{text}"
        );
        let rest = "  - exit      code 1\nchance: 1 of 4 retries of this failure passed (25 %)\nnext attempt:\nmemory";
        assert!(text.contains(rest), "{text}");
        let no =
            Verdict { action: Action::No.into(), cause: Cause::Deterministic.into(), ..Verdict::default() };
        assert!(render_verdict(&no).starts_with("do not retry: deterministic"));
        let by_hand = render_verdict(&Verdict { next: Some(prediction()), ..no });
        assert!(
            by_hand.contains("to start it by hand:\nmemory") && !by_hand.contains("next attempt"),
            "{by_hand}"
        );
    }
}
