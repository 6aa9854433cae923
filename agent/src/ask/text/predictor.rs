//! Predictions, explanations and verdicts for people.

use std::fmt::Write as _;

use plimsoll_proto::v1::{Basis, ExplainResponse, Prediction, Quantity, Rung, Verdict};

use super::clean;
use crate::ask::{numbers, outlook, words};

/// Attempts that an explanation shows.
const SHOWN: usize = 20;

/// A line for each number, with its reason.
pub(in crate::ask) fn render_prediction(prediction: &Prediction) -> String {
    let mut text = String::new();
    let mut line = |name: &str, quantity: &Option<Quantity>, say: fn(u64) -> String| {
        if let Some(quantity) = quantity {
            let reason = quantity.basis.as_ref().map(basis).unwrap_or_default();
            let row = format!("{name:<15}{:<12} {reason}", say(quantity.value));
            let _written = writeln!(text, "{}", row.trim_end());
        }
    };
    line("memory request", &prediction.memory_request_bytes, numbers::bytes);
    line("memory limit", &prediction.memory_limit_bytes, numbers::bytes);
    line("cpu request", &prediction.cpu_request_millicores, numbers::millicores);
    line("cpu limit", &prediction.cpu_limit_millicores, numbers::millicores);
    line("build jobs", &prediction.build_jobs, |jobs| jobs.to_string());
    line("time, half", &prediction.wall_p50_ms, numbers::millis);
    line("time, 95 %", &prediction.wall_p95_ms, numbers::millis);
    let confidence = numbers::percent(prediction.confidence);
    let _written = writeln!(text, "{:<15}{confidence}, from {}", "confidence", attempts(prediction.attempts));
    if !prediction.reason.is_empty() {
        let _written = writeln!(text, "{}", clean(&prediction.reason));
    }
    text
}

/// A prediction and the attempts behind it.
pub(in crate::ask) fn render_explanation(explained: &ExplainResponse) -> String {
    let mut text = explained.prediction.as_ref().map(render_prediction).unwrap_or_default();
    if explained.attempts.is_empty() {
        text.push_str("no attempt was used\n");
        return text;
    }
    let _written = writeln!(text, "\nweight  need          same as        attempt");
    for used in explained.attempts.iter().take(SHOWN) {
        let more = if used.censored { ">" } else { "" };
        let need = format!("{more}{}", numbers::bytes(used.need_bytes));
        let weight = numbers::percent(used.weight);
        let _written = writeln!(
            text,
            "{weight:>6}  {need:<13} {:<14} {}",
            words::rung(used.rung()),
            clean(&used.attempt)
        );
    }
    let rest = explained.attempts.len().saturating_sub(SHOWN);
    if rest > 0 {
        let _written = writeln!(text, "and {rest} more, lighter ones");
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
        let _written = write!(text, "next attempt:\n{}", render_prediction(next));
    }
    text
}

fn basis(basis: &Basis) -> String {
    let mut parts = vec![match basis.rung() {
        Rung::Default | Rung::Unspecified => "the default".to_owned(),
        rung => format!("{} of {}", attempts(basis.attempts), scope(rung)),
    }];
    if basis.quantile > 0.0 {
        parts.push(format!("covers {}", numbers::percent(basis.quantile)));
    }
    if basis.margin > 1.0 {
        parts.push(format!("margin {}", numbers::percent(basis.margin - 1.0)));
    }
    if !basis.bound.is_empty() {
        parts.push(clean(&basis.bound));
    }
    parts.join(", ")
}

fn scope(rung: Rung) -> &'static str {
    match rung {
        Rung::Exact => "exactly this key",
        Rung::NoVersion => "this key in other versions",
        Rung::NoCompiler => "this key with other compilers",
        Rung::Package => "this package",
        Rung::BuildSystem => "this build system",
        Rung::Fleet | Rung::Default | Rung::Unspecified => "the fleet",
    }
}

fn attempts(count: u32) -> String {
    if count == 1 { "1 attempt".to_owned() } else { format!("{count} attempts") }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Action, Cause, EvidenceLine, Outlook, UsedAttempt};

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
memory request 1.50 GiB     7 attempts of exactly this key, covers 95 %, margin 15 %
build jobs     4
confidence     80 %, from 7 attempts
seven attempts [2J agree
";
        assert_eq!(render_prediction(&prediction()), expected);
    }

    #[test]
    fn an_explanation_lists_the_attempts() {
        let used = UsedAttempt {
            attempt: "a".to_owned(),
            rung: Rung::Package.into(),
            weight: 0.5,
            need_bytes: 1 << 30,
            censored: true,
        };
        let explained = ExplainResponse { prediction: None, attempts: vec![used; 22] };
        let text = render_explanation(&explained);
        assert!(text.contains("\n  50 %  >1.00 GiB     package        a\n"), "{text}");
        assert!(text.ends_with("and 2 more, lighter ones\n"), "{text}");
        assert_eq!(render_explanation(&ExplainResponse::default()), "no attempt was used\n");
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
