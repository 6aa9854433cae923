//! The verdict: what the cause asks for, and whether the budget, what was seen before and the price allow it.

use super::{
    allow::allow,
    classify::Finding,
    lineage, next, outlook,
    pod_sizes::as_its_pod,
    policy::{Policy, Terms},
    seen::{Helped, Seen},
    signature,
    wish::{Wish, key, wish},
};
use crate::{
    domain::{
        Action, Brief, Cause, Evidence, EvidenceLine, EvidenceSource, History, Outlook, Prediction,
        Signature, Summary, Verdict, VerdictBasis,
    },
    predict::{Settings, predict, predict_above},
};

/// What is known when a verdict is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Known<'k> {
    /// Attempts that ended.
    pub history: &'k History,
    /// Failures that verdicts were given on.
    pub seen: &'k Seen,
    /// How sizes are chosen.
    pub settings: &'k Settings,
    /// What the operator decides.
    pub policy: &'k Policy,
}

/// One failure, weighed.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) finding: Finding,
    pub(super) cause: Cause,
    pub(super) signature: Option<Signature>,
    /// Other attempts that failed so, at the same commit or in the same job.
    pub(super) again: u32,
    pub(super) helped: Helped,
    pub(super) terms: Terms,
    /// Attempts that count, this one included.
    pub(super) spent: u32,
    /// Attempts that the budget still allows.
    pub(super) left: u32,
}

/// Whether an ended attempt should be tried again, as what, and why: `finding` is how it is classified.
pub fn judge(evidence: &Evidence, finding: Finding, known: &Known<'_>) -> Verdict {
    let Some(cause) = finding.cause else { return nothing_to_retry(evidence, finding, known.policy) };
    let case = weigh(evidence, finding, cause, known);
    let predicted = predict(known.history, key(evidence), known.settings);
    let predicted = as_its_pod(predicted, evidence, known.settings);
    let above = |failed| predict_above(known.history, key(evidence), known.settings, failed);
    let policies = (known.settings, known.policy, &above as next::Above<'_>);
    let wished = wish(evidence, &case.finding, case.cause, predicted, policies);
    let (allowed, rule) = allow(wished, &case, evidence, known.policy);
    verdict(evidence, case, allowed, rule)
}

/// Joins the finding with what happened to this build before.
fn weigh(evidence: &Evidence, mut finding: Finding, cause: Cause, known: &Known<'_>) -> Case {
    let (key, policy) = (key(evidence), known.policy);
    let lineage = lineage::of(evidence, known.history);
    let number = lineage.number(evidence);
    let free_before = lineage.earlier.iter().filter(|summary| was_taken_away(summary)).count();
    let free_before = u32::try_from(free_before).unwrap_or(u32::MAX);
    let spent = number.saturating_sub(free_before).max(1);
    let signature = signature::of(&finding);
    let (mut again, mut helped) = (0, Helped::default());
    if let Some(signature) = &signature {
        again = known.seen.again(key, signature, &evidence.attempt, &lineage.ids());
        helped = known.seen.helped(key, signature, known.history);
    }
    let went_away = helped.passed > 0 && can_be_flaky(&finding, cause);
    let cause = if went_away { Cause::Flaky } else { cause };
    if went_away {
        let text = format!("{} of {} retries of this failure passed", helped.passed, helped.tried);
        finding.lines.push(EvidenceLine { source: EvidenceSource::Measured, text, supports: true });
    }
    let terms = policy.terms(key, cause);
    let nodes_fault = evidence.measured.as_deref().is_some_and(Summary::is_nodes_fault);
    // an attempt that was taken away was never really made
    let free = (nodes_fault || (!terms.counts && finding.is_proven())) && free_before < policy.max_preempted;
    let left = policy.max_attempts.saturating_sub(spent - u32::from(free));
    Case { finding, cause, signature, again, helped, terms, spent: spent - u32::from(free), left }
}

/// A retry as it was can change this, and nothing better than the log says otherwise.
fn can_be_flaky(finding: &Finding, cause: Cause) -> bool {
    let from_log = finding.decided_by.is_none_or(|source| source >= EvidenceSource::Exit);
    from_log && matches!(cause, Cause::Deterministic | Cause::Unknown | Cause::Infra | Cause::Contention)
}

fn verdict(evidence: &Evidence, case: Case, allowed: Wish, rule: Option<String>) -> Verdict {
    let (action, next, mut reason) = allowed;
    let proven = case.finding.is_proven() && case.finding.cause == Some(case.cause);
    let mend = case.finding.mend.filter(|_| action == Action::No);
    if let Some(mend) = &mend {
        reason = format!("{reason}; {mend}");
    }
    let measured = evidence.measured.as_deref();
    // a size for a person costs nothing before that person decides
    let chosen = next.as_ref().filter(|_| action != Action::No);
    let cost = chosen.and_then(|next| outlook::cost(next, measured));
    let (wait, saves) = match (chosen, action) {
        // what was short is there at once
        (None, _) | (_, Action::Bigger) => Default::default(),
        _ => {
            let cost = cost.unwrap_or_default();
            outlook::wait(&case.terms, (&evidence.attempt, case.spent), cost, case.helped)
        }
    };
    let clamped = next.as_ref().is_some_and(is_clamped);
    let mut evidence_lines = case.finding.lines;
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
        attempts_left: case.left,
        reason,
        outlook: Outlook {
            signature: case.signature,
            seen: case.again,
            retried: case.helped.tried,
            passed: case.helped.passed,
            cost,
            wait,
            waiting_saves_gib_h: saves,
            clamped,
            mend,
            proven,
        },
        given_unix_ms: None,
        job: None,
        basis: VerdictBasis { cause_source: case.finding.decided_by, ..VerdictBasis::default() },
    }
}

fn nothing_to_retry(evidence: &Evidence, finding: Finding, policy: &Policy) -> Verdict {
    Verdict {
        attempt: evidence.attempt.clone(),
        action: Action::No,
        cause: Cause::Unknown,
        confidence: finding.confidence,
        evidence: finding.lines,
        next: None,
        attempts_left: policy.max_attempts.saturating_sub(evidence.number.max(1)),
        reason: "it succeeded, there is nothing to retry".to_owned(),
        outlook: Outlook::default(),
        given_unix_ms: None,
        job: None,
        basis: VerdictBasis::default(),
    }
}

fn is_clamped(next: &Prediction) -> bool {
    [&next.memory_limit, &next.memory_request].iter().any(|size| size.basis.bound.is_cut())
}

fn was_taken_away(earlier: &Brief) -> bool {
    earlier.proven_cause().is_some_and(Cause::is_taken_away) || earlier.is_nodes_fault
}
