//! Predictions and verdicts as people read them.

use plimsoll_proto::v1::{Action, Basis, Cause, EvidenceLine, Outlook, Quantity, Rung};

use super::*;

fn prediction() -> Prediction {
    let basis = Basis {
        rung: Rung::Exact.into(),
        attempts: 7,
        quantile: 0.95,
        margin: 1.15,
        bound: String::new(),
        ..Basis::default()
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
fn the_pool_is_named_with_its_reason() {
    let of = |pool: &str, clamped, reason: &str| {
        let (pool, pool_reason) = (pool.to_owned(), reason.to_owned());
        render_prediction(&Prediction { pool, clamped, pool_reason, ..Prediction::default() })
    };
    assert!(of("big", false, "by rule 1").starts_with("pool           big          by rule 1\n"));
    let text = of("big", true, "too large");
    assert!(text.starts_with("pool           big          lowered to what it takes: too large\n"), "{text}");
    assert!(of("", false, "no pool has s390x").starts_with("pool           none         no pool"));
    assert!(!of("", false, "").contains("pool"));
}

#[test]
fn every_reason_is_the_sentence_that_the_page_and_the_report_say() {
    for (kind, quantity) in reasons::examples() {
        let sentence = reasons::sentence(kind, &quantity);
        let row = format!("{:<15}{:<12} {sentence}", kind.as_str(), kind.shown(quantity.value));
        let text = render_prediction(&reasons::prediction_of(kind, &quantity));
        assert!(text.starts_with(&format!("{}\n", row.trim_end())), "{row:?} in {text}");
    }
}

#[test]
fn a_verdict_begins_with_the_answer() {
    let line = EvidenceLine { source: "kernel".to_owned(), text: "1 kill".to_owned(), supports: true };
    let against = EvidenceLine { source: "exit".to_owned(), text: "code 1".to_owned(), supports: false };
    let failure_line = "cc1plus: killed\u{1b}[2J".to_owned();
    let outlook = Outlook { retried: 4, passed: 1, failure_line, ..Outlook::default() };
    let verdict = Verdict {
        action: Action::FewerJobs.into(),
        cause: Cause::Oom.into(),
        confidence: 0.9,
        evidence: vec![line, against],
        next: Some(prediction()),
        attempts_left: 1,
        reason: "it ran out of memory: retry with -j4 instead of -j8".to_owned(),
        outlook: Some(outlook),
        ..Verdict::default()
    };
    let text = render_verdict(&verdict);
    let first = "\
Retry with fewer build jobs: out of memory (90 % sure, 1 attempt left)
failure: cc1plus: killed\\u{1b}[2J
it ran out of memory: retry with -j4 instead of -j8
  + kernel    1 kill
";
    assert!(text.starts_with(first), "{text}");
    let rest =
        "  - exit      code 1\nchance: 1 of 4 retries of this failure passed (25 %)\nnext attempt:\nmemory";
    assert!(text.contains(rest), "{text}");
    let no = Verdict { action: Action::No.into(), cause: Cause::Deterministic.into(), ..Verdict::default() };
    let success = Verdict { cause: Cause::Unknown.into(), confidence: 1.0, ..no.clone() };
    assert_eq!(render_verdict(&success), "Nothing to retry: the attempt succeeded\n");
    assert!(render_verdict(&no).starts_with("Do not retry: the build itself fails (0 % sure"));
    let by_hand = render_verdict(&Verdict { next: Some(prediction()), ..no });
    assert!(
        by_hand.contains("to start it by hand:\nmemory") && !by_hand.contains("next attempt"),
        "{by_hand}"
    );
}
