//! The remedy for a cause, before the budget: the action, the next sizes, and the sentence that explains them.

use plimsoll_proto::{
    figures,
    reasons::SizeBound,
    verdict::{LOG_UNREAD, NO_RULE_KNOWS_IT},
};

use super::{
    cpu, evicted,
    finding::Finding,
    next::{self, SizingInputs, StoppedAt},
    size_words,
};
use crate::{
    domain::{Action, Bytes, Cause, Evidence, EvidenceSource, Millis, Prediction, Quantity, Rung, Summary},
    predict::Settings,
};

/// Action and next sizes, before the budget is checked.
#[derive(Debug)]
pub(super) struct Remedy {
    pub(super) action: Action,
    pub(super) next: Option<Prediction>,
    pub(super) reason: String,
    /// The size at which memory stopped the attempt, if it is known and the next attempt gets more.
    pub(super) stopped_at: Option<Bytes>,
}

impl Remedy {
    /// No retry.
    pub(super) fn no(reason: String) -> Self {
        Self { action: Action::No, next: None, reason, stopped_at: None }
    }

    /// A retry with more memory.
    fn grown(next: Prediction, stopped: StoppedAt, reason: String) -> Self {
        let known = (!stopped.is_assumed && stopped.size.0 > 0).then_some(stopped.size);
        Self { stopped_at: known, ..Self::retry(Action::Bigger, next, reason) }
    }

    fn retry(action: Action, next: Prediction, reason: String) -> Self {
        Self { action, next: Some(next), reason, stopped_at: None }
    }
}

/// Added to the reason if the cap lowered the size.
const AT_CAP_NOTE: &str = ", the most there is, which may not be enough";

/// Advice on how to find the cause if no log was read.
const READ_THE_LOG: &str = "to make it known, put `plimsoll run` in front of the build, outside CI with `--phases gitlab`, or set `gitlab_url` \
                            on the server, which then reads the logs of GitLab jobs";
/// Advice if a log was read and no rule matches a line that names the cause.
const NAME_THE_CAUSE: &str =
    "to make it known, say it with `plimsoll verdict correct`, or write a rule for its log into `rules_dir`";

/// Explanation if memory was refused while the build had no memory limit of its cgroup.
const UNDER_ULIMIT: &str = "the kernel killed nothing and the build has no memory limit, so a retry with the same size would fail in the same \
                            way; raise its `ulimit -v`, or run it on a machine with more free memory";

/// Mean CPU use, in cores, below which the build did nothing: a twentieth of a core.
const STANDSTILL_CORES: f64 = 0.05;

/// Chooses the remedy for a cause.
pub(super) fn remedy(
    evidence: &Evidence,
    finding: &Finding,
    cause: Cause,
    predicted: &Prediction,
    sizing: SizingInputs<'_>,
) -> Remedy {
    let mut remedy = sized_remedy(evidence, finding, cause, predicted, sizing);
    if let Some(next) = &mut remedy.next {
        size_words::explain(next, predicted, sizing);
    }
    remedy
}

fn sized_remedy(
    evidence: &Evidence,
    finding: &Finding,
    cause: Cause,
    predicted: &Prediction,
    sizing: SizingInputs<'_>,
) -> Remedy {
    let SizingInputs { settings, policy, .. } = sizing;
    let why = cause_sentence(finding, cause);
    let measured = evidence.measured.as_deref();
    let mut next = next::unchanged_sizes(predicted, measured, settings);
    let how = size_words::how_it_was(&next, measured);
    if cause.is_final() && policy.terms(key(evidence), cause).retries > 0 {
        return Remedy::retry(
            Action::AsIs,
            next,
            format!("{why}: retry all the same, as the retry policy asks"),
        );
    }
    match cause {
        Cause::Oom | Cause::Starved if finding.confidence >= policy.grow_from && finding.is_proven() => {
            more_memory(evidence, &why, next, predicted, sizing)
        }
        Cause::Oom | Cause::Starved if is_under_ulimit(finding, measured) => memory_refused_remedy(&why),
        Cause::Oom | Cause::Starved => {
            let agent =
                if measured.is_none() { "run it with the agent to be sure, or " } else { "or run it " };
            let reason = format!(
                "{why}: no kernel or container evidence proves it, so retry {how}; {agent}with fewer build jobs"
            );
            Remedy::retry(Action::AsIs, next, reason)
        }
        Cause::Timeout if !measured.is_some_and(used_almost_no_cpu) => {
            next::grow_time(&mut next, measured, policy);
            let working = if measured.is_some() { "it was still working, so " } else { "" };
            let times = match &next.wall_p95.basis.bound {
                SizeBound::TooShort(had) => format!(" ({had} -> {})", Millis(next.wall_p95.value)),
                _ => String::new(),
            };
            Remedy::retry(Action::Longer, next, format!("{why}: {working}retry with more time{times}"))
        }
        Cause::Contention => match measured.and_then(|summary| cpu::grow_cpu(&mut next, summary, settings)) {
            Some(cores) => {
                let cores = figures::cores_named(cores.0);
                let had = measured.and_then(|summary| summary.resources.cpu_limit);
                let from = had.map_or(String::new(), |had| format!("{} -> ", figures::cores_named(had.0)));
                Remedy::retry(
                    Action::Bigger,
                    next,
                    format!("{why}: retry with more CPU (limit {from}{cores})"),
                )
            }
            None => Remedy::retry(Action::AsIs, next, format!("{why}: retry later, {how}")),
        },
        Cause::DiskFull | Cause::EphemeralStorage => {
            Remedy::retry(Action::Elsewhere, next, format!("{why}: retry on a machine with more free disk"))
        }
        Cause::Infra if measured.is_some_and(Summary::was_killed_by_host) => {
            Remedy::retry(Action::Elsewhere, next, format!("{why}: retry on another machine, {how}"))
        }
        Cause::EvictedByNode if finding.is_proven() => evicted_again(evidence, &why, next, (settings, &how)),
        cause if cause.is_final() => Remedy::no(format!("{why}: {}", no_retry_reason(cause))),
        Cause::Infra if finding.own_failure.is_some() => {
            Remedy::retry(Action::AsIs, next, format!("{why}: {}", same_size_advice(Cause::Undecided, &how)))
        }
        cause => Remedy::retry(Action::AsIs, next, format!("{why}: {}", same_size_advice(cause, &how))),
    }
}

/// Retries after an eviction, with a larger memory request if the attempt used more than its request.
fn evicted_again(
    evidence: &Evidence,
    why: &str,
    mut next: Prediction,
    (settings, how): (&Settings, &str),
) -> Remedy {
    let (action, what) = match evicted::grow_request(&mut next, evidence, settings) {
        Some(grown) => (Action::Bigger, grown),
        None => (Action::AsIs, same_size_advice(Cause::EvictedByNode, how)),
    };
    Remedy::retry(action, next, format!("{why}: {what}"))
}

/// No retry, because of [`is_under_ulimit`].
fn memory_refused_remedy(why: &str) -> Remedy {
    Remedy::no(format!("{why}: {UNDER_ULIMIT}"))
}

/// Whether memory was refused while no cgroup limit was short: by a limit of the process, or because the machine was full.
fn is_under_ulimit(finding: &Finding, measured: Option<&Summary>) -> bool {
    let unlimited = |summary: &Summary| {
        summary.oom_kill == Some(0) && summary.exit.is_some() && summary.resources.memory_limit.is_none()
    };
    finding.memory_refused && measured.is_some_and(unlimited)
}

/// Text that says why a retry is useless while the fault persists, or what has to be done first.
fn no_retry_reason(cause: Cause) -> &'static str {
    match cause {
        Cause::ToolOom => "raise that limit; more memory for the job alone does not help",
        Cause::Configuration => "change the set-up first, a retry would fail in the same way",
        Cause::Canceled => "no retry is wanted",
        _ => "a retry would fail in the same way",
    }
}

/// The advice for a retry in which no size has to grow. `how` describes the sizes, as in "with the same size".
fn same_size_advice(cause: Cause, how: &str) -> String {
    match cause {
        Cause::Timeout => {
            "it used almost no CPU, so more time would not help; retry with the same time".to_owned()
        }
        Cause::Infra | Cause::Preempted | Cause::NodeLost | Cause::EvictedByNode => {
            format!("the build is not at fault, so retry {how}")
        }
        Cause::Unknown => format!("the retry policy allows another attempt {how}"),
        _ => format!("retry {how}"),
    }
}

fn more_memory(
    evidence: &Evidence,
    why: &str,
    mut next: Prediction,
    predicted: &Prediction,
    sizing: SizingInputs<'_>,
) -> Remedy {
    let settings = sizing.settings;
    let stopped = StoppedAt::of(predicted, evidence.measured.as_deref());
    let needed = settings.memory_cap.and_then(|cap| next::needed_above(cap, stopped, sizing));
    if let Some(cap) = settings.memory_cap.filter(|cap| stopped.is_near_cap(*cap)) {
        let why = format!("{why}, and there is no more memory than {cap}");
        return match build_jobs(evidence, predicted) {
            Some(jobs) if jobs > 1 => {
                next::fewer_jobs(&mut next, jobs, cap);
                let fewer = next.build_jobs.value;
                Remedy::retry(
                    Action::FewerJobs,
                    next,
                    format!("{why}: retry with -j{fewer} instead of -j{jobs}"),
                )
            }
            Some(_one) => {
                let reason = format!("{why}: with only one build job, a retry would fail in the same way");
                Remedy::no(reason + &needed_words(needed))
            }
            None => {
                let reason = format!("{why}: run it with fewer build jobs (how many it ran is not known)");
                Remedy::no(reason + &needed_words(needed))
            }
        };
    }
    next::grow_memory(&mut next, predicted, evidence, sizing);
    let limit = Bytes(next.memory_limit.value);
    let with = format!("{why}: retry with more memory ({})", limit_change_words(stopped, limit));
    let cut = next.memory_limit.basis.bound.is_cut();
    if let Some((jobs, had)) = jobs_that_fit(evidence, &next, sizing, needed) {
        next::jobs_that_fit(&mut next, jobs);
        let reason = format!("{with}, the most there is, and with -j{jobs} instead of -j{had}");
        return Remedy::grown(next, stopped, reason);
    }
    if let Some((needed, cap)) = needed.zip(settings.memory_cap) {
        let reason = format!(
            "{why}, and there is no more memory than {cap}: most builds like it that need more than {} need more than that too, so a retry \
             would fail in the same way{}",
            stopped.size,
            needed_words(Some(needed))
        );
        return Remedy::no(reason);
    }
    Remedy::grown(next, stopped, if cut { with + AT_CAP_NOTE } else { with })
}

/// Text with the old memory limit, if known, and the new one.
fn limit_change_words(stopped: StoppedAt, limit: Bytes) -> String {
    match stopped.size {
        had if had.0 == 0 || had >= limit => format!("limit {limit}"),
        had if stopped.is_assumed => format!("limit {limit}; the last attempt may have had {had}"),
        had => format!("limit {had} -> {limit}"),
    }
}

/// Text with the needed memory limit; empty if it is unknown.
fn needed_words(needed: Option<Bytes>) -> String {
    needed.map_or(String::new(), |needed| format!("; it would take a memory limit of {needed}"))
}

/// Build jobs of the attempt: the recorded number, else that of other attempts of the same build. `None` if neither is known.
fn build_jobs(evidence: &Evidence, predicted: &Prediction) -> Option<u64> {
    let recorded = key(evidence).hints.build_jobs.map(u64::from).filter(|jobs| *jobs > 0);
    let of_this_build = |jobs: &&Quantity| matches!(jobs.basis.rung, Rung::Exact | Rung::NoVersion);
    let usual = Some(&predicted.build_jobs).filter(of_this_build).filter(|jobs| !jobs.basis.is_default());
    recorded.or_else(|| usual.map(|jobs| jobs.value))
}

/// How many build jobs fit in the cap, in proportion, and how many the attempt had: used if the cap leaves no real step above the size at
/// which memory stopped the attempt, or is below the `needed` size. `None` if the size suffices, if the number of jobs is unknown, or if
/// not even one job fits.
fn jobs_that_fit(
    evidence: &Evidence,
    next: &Prediction,
    sizing: SizingInputs<'_>,
    needed: Option<Bytes>,
) -> Option<(u64, u64)> {
    let cap = sizing.settings.memory_cap.filter(|cap| next.memory_limit.value >= cap.0)?;
    let stopped = evidence.measured.as_deref().map(Summary::stopped_at)?;
    let step = stopped.as_f64() * sizing.policy.grow_factor.max(1.0);
    let wanted = needed.map_or(step, |needed| needed.as_f64().max(step));
    let jobs = u64::from(key(evidence).hints.build_jobs.filter(|jobs| *jobs > 1)?);
    // `jobs` is a count, not bytes: `Bytes` only converts it
    let fit = Bytes::from_f64((Bytes(jobs).as_f64() * cap.as_f64() / wanted.max(1.0)).floor()).0;
    (fit < jobs && (fit > 0 || needed.is_none())).then_some((fit.max(1), jobs))
}

/// One sentence with the cause and its strongest evidence.
pub(super) fn cause_sentence(finding: &Finding, cause: Cause) -> String {
    let decided = finding.lines.iter().find(|line| line.supports && Some(line.source) == finding.decided_by);
    // a cause of memory is certain only with evidence of kernel or container; any other cause is only probable if it comes from the log
    // alone
    let is_probable = match cause {
        Cause::Oom | Cause::Starved => !finding.is_proven(),
        Cause::Unknown | Cause::Flaky => false,
        _ => finding.decided_by == Some(EvidenceSource::Log),
    };
    let by_rule = finding.cause == Some(Cause::Flaky) && finding.decided_by == Some(EvidenceSource::Log);
    let [head, tail] = if by_rule && cause == Cause::Flaky {
        ["a test or its helper probably ", "failed by chance"]
    } else {
        cause.traits().sentence
    };
    let words = format!("{head}{}{tail}", if is_probable { "probably " } else { "" });
    let words = match decided {
        Some(line) => format!("{words} ({})", line.text),
        None => words,
    };
    match (cause, &finding.own_failure) {
        (Cause::Undecided | Cause::Infra, Some(own)) => format!("{words}, or the build itself did ({own})"),
        (Cause::Unknown, _) if finding.log_unread => format!("{words}: {LOG_UNREAD} ({READ_THE_LOG})"),
        (Cause::Unknown, _) => format!("{words}: {NO_RULE_KNOWS_IT} ({NAME_THE_CAUSE})"),
        _ => words,
    }
}

fn used_almost_no_cpu(summary: &Summary) -> bool {
    summary.cpu.cores_over(summary.wall).0 < STANDSTILL_CORES
}

/// The key of the attempt: that of the caller, else the agent's.
pub(super) fn key(evidence: &Evidence) -> &crate::domain::Key {
    match &evidence.measured {
        Some(measured) if evidence.key.package.is_empty() => &measured.key,
        _ => &evidence.key,
    }
}
