//! Predictions, explanations and verdicts.

use plimsoll_proto::v1::{
    Action, Basis, Cause, EvidenceLine, ExplainResponse, Outlook, PartEffect, Prediction, Quantity, Rung,
    Source, UsedAttempt, Verdict,
};

use super::Answers;
use crate::ask::text::{render_explanation, render_jobs, render_prediction, render_verdict};

fn quantity(value: u64) -> Quantity {
    let basis =
        Basis { rung: Rung::Exact.into(), attempts: 7, quantile: 0.95, margin: 1.15, ..Basis::default() };
    Quantity { value, basis: Some(basis) }
}

fn prediction() -> Prediction {
    Prediction {
        memory_request_bytes: Some(quantity(3 << 29)),
        build_jobs: Some(Quantity { value: 4, basis: None }),
        confidence: 0.8,
        attempts: 7,
        reason: "seven attempts\u{1b}[2J agree".into(),
        ..Prediction::default()
    }
}

pub(super) fn answers() -> Answers {
    [predictions(), verdicts()].concat()
}

fn predictions() -> Answers {
    let pool = |pool: &str, clamped, why: &str| {
        render_prediction(&Prediction {
            pool: pool.into(),
            clamped,
            pool_reason: why.into(),
            ..Prediction::default()
        })
    };
    let part = |part: &str, needs_more| PartEffect { part: part.into(), needs_more, change_bytes: 24 << 30 };
    let parts = vec![part("+cuda\u{1b}[2J", true), part("version 2", false)];
    let used = UsedAttempt {
        attempt: "a".into(),
        rung: Rung::Package.into(),
        weight: 0.5,
        need_bytes: 1 << 30,
        censored: true,
        build_jobs: Some(4),
        wall_ms: 61_000,
        measured_bytes: 1 << 29,
        incomplete: Source::Unspecified.into(),
        paused: false,
    };
    let processes = UsedAttempt {
        incomplete: Source::ProcessTree.into(),
        censored: false,
        build_jobs: None,
        weight: 0.012,
        ..used.clone()
    };
    let left_out = UsedAttempt { weight: 0.0, ..used.clone() };
    let explained = |attempts| ExplainResponse { attempts, ..ExplainResponse::default() };
    vec![
        ("the pool is named with its reason", pool("big", false, "by rule 1")),
        ("a pool that takes less says so", pool("big", true, "too large")),
        ("no pool has a reason", pool("", false, "no pool has s390x")),
        (
            "sizes that are not put into force say so",
            render_prediction(&Prediction { shadow: true, ..prediction() }),
        ),
        ("each part has what it adds", render_prediction(&Prediction { parts, ..prediction() })),
        (
            "the heaviest attempts are listed",
            render_explanation(&explained([vec![processes], vec![used; 21], vec![left_out]].concat())),
        ),
        ("no attempt was used", render_explanation(&explained(Vec::new()))),
        ("a server without a curve says so", render_jobs(&explained(Vec::new()))),
    ]
}

fn verdicts() -> Answers {
    let line = |source: &str, text: &str, supports| EvidenceLine {
        source: source.into(),
        text: text.into(),
        supports,
    };
    let outlook = Outlook {
        signature_line: "the moon is full of 0".into(),
        failure_line: "the moon\u{1b}[2J is full".into(),
        failure_line_number: 2,
        failure_line_from_end: true,
        consequences: vec!["make: *** [moon]\u{9b} Error 1".into(); 9],
        seen: 2,
        retried: 4,
        passed: 3,
        cost_memory_gib_hours: 1.5,
        cost_cpu_core_hours: 0.25,
        wait_ms: 30_000,
        waiting_saves_gib_hours: 0.75,
        clamped: true,
        mend: "ask the moon".into(),
        ..Outlook::default()
    };
    let known_apart =
        Outlook { signature_line: "the moon is full of 0".into(), seen: 1, ..Outlook::default() };
    let full = Verdict {
        action: Action::FewerJobs.into(),
        cause: Cause::Oom.into(),
        confidence: 0.9,
        evidence: vec![line("kernel", "1 kill", true), line("exit", "code 1", false)],
        next: Some(prediction()),
        attempts_left: 1,
        reason: "it ran out of memory: retry with -j4 instead of -j8".into(),
        outlook: Some(outlook.clone()),
        ..Verdict::default()
    };
    let mended =
        Verdict { reason: "broken; ask the moon".into(), outlook: Some(outlook), ..Verdict::default() };
    let no = Verdict { action: Action::No.into(), cause: Cause::Deterministic.into(), ..Verdict::default() };
    let success = Verdict { cause: Cause::Unknown.into(), confidence: 1.0, ..no.clone() };
    let by_hand = Verdict { next: Some(prediction()), outlook: Some(known_apart), ..no.clone() };
    vec![
        ("a verdict begins with the answer, then chance, cost and wait", render_verdict(&full)),
        ("what mends it is said once", render_verdict(&mended)),
        ("no retry", render_verdict(&no)),
        ("a size for a start by hand", render_verdict(&by_hand)),
        ("an attempt that succeeded", render_verdict(&success)),
    ]
}
