//! Decides the verdict: the remedy for the cause, and whether budget, earlier failures and cost allow it.

use plimsoll_proto::measured::{BY_PROCESSES, IncompleteNeed};

use crate::retry::{
    cause::corrections,
    cause::finding::Finding,
    decision::outlook,
    decision::policy::RetryPolicy,
    decision::remedy::{Remedy, RemedyCase, as_its_pod, remedy},
    decision::retry_allowance::{WeighedFailure, allow, allowed_below_budget},
    known::known_failures::{KnownFailures, RetrySuccess},
    known::lineage::{self, EarlierAttempts},
    known::signature,
};
use crate::{
    domain::{
        Action, AttemptBrief, Cause, Evidence, EvidenceLine, EvidenceSource, History, Prediction,
        RetryOutlook, Summary, Verdict, VerdictBasis,
    },
    predict::{Settings, as_answer, predict_known},
};

/// Everything besides the evidence that a verdict depends on.
#[derive(Debug, Clone, Copy)]
pub struct VerdictInputs<'k> {
    /// Ended attempts.
    pub history: &'k History,
    /// Failures that earlier verdicts recorded.
    pub seen: &'k KnownFailures,
    /// Settings for sizes.
    pub settings: &'k Settings,
    /// Settings for retries.
    pub policy: &'k RetryPolicy,
}

/// Decides whether an ended attempt should be retried, with which change, and why. `finding` is the classification of its failure.
pub fn judge(evidence: &Evidence, finding: Finding, known: &VerdictInputs<'_>) -> Verdict {
    let Some(cause) = finding.cause else { return nothing_to_retry(evidence, finding, known.policy) };
    let earlier = lineage::of(evidence, known.history);
    let case = weigh(evidence, finding, cause, &earlier, known);
    let evidence = &*earlier.with_build_jobs(evidence);
    let key = evidence.known_key();
    let first = predict_known(known.history, key, known.settings);
    // if memory is not the cause, the sizes are those that a Predict call would get
    let asked_for = if case.cause.is_memory() {
        first.clone()
    } else {
        as_answer(first.clone(), known.history, key, known.settings)
    };
    let predicted = &as_its_pod(asked_for, evidence, known.settings);
    let (finding, cause) = (&case.finding, case.cause);
    let remedy = remedy(RemedyCase { evidence, finding, cause, predicted, first: &first, known: *known });
    let (allowed, rule) = allow(remedy, &case, evidence, known.policy);
    build_verdict(evidence, case, (allowed, rule), known.policy)
}

/// Combines the finding with the job's earlier attempts and with earlier results of the same failure.
fn weigh(
    evidence: &Evidence,
    mut finding: Finding,
    cause: Cause,
    lineage: &EarlierAttempts<'_>,
    known: &VerdictInputs<'_>,
) -> WeighedFailure {
    let (key, policy) = (evidence.known_key(), known.policy);
    let number = lineage.number(evidence);
    let free_before = lineage.earlier.iter().filter(|summary| was_taken_away(summary)).count();
    let free_before = u32::try_from(free_before).unwrap_or(u32::MAX);
    let spent = number.saturating_sub(free_before).max(1);
    let signature = signature::of(&finding);
    let (mut again, mut helped) = (0, RetrySuccess::default());
    if let Some(signature) = &signature {
        again = known.seen.repeats_of(key, signature, &evidence.attempt, &lineage.ids());
        helped = known.seen.helped(key, signature, known.history);
    }
    let went_away = helped.passed > 0 && can_be_flaky(&finding, cause);
    let cause = if went_away { Cause::Flaky } else { finding.decided_cause(cause) };
    if went_away {
        let text = format!("{} of {} retries of this failure passed", helped.passed, helped.tried);
        finding.lines.push(EvidenceLine { source: EvidenceSource::Measured, text, supports: true });
    }
    finding.lines.extend(evidence.measured.as_deref().and_then(|measured| by_processes(measured, cause)));
    let terms = policy.terms(key, cause);
    let nodes_fault = evidence.measured.as_deref().is_some_and(Summary::is_nodes_fault);
    // an attempt that lost its node or its slot does not count against the budget
    let free = (nodes_fault || (!terms.counts_in_budget && finding.is_proven()))
        && free_before < policy.max_preempted;
    let left = policy.max_attempts.saturating_sub(spent - u32::from(free));
    WeighedFailure {
        finding,
        cause,
        signature,
        repeated: again,
        retry_success: helped,
        terms,
        spent_attempts: spent - u32::from(free),
        retries_left: left,
    }
}

/// If memory ended the attempt: a line of evidence that its need, measured as a sum over processes, may be higher.
fn by_processes(measured: &Summary, cause: Cause) -> Option<EvidenceLine> {
    let is_by_processes =
        measured.incomplete() == Some(IncompleteNeed::Processes) && measured.need_peak.0 > 0;
    let text = format!("need of {}, {BY_PROCESSES}: it may be higher", measured.need_peak);
    let line = EvidenceLine { source: EvidenceSource::Measured, text, supports: true };
    (cause.is_memory() && is_by_processes).then_some(line)
}

/// Whether an unchanged retry after a failure with this cause can pass, and no better evidence than the log speaks against that.
fn can_be_flaky(finding: &Finding, cause: Cause) -> bool {
    let from_log = finding.decided_by.is_none_or(|source| source >= EvidenceSource::Exit);
    let by_person = finding.decided_by == Some(EvidenceSource::Person);
    from_log
        && !by_person
        && matches!(
            cause,
            Cause::Deterministic | Cause::Unknown | Cause::Infra | Cause::Undecided | Cause::Contention
        )
}

fn build_verdict(
    evidence: &Evidence,
    case: WeighedFailure,
    (allowed, rule): (Remedy, Option<String>),
    policy: &RetryPolicy,
) -> Verdict {
    let Remedy { action, next, mut reason, stopped_at } = allowed;
    let retries_allowed = if action == Action::No { None } else { allowed_below_budget(&case, policy) };
    let proven = case.finding.is_proven() && case.finding.cause == Some(case.cause);
    let mend = case.finding.mend.clone().filter(|_| action == Action::No);
    if let Some(mend) = &mend {
        reason = format!("{reason}; {mend}");
    }
    let measured = evidence.measured.as_deref();
    // a size proposed to a person costs nothing until that person retries
    let chosen = next.as_ref().filter(|_| action != Action::No);
    let cost = chosen.and_then(|next| outlook::retry_cost(next, measured));
    let (wait, saves) = match (chosen, action) {
        // a larger size is available at once, so there is no wait
        (None, _) => Default::default(),
        (_, Action::Bigger) if !case.cause.is_taken_away() => Default::default(),
        _ => {
            let cost = cost.unwrap_or_default();
            outlook::retry_wait(&case.terms, &evidence.attempt, case.spent_attempts, cost, case.retry_success)
        }
    };
    let clamped = next.as_ref().is_some_and(is_clamped);
    let (correction, mut evidence_lines) =
        corrections::completed_correction(evidence.correction.as_deref(), &case.finding);
    evidence_lines.extend(rule.map(|text| EvidenceLine {
        source: EvidenceSource::Policy,
        text,
        supports: true,
    }));
    Verdict {
        attempt: evidence.attempt.clone(),
        action,
        cause: case.cause,
        confidence: case.finding.confidence,
        evidence: evidence_lines,
        next,
        attempts_left: case.retries_left,
        reason,
        outlook: RetryOutlook {
            signature: case.signature,
            seen: case.repeated,
            retried: case.retry_success.tried,
            passed: case.retry_success.passed,
            cost,
            wait,
            waiting_saves_gib_h: saves,
            clamped,
            mend,
            proven,
            stopped_at,
            root: case.finding.root,
            own_failure: case.finding.own_failure,
            retries_allowed,
        },
        given_unix_ms: None,
        job: None,
        basis: VerdictBasis {
            cause_source: case.finding.decided_by,
            correction,
            spoken: case.finding.spoken,
            ..VerdictBasis::default()
        },
    }
}

fn nothing_to_retry(evidence: &Evidence, finding: Finding, policy: &RetryPolicy) -> Verdict {
    Verdict {
        attempt: evidence.attempt.clone(),
        action: Action::No,
        cause: Cause::Unknown,
        confidence: finding.confidence,
        evidence: finding.lines,
        next: None,
        attempts_left: policy.max_attempts.saturating_sub(evidence.number.max(1)),
        reason: "it succeeded, there is nothing to retry".to_owned(),
        outlook: RetryOutlook::default(),
        given_unix_ms: None,
        job: None,
        basis: VerdictBasis::default(),
    }
}

fn is_clamped(next: &Prediction) -> bool {
    [&next.memory_limit, &next.memory_request].iter().any(|size| size.basis.bound.is_cut())
}

fn was_taken_away(earlier: &AttemptBrief) -> bool {
    earlier.proven_cause().is_some_and(Cause::is_taken_away) || earlier.is_nodes_fault()
}
