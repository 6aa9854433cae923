//! What a cause asks for, before the budget: the action, the next size, and the sentence that says why.

use super::{classify::Finding, cpu, next, policy::Policy};
use crate::{
    domain::{Action, Bytes, Cause, Evidence, Prediction, Summary},
    predict::Settings,
};

/// Action and next allocation, before the budget.
pub(super) type Wish = (Action, Option<Prediction>, String);

/// Below this use the build stood still: one part in twenty of a core.
const STANDSTILL: f64 = 0.05;

/// What the cause asks for.
pub(super) fn wish(
    evidence: &Evidence,
    finding: &Finding,
    cause: Cause,
    predicted: Prediction,
    policies: (&Settings, &Policy, next::Above<'_>),
) -> Wish {
    let (settings, policy, _) = policies;
    let why = sentence(finding, cause);
    let measured = evidence.measured.as_deref();
    let mut next = next::as_it_was(&predicted, measured, settings);
    if cause.is_final() && policy.terms(key(evidence), cause).retries > 0 {
        return (Action::AsIs, Some(next), format!("{why}, and the policy asks for a retry all the same"));
    }
    match cause {
        Cause::Oom | Cause::Starved if finding.confidence >= policy.grow_from && finding.is_proven() => {
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
        Cause::Contention => match measured.and_then(|summary| cpu::grow(&mut next, summary, settings)) {
            Some(cores) => (Action::Bigger, Some(next), format!("{why}, so with {cores} cores")),
            None => (Action::AsIs, Some(next), format!("{why}, so as it was, later")),
        },
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
    policies: (&Settings, &Policy, next::Above<'_>),
) -> Wish {
    let (settings, ..) = policies;
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
    if let Some(jobs) = jobs_that_fit(evidence, &next, (settings, policies.1)) {
        next.build_jobs.value = jobs;
        next.build_jobs.basis.bound = format!("what {limit} has room for, which is the most memory there is");
        let reason = format!("{why}, so with {limit}, which is the most there is, and with -j{jobs}");
        return (Action::Bigger, Some(next), reason);
    }
    (Action::Bigger, Some(next), format!("{why}, so with {limit}"))
}

/// Fewer build jobs, if the cap leaves the next size below a real step above where the attempt was stopped: as many as fit in
/// proportion. `None` if the size suffices, or if it is not known how many jobs there were.
fn jobs_that_fit(evidence: &Evidence, next: &Prediction, policies: (&Settings, &Policy)) -> Option<u64> {
    let (settings, policy) = policies;
    let cap = settings.memory_cap.filter(|cap| next.memory_limit.value >= cap.0)?;
    let stopped = evidence.measured.as_deref().map(Summary::stopped_at)?;
    let wanted = stopped.as_f64() * policy.grow_factor.max(1.0);
    let jobs = u64::from(key(evidence).hints.build_jobs.filter(|jobs| *jobs > 1)?);
    // a count of jobs: the type only lends its conversion
    let fit = Bytes::from_f64((Bytes(jobs).as_f64() * cap.as_f64() / wanted.max(1.0)).floor()).0;
    (fit < jobs).then_some(fit.max(1))
}

/// The cause and the strongest line for it.
pub(super) fn sentence(finding: &Finding, cause: Cause) -> String {
    let decided = finding.lines.iter().find(|line| line.supports && Some(line.source) == finding.decided_by);
    match decided {
        Some(line) => format!("{} ({})", words(cause), line.text),
        None => words(cause).to_owned(),
    }
}

fn stood_still(summary: &Summary) -> bool {
    summary.cpu.cores_over(summary.wall).0 < STANDSTILL
}

/// What the caller says was built, else what the agent said.
pub(super) fn key(evidence: &Evidence) -> &crate::domain::Key {
    match &evidence.measured {
        Some(measured) if evidence.key.package.is_empty() => &measured.key,
        _ => &evidence.key,
    }
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
        Cause::Contention => "it did not get what it needed in time",
        Cause::Flaky => "it fails now and then, and passed when it was tried again",
        Cause::Configuration => "the CI system or the runner is set up in a way that cannot work",
        Cause::Unknown => "nothing known explains the failure",
    }
}
