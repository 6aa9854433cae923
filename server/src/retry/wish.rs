//! What a cause asks for, before the budget: the action, the next size, and the sentence that says why.

use plimsoll_proto::{figures, reasons::SizeBound};

use super::{
    classify::Finding,
    cpu,
    next::{self, StoppedAt},
    policy::Policy,
};
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
        return (Action::AsIs, Some(next), format!("{why}: retry all the same, as the retry policy asks"));
    }
    match cause {
        Cause::Oom | Cause::Starved if finding.confidence >= policy.grow_from && finding.is_proven() => {
            more_memory(evidence, &why, (next, predicted), policies)
        }
        Cause::Oom | Cause::Starved => {
            let agent =
                if measured.is_none() { "run it with the agent to be sure, or " } else { "or run it " };
            let reason = format!(
                "{why}: no kernel or container evidence proves it, so retry with the same size; {agent}with fewer build jobs"
            );
            (Action::AsIs, Some(next), reason)
        }
        Cause::Timeout if !measured.is_some_and(stood_still) => {
            next::grow_time(&mut next, measured, policy);
            let working = if measured.is_some() { "it was still working, so " } else { "" };
            (Action::Longer, Some(next), format!("{why}: {working}retry with more time"))
        }
        Cause::Contention => match measured.and_then(|summary| cpu::grow(&mut next, summary, settings)) {
            Some(cores) => {
                let cores = figures::cores_named(cores.0);
                (Action::Bigger, Some(next), format!("{why}: retry with a limit of {cores}"))
            }
            None => (Action::AsIs, Some(next), format!("{why}: retry later, with the same size")),
        },
        Cause::DiskFull | Cause::EphemeralStorage => {
            (Action::Elsewhere, Some(next), format!("{why}: retry on a machine with more free disk"))
        }
        Cause::Infra if measured.is_some_and(Summary::was_killed_by_host) => {
            (Action::Elsewhere, Some(next), format!("{why}: retry on another machine, with the same size"))
        }
        cause if cause.is_final() => (Action::No, None, format!("{why}: {}", no_retry(cause))),
        cause => (Action::AsIs, Some(next), format!("{why}: {}", same_again(cause))),
    }
}

/// Why a retry of what stays broken is worth nothing, or what has to be done first.
fn no_retry(cause: Cause) -> &'static str {
    match cause {
        Cause::ToolOom => "raise that limit; more memory for the job alone does not help",
        Cause::Configuration => "change the set-up first, a retry would fail in the same way",
        Cause::Canceled => "no retry is wanted",
        _ => "a retry would fail in the same way",
    }
}

/// What to do where nothing has to grow.
fn same_again(cause: Cause) -> &'static str {
    match cause {
        Cause::Timeout => "it used almost no CPU, so more time would not help; retry with the same time",
        Cause::Infra | Cause::Preempted | Cause::NodeLost | Cause::EvictedByNode => {
            "the build is not at fault, so retry with the same size"
        }
        _ => "retry with the same size",
    }
}

fn more_memory(
    evidence: &Evidence,
    why: &str,
    (mut next, predicted): (Prediction, Prediction),
    policies: (&Settings, &Policy, next::Above<'_>),
) -> Wish {
    let (settings, ..) = policies;
    let stopped = StoppedAt::of(&predicted, evidence.measured.as_deref());
    if let Some(cap) = settings.memory_cap.filter(|cap| stopped.is_at(*cap)) {
        let why = format!("{why}, and there is no more memory than {cap}");
        return match build_jobs(evidence, &predicted) {
            Some(jobs) if jobs > 1 => {
                next::fewer_jobs(&mut next, jobs, cap);
                let fewer = next.build_jobs.value;
                (Action::FewerJobs, Some(next), format!("{why}: retry with -j{fewer} instead of -j{jobs}"))
            }
            Some(_one) => {
                let reason = format!("{why}: with only one build job, a retry would fail in the same way");
                (Action::No, None, reason)
            }
            None => {
                let reason = format!("{why}: run it with fewer build jobs (how many it ran is not known)");
                (Action::No, None, reason)
            }
        };
    }
    next::grow_memory(&mut next, &predicted, evidence, policies);
    let limit = Bytes(next.memory_limit.value);
    let with = format!("{why}: retry with a memory limit of {limit}");
    let cut = next.memory_limit.basis.bound.is_cut();
    if let Some((jobs, had)) = jobs_that_fit(evidence, &next, (settings, policies.1)) {
        next::jobs_that_fit(&mut next, jobs);
        let reason = format!("{with}, the most there is, and with -j{jobs} instead of -j{had}");
        return (Action::Bigger, Some(next), reason);
    }
    (Action::Bigger, Some(next), if cut { with + ", the most there is" } else { with })
}

/// Build jobs that the attempt ran, as far as that is known: a default that nothing stands behind says nothing about it.
fn build_jobs(evidence: &Evidence, predicted: &Prediction) -> Option<u64> {
    let said = key(evidence).hints.build_jobs.map(u64::from).filter(|jobs| *jobs > 0);
    let usual = Some(&predicted.build_jobs).filter(|jobs| jobs.basis.bound != SizeBound::Default);
    said.or_else(|| usual.map(|jobs| jobs.value))
}

/// Fewer build jobs than there were, and those: if the cap leaves the next size below a real step above where the attempt was
/// stopped, as many as fit in proportion. `None` if the size suffices, or if it is not known how many jobs there were.
fn jobs_that_fit(
    evidence: &Evidence,
    next: &Prediction,
    policies: (&Settings, &Policy),
) -> Option<(u64, u64)> {
    let (settings, policy) = policies;
    let cap = settings.memory_cap.filter(|cap| next.memory_limit.value >= cap.0)?;
    let stopped = evidence.measured.as_deref().map(Summary::stopped_at)?;
    let wanted = stopped.as_f64() * policy.grow_factor.max(1.0);
    let jobs = u64::from(key(evidence).hints.build_jobs.filter(|jobs| *jobs > 1)?);
    // a count of jobs: the type only lends its conversion
    let fit = Bytes::from_f64((Bytes(jobs).as_f64() * cap.as_f64() / wanted.max(1.0)).floor()).0;
    (fit < jobs).then_some((fit.max(1), jobs))
}

/// The cause and the strongest line for it.
pub(super) fn sentence(finding: &Finding, cause: Cause) -> String {
    let decided = finding.lines.iter().find(|line| line.supports && Some(line.source) == finding.decided_by);
    let words = match cause {
        Cause::Oom if !finding.is_proven() => "it probably ran out of memory",
        Cause::Starved if !finding.is_proven() => "it probably starved at its memory limit",
        cause => words(cause),
    };
    match decided {
        Some(line) => format!("{words} ({})", line.text),
        None => words.to_owned(),
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
        Cause::Timeout => "it ran out of time",
        Cause::Deterministic => "the build itself is broken",
        Cause::Infra => "something outside the build failed",
        Cause::Preempted => "it was preempted",
        Cause::DiskFull => "a disk was full",
        Cause::Canceled => "it was canceled",
        Cause::ToolOom => "a tool reached a memory limit of its own",
        Cause::EphemeralStorage => "it used up the storage of its pod",
        Cause::NodeLost => "its node was lost",
        Cause::EvictedByNode => "its node evicted it",
        Cause::Contention => "it did not get what it needed in time",
        Cause::Flaky => "this failure went away on a retry before",
        Cause::Configuration => "the CI system or the runner is misconfigured",
        Cause::Unknown => "no known cause explains the failure",
    }
}
