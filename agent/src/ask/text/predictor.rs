//! Predictions, explanations and verdicts for people.

use std::fmt::Write as _;

use plimsoll_proto::v1::{Basis, Prediction, Quantity, Rung, Verdict};

use super::{clean, groups};
use crate::ask::{numbers, outlook, words};

/// A line for each number, with what decided it.
pub(in crate::ask) fn render_prediction(prediction: &Prediction) -> String {
    let mut text = String::new();
    let mut line = |name: &str, quantity: &Option<Quantity>, say: fn(u64) -> String, term: Term| {
        if let Some(quantity) = quantity {
            let reason = quantity.basis.as_ref().map(|basis| decided(basis, term)).unwrap_or_default();
            let row = format!("{name:<15}{:<12} {reason}", say(quantity.value));
            let _written = writeln!(text, "{}", row.trim_end());
        }
    };
    line("memory request", &prediction.memory_request_bytes, numbers::bytes, |share| {
        format!("costs least: enough for {share} of the builds")
    });
    line("memory limit", &prediction.memory_limit_bytes, numbers::bytes, |share| {
        format!("enough for {share} of the builds")
    });
    line("cpu request", &prediction.cpu_request_millicores, numbers::millicores, |share| {
        format!("{share} of the builds use less on average")
    });
    line("cpu limit", &prediction.cpu_limit_millicores, numbers::millicores, |share| {
        format!("{share} of the builds never use more")
    });
    line("build jobs", &prediction.build_jobs, |jobs| jobs.to_string(), |_| String::new());
    let done = |share: String| format!("{share} of the builds are done by then");
    line("time, half", &prediction.wall_p50_ms, numbers::millis, done);
    line("time, 95 %", &prediction.wall_p95_ms, numbers::millis, done);
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

/// What it means that a number covers a share of the builds.
type Term = fn(String) -> String;

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
        let _written = write!(text, "next attempt:\n{}", render_prediction(next));
    }
    text
}

/// What decided a number, and whose attempts it rests on.
fn decided(basis: &Basis, term: Term) -> String {
    // where no attempt says anything, there is no share of attempts either
    match basis.bound.as_str() {
        "default" => return "the default: nothing is known of it yet".to_owned(),
        "asked for" => return "as asked for".to_owned(),
        _ => {}
    }
    let mut parts = Vec::new();
    if basis.quantile > 0.0 {
        parts.push(term(numbers::percent(basis.quantile)));
    }
    if basis.margin > 1.0 {
        parts.push(format!("{} more for file pages", numbers::percent(basis.margin - 1.0)));
    }
    match basis.bound.as_str() {
        "" if basis.quantile <= 0.0 && basis.attempts > 0 => parts.push("seen most".to_owned()),
        "" => {}
        bound => parts.push(format!("held by the {}", clean(bound).trim_start_matches("the "))),
    }
    let whose = match basis.rung() {
        Rung::Default | Rung::Unspecified => String::new(),
        rung => format!(" ({}, mainly of {})", attempts(basis.attempts), words::scope(rung)),
    };
    parts.join(", ") + &whose
}

pub(super) fn attempts(count: u32) -> String {
    if count == 1 { "1 attempt".to_owned() } else { format!("{count} attempts") }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Action, Cause, EvidenceLine, Outlook};

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
memory request 1.50 GiB     costs least: enough for 95 % of the builds, 15 % more for file pages (7 attempts, mainly of exactly this key)
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
    fn what_decided_a_number_is_said_in_words() {
        let basis = |rung: Rung, attempts, quantile, bound: &str| Basis {
            rung: rung.into(),
            attempts,
            quantile,
            margin: 1.0,
            bound: bound.to_owned(),
        };
        let quantity = |basis| Some(Quantity { value: 1, basis: Some(basis) });
        let text = render_prediction(&Prediction {
            memory_request_bytes: quantity(basis(Rung::Package, 1, 0.5, "cap of 1.00 GiB")),
            cpu_limit_millicores: quantity(basis(Rung::Default, 0, 1.0, "default")),
            build_jobs: quantity(basis(Rung::Exact, 0, 0.0, "asked for")),
            wall_p50_ms: quantity(basis(Rung::Fleet, 9, 0.5, "")),
            ..Prediction::default()
        });
        for expected in [
            "costs least: enough for 50 % of the builds, held by the cap of 1.00 GiB (1 attempt, mainly of this package)\n",
            "cpu limit      0.001        the default: nothing is known of it yet\n",
            "build jobs     1            as asked for\n",
            "50 % of the builds are done by then (9 attempts, mainly of the fleet)\n",
        ] {
            assert!(text.contains(expected), "{expected:?} in {text}");
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
    }
}
