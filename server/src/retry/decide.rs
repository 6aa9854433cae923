//! The verdict: what the cause asks for, what the budget allows, and the next allocation.

use serde::{Deserialize, Serialize};

use super::{
    classify::{Finding, classify},
    next,
    rules::Rules,
};
use crate::{
    domain::{
        Action, Bytes, Cause, Evidence, EvidenceLine, EvidenceSource, History, Prediction, Summary, Verdict,
    },
    predict::{Settings, predict},
};

/// What the operator decides about retries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Attempts of one build, the first included.
    pub max_attempts: u32,
    /// Attempts that were taken away and do not count, at most.
    pub max_preempted: u32,
    /// Retries when the cause is unknown, or when only the log names it.
    pub unproven_retries: u32,
    /// Confidence from which a size grows.
    pub grow_from: f64,
    /// The next size against the one that was too small.
    pub grow_factor: f64,
    /// And at least this much more memory.
    pub grow_least: Bytes,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            // GitLab's own most is two retries
            max_attempts: 3,
            // a spot market that takes a build ten times will take it again
            max_preempted: 10,
            unproven_retries: 1,
            // above every confidence that a log alone can give to memory (0.4), below a starved build's (0.75)
            grow_from: 0.6,
            grow_factor: 1.5,
            // a linker or a compiler more
            grow_least: Bytes(100 << 20),
        }
    }
}

/// Action and next allocation, before the budget.
type Wish = (Action, Option<Prediction>, String);

/// Below this use the build stood still: one part in twenty of a core.
const STANDSTILL: f64 = 0.05;
/// Steps back through the attempts that an attempt retries.
const LINEAGE: usize = 32;

/// Whether an ended attempt should be tried again, as what, and why.
pub fn judge(
    evidence: &Evidence,
    rules: &Rules,
    history: &History,
    settings: &Settings,
    policy: &Policy,
) -> Verdict {
    let finding = classify(evidence, rules);
    let preempted = preempted_before(evidence, history);
    let spent = evidence.number.max(1).saturating_sub(preempted).max(1);
    let Some(cause) = finding.cause else {
        let reason = "it succeeded, there is nothing to retry".to_owned();
        let left = policy.max_attempts.saturating_sub(spent);
        return verdict(evidence, finding, (Action::No, None, reason), left);
    };
    // an attempt that was taken away was never really made
    let taken_away = cause.is_taken_away() || evidence.measured.as_deref().is_some_and(is_nodes_fault);
    let free = taken_away && preempted < policy.max_preempted && proven(&finding);
    let left = policy.max_attempts.saturating_sub(spent - u32::from(free));
    let predicted = predict(history, key(evidence), settings);
    let wish = wish(evidence, &finding, cause, predicted, (settings, policy));
    let (wish, rule) = allow(wish, &finding, cause, (spent, left), policy);
    let mut verdict = verdict(evidence, finding, wish, left);
    verdict.evidence.extend(rule.map(|text| EvidenceLine {
        source: EvidenceSource::Policy,
        text,
        supports: true,
    }));
    verdict
}

fn verdict(
    evidence: &Evidence,
    finding: Finding,
    (action, next, reason): Wish,
    attempts_left: u32,
) -> Verdict {
    Verdict {
        attempt: evidence.attempt.clone(),
        action,
        cause: finding.cause.unwrap_or(Cause::Unknown),
        confidence: finding.confidence,
        evidence: finding.lines,
        next,
        attempts_left,
        reason,
    }
}

/// The wish, or "no" with the rule that forbids it.
fn allow(
    wish: Wish,
    finding: &Finding,
    cause: Cause,
    (spent, left): (u32, u32),
    policy: &Policy,
) -> (Wish, Option<String>) {
    if wish.0 == Action::No {
        return (wish, None);
    }
    let no =
        |rule: String| ((Action::No, None, format!("{}, but {rule}", sentence(finding, cause))), Some(rule));
    if left == 0 {
        return no(format!("all {} attempts are used up", policy.max_attempts));
    }
    if !proven(finding) && spent > policy.unproven_retries {
        return no("what is not proven is tried again only so often".to_owned());
    }
    (wish, None)
}

/// Something better than the log names the cause.
fn proven(finding: &Finding) -> bool {
    finding.cause != Some(Cause::Unknown)
        && finding.decided_by.is_some_and(|source| source != EvidenceSource::Log)
}

fn wish(
    evidence: &Evidence,
    finding: &Finding,
    cause: Cause,
    predicted: Prediction,
    policies: (&Settings, &Policy),
) -> Wish {
    let (settings, policy) = policies;
    let why = sentence(finding, cause);
    let measured = evidence.measured.as_deref();
    let mut next = next::as_it_was(&predicted, measured, settings);
    match cause {
        Cause::Oom | Cause::Starved if finding.confidence >= policy.grow_from && proven(finding) => {
            more_memory(evidence, &why, (next, predicted), policies)
        }
        Cause::Oom | Cause::Starved => (
            Action::AsIs,
            Some(next),
            format!("{why}, which proves nothing, so once more with the same size"),
        ),
        Cause::Timeout if measured.is_some_and(stood_still) => {
            (Action::AsIs, Some(next), format!("{why}, and it stood still, so more time would not help"))
        }
        Cause::Timeout => {
            next::grow_time(&mut next, measured, policy);
            (Action::Longer, Some(next), format!("{why}, and it was still working, so with more time"))
        }
        Cause::Deterministic => (Action::No, None, format!("{why}, it would fail again in the same way")),
        Cause::Canceled => (Action::No, None, format!("{why}, it was ended on purpose")),
        Cause::ToolOom => (
            Action::No,
            None,
            format!("{why}; more memory helps only a tool that is told to use it: raise its own limit"),
        ),
        Cause::Configuration => {
            (Action::No, None, format!("{why}; it stays so until somebody changes the set-up"))
        }
        Cause::DiskFull | Cause::EphemeralStorage => {
            (Action::Elsewhere, Some(next), format!("{why}, so in a place with more room on its disk"))
        }
        Cause::Infra if measured.is_some_and(Summary::was_killed_by_host) => {
            (Action::Elsewhere, Some(next), format!("{why}, so on another machine, with the size it had"))
        }
        Cause::Infra => {
            (Action::AsIs, Some(next), format!("{why}, which is not the build's fault, so as it was"))
        }
        Cause::Contention => (Action::AsIs, Some(next), format!("{why}, so as it was, later")),
        Cause::Flaky => (Action::AsIs, Some(next), format!("{why}, so as it was")),
        Cause::Preempted | Cause::NodeLost | Cause::EvictedByNode => {
            (Action::AsIs, Some(next), format!("{why}, the place was taken away, so as it was"))
        }
        Cause::Unknown => (Action::AsIs, Some(next), format!("{why}, so once more as it was")),
    }
}

fn more_memory(
    evidence: &Evidence,
    why: &str,
    (mut next, predicted): (Prediction, Prediction),
    policies: (&Settings, &Policy),
) -> Wish {
    let (settings, _) = policies;
    let measured = evidence.measured.as_deref();
    let had = next::memory_had(&predicted, measured);
    // sizes are rounded to MiB, so a place counts as the largest if less than one is missing
    if let Some(cap) = settings.memory_cap.filter(|cap| had.0.saturating_add(Bytes::MIB.0) > cap.0) {
        let jobs = key(evidence).hints.build_jobs.map_or(predicted.build_jobs.value, u64::from);
        if jobs <= 1 {
            return (Action::No, None, format!("{why} in the largest place ({cap}) with a single build job"));
        }
        next::fewer_jobs(&mut next, jobs, cap);
        let fewer = next.build_jobs.value;
        return (
            Action::FewerJobs,
            Some(next),
            format!("{why} and {cap} is the most there is, so with -j{fewer}"),
        );
    }
    next::grow_memory(&mut next, &predicted, evidence, policies);
    let limit = Bytes(next.memory_limit.value);
    (Action::Bigger, Some(next), format!("{why}, so with {limit}"))
}

/// The cause and the strongest line for it.
fn sentence(finding: &Finding, cause: Cause) -> String {
    let decided = finding.lines.iter().find(|line| line.supports && Some(line.source) == finding.decided_by);
    match decided {
        Some(line) => format!("{} ({})", words(cause), line.text),
        None => words(cause).to_owned(),
    }
}

fn stood_still(summary: &Summary) -> bool {
    summary.cpu.cores_over(summary.wall).0 < STANDSTILL
}

/// The machine ran out of memory under a build that stayed below its limit: it was given away more than once. A build
/// without a limit may have taken all of it alone, so that counts.
fn is_nodes_fault(summary: &Summary) -> bool {
    summary.was_killed_by_host() && summary.resources.memory_limit.is_some()
}

/// What the caller says was built, else what the agent said.
fn key(evidence: &Evidence) -> &crate::domain::Key {
    match &evidence.measured {
        Some(measured) if evidence.key.package.is_empty() => &measured.key,
        _ => &evidence.key,
    }
}

/// Earlier attempts of the same build that were taken away.
fn preempted_before(evidence: &Evidence, history: &History) -> u32 {
    let mut count = 0;
    let mut before = evidence.measured.as_ref().and_then(|summary| summary.retries.as_ref());
    for _ in 0..LINEAGE {
        let Some(summary) = before.and_then(|id| history.get(id)) else { break };
        count += u32::from(summary.cause.is_some_and(Cause::is_taken_away) || is_nodes_fault(summary));
        before = summary.retries.as_ref();
    }
    count
}

/// The cause as the beginning of a sentence.
fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::Oom => "it ran out of memory",
        Cause::Starved => "it starved at its memory limit",
        Cause::Timeout => "its time was over",
        Cause::Deterministic => "the build itself is broken",
        Cause::Infra => "there was trouble outside the build",
        Cause::Preempted => "it was preempted",
        Cause::DiskFull => "a disk was full",
        Cause::Canceled => "it was canceled",
        Cause::ToolOom => "a tool reached a memory limit of its own",
        Cause::EphemeralStorage => "it used up the storage of its pod",
        Cause::NodeLost => "its node is gone",
        Cause::EvictedByNode => "its node threw it out",
        Cause::Contention => "others held what it needed",
        Cause::Flaky => "it fails now and then, and passed when it was tried again",
        Cause::Configuration => "the CI system or the runner is set up in a way that cannot work",
        Cause::Unknown => "nothing known explains the failure",
    }
}
