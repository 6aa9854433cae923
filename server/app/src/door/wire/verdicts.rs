//! `ShouldRetry`: parses the caller's report on an ended attempt, and builds the verdict.

use plimsoll_core::{
    domain::{
        Evidence, EvidenceLine, FieldViolation, ListedRun, LogPlace, RetryOutlook, Signature, Verdict,
        VerdictCorrection,
    },
    validated::{Validated, key_or_empty, text},
};
use plimsoll_proto::{limits, v1 as pb};

use super::{attempt_id, next_size, read_cause, read_exit};
use crate::verdicts::CorrectionRequest;

/// Parses the caller's report.
pub(crate) fn question(wire: pb::ShouldRetryRequest) -> Validated<Evidence> {
    let pb::ShouldRetryRequest {
        attempt,
        key,
        exit,
        log_tail,
        failure_reason,
        container_reason,
        pod_reason,
        number,
        include_retried,
        newest_run: _,
    } = wire;
    if log_tail.len() > limits::LOG_TAIL_BYTES {
        let description =
            format!("has {} bytes; send the last {} of the log", log_tail.len(), limits::LOG_TAIL_BYTES);
        return Err(FieldViolation::new("log_tail", description));
    }
    let reason = |name: &str, value: String| text(name, value, limits::REASON_BYTES);
    Ok(Evidence {
        key: key_or_empty(key)?,
        number: number.max(1),
        exit: read_exit(exit)?,
        log_tail: String::from_utf8_lossy(&log_tail).into_owned(),
        failure_reason: reason("failure_reason", failure_reason)?,
        container_reason: reason("container_reason", container_reason)?,
        pod_reason: reason("pod_reason", pod_reason)?,
        listed: listed(include_retried)?,
        ..Evidence::about(attempt_id("attempt", &attempt)?)
    })
}

/// Parses the runs of a job as listed by the CI system.
fn listed(wire: Vec<pb::RetriedJob>) -> Validated<Vec<ListedRun>> {
    if wire.len() > limits::RETRIED_JOBS {
        let description =
            format!("lists {} runs; send the last {} of the job", wire.len(), limits::RETRIED_JOBS);
        return Err(FieldViolation::new("include_retried", description));
    }
    wire.into_iter().enumerate().map(|(at, run)| listed_run(at, run)).collect()
}

fn listed_run(at: usize, wire: pb::RetriedJob) -> Validated<ListedRun> {
    let pb::RetriedJob { id, name, status, failure_reason, created_unix_ms, finished_unix_ms } = wire;
    let field = |name: &str| format!("include_retried[{at}].{name}");
    if id.is_empty() {
        return Err(FieldViolation::new(field("id"), "is empty; send the CI system's id of the run"));
    }
    if finished_unix_ms.zip(created_unix_ms).is_some_and(|(ended, made)| ended < made) {
        return Err(FieldViolation::new(field("finished_unix_ms"), "is before created_unix_ms"));
    }
    let short = |name: &str, value: String| text(&field(name), value, limits::REASON_BYTES);
    Ok(ListedRun {
        id: text(&field("id"), id, limits::ATTEMPT_BYTES)?,
        name: short("name", name)?,
        status: short("status", status)?,
        failure_reason: short("failure_reason", failure_reason)?,
        created_unix_ms,
        finished_unix_ms,
    })
}

pub(crate) fn verdict(verdict: Verdict) -> pb::Verdict {
    let line = |line: EvidenceLine| pb::EvidenceLine {
        source: line.source.as_str().to_owned(),
        text: line.text,
        supports: line.supports,
    };
    let correction = verdict.correction().map(correction);
    pb::Verdict {
        attempt: verdict.attempt.to_string(),
        action: verdict.action.to_wire().into(),
        cause: verdict.cause.to_wire().into(),
        confidence: verdict.confidence,
        evidence: verdict.evidence.into_iter().map(line).collect(),
        next: verdict.next.as_ref().and_then(next_size::next_size),
        attempts_left: verdict.attempts_left,
        reason: verdict.reason,
        given_unix_ms: verdict.given_unix_ms.unwrap_or_default(),
        correction,
        outlook: Some(outlook(verdict.outlook)),
        cause_source: verdict
            .basis
            .cause_source
            .map_or_else(String::new, |source| source.as_str().to_owned()),
    }
}

/// Parses a person's correction of a failure's cause.
pub(crate) fn correction_request(wire: pb::CorrectVerdictRequest) -> Validated<CorrectionRequest> {
    let pb::CorrectVerdictRequest { attempt, cause, why, signature_for_ms, undo } = wire;
    let attempt = attempt_id("attempt", &attempt)?;
    let why = text("why", why, limits::CORRECTION_BYTES)?.trim().to_owned();
    let cause = if undo { None } else { Some(read_cause("cause", cause)?) };
    if undo && signature_for_ms.is_some() {
        return Err(FieldViolation::new("signature_for_ms", "says nothing with undo; leave it out"));
    }
    if why.is_empty() && !undo {
        return Err(FieldViolation::new("why", "is empty; say in a few words what happened"));
    }
    if signature_for_ms.is_some_and(|time| !limits::SIGNATURE_FOR_MS.contains(&time)) {
        let description =
            "is not between 1 minute and 30 days; other failures are judged by the rules after that";
        return Err(FieldViolation::new("signature_for_ms", description));
    }
    Ok(CorrectionRequest { attempt, cause, why, signature_for_ms })
}

fn correction(one: &VerdictCorrection) -> pb::Correction {
    let source = one.found_source.map_or_else(String::new, |source| source.as_str().to_owned());
    pb::Correction {
        cause: one.cause.to_wire().into(),
        why: one.why.clone(),
        by: one.by.clone(),
        at_unix_ms: one.at_unix_ms,
        found: one.found.to_wire().into(),
        found_source: source,
        rule: one.rule.clone(),
        signature_until_unix_ms: one.signature.as_ref().map(|rule| rule.until_unix_ms),
    }
}

fn outlook(outlook: RetryOutlook) -> pb::Outlook {
    let signature = outlook.signature.unwrap_or(Signature {
        id: String::new(),
        line: String::new(),
        first: String::new(),
    });
    let cost = outlook.cost.unwrap_or_default();
    let (number, from_end) = match outlook.root.as_ref().map(|root| root.at) {
        None => (0, false),
        Some(LogPlace::FromStart(number)) => (number, false),
        Some(LogPlace::FromEnd(number)) => (number, true),
    };
    pb::Outlook {
        signature: signature.id,
        signature_line: signature.line,
        failure_line: signature.first,
        seen: outlook.seen,
        retried: outlook.retried,
        passed: outlook.passed,
        cost_memory_gib_hours: cost.memory_gib_h,
        cost_cpu_core_hours: cost.cpu_core_h,
        wait_ms: outlook.wait.0,
        waiting_saves_gib_hours: outlook.waiting_saves_gib_h,
        clamped: outlook.clamped,
        mend: outlook.mend.unwrap_or_default(),
        stopped_at_bytes: outlook.stopped_at.map(|size| size.0),
        failure_line_number: number,
        failure_line_from_end: from_end,
        consequences: outlook.root.map(|root| root.then).unwrap_or_default(),
        own_failure: outlook.own_failure.unwrap_or_default(),
        retries_allowed: outlook.retries_allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retried_jobs_are_validated_one_by_one() {
        let run = |id: &str| pb::RetriedJob { id: id.into(), name: "build".into(), ..Default::default() };
        let asked = |list: Vec<pb::RetriedJob>| {
            question(pb::ShouldRetryRequest {
                attempt: "a".into(),
                include_retried: list,
                ..Default::default()
            })
        };
        let backwards = pb::RetriedJob { created_unix_ms: Some(2), finished_unix_ms: Some(1), ..run("3") };
        let cases = [
            (vec![run("1"), run("")], "include_retried[1].id"),
            (vec![run(&"1".repeat(129))], "include_retried[0].id"),
            (vec![pb::RetriedJob { name: "a\n".into(), ..run("1") }], "include_retried[0].name"),
            (vec![pb::RetriedJob { status: "s".repeat(257), ..run("1") }], "include_retried[0].status"),
            (vec![run("1"), run("2"), backwards], "include_retried[2].finished_unix_ms"),
            (vec![run("1"); 101], "include_retried"),
        ];
        for (list, field) in cases {
            assert_eq!(asked(list).unwrap_err().field, field);
        }
        assert_eq!(asked(vec![run("1"); 100]).unwrap().listed.len(), 100);
    }

    #[test]
    fn a_log_tail_may_hold_any_bounded_bytes() {
        let wire = |log_tail| pb::ShouldRetryRequest { attempt: "a".into(), log_tail, ..Default::default() };
        assert_eq!(question(wire(vec![0xff, b'x'])).unwrap().log_tail, "\u{fffd}x");
        assert_eq!(question(wire(vec![0; limits::LOG_TAIL_BYTES + 1])).unwrap_err().field, "log_tail");
    }
}
