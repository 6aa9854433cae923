//! What each kind of evidence says for itself. The confidences are judgements: a counter of the kernel is nearly proof, a
//! reason in the cluster's own words too, a signal could come from anybody, and anybody can write a line into a log.

use super::{
    classify::Clue,
    rules::{Hit, Sign},
};
use crate::domain::{Cause, EvidenceSource as Source, Exit, Millis, OomOrigin, Summary};

/// Charges that failed without reclaim, a second, above which a build starves: between 110/s (healthy at its limit) and
/// 88,000/s (the least of the starved ones), the middle on a logarithmic scale.
const STARVED_RATE: f64 = 3_000.0;
/// A rate that needs no second sign: an order above the threshold, still below every starved build that was measured.
const STARVED_ALONE: f64 = 30_000.0;
/// Share of the limit from which the need counts as near it: starved builds held 92 to 94 % (the rest is the compiler's
/// own text, read again and again).
const NEAR: f64 = 0.9;

/// Share of the time starved from which starvation is the cause. A judgement: a build that lost a fifth of its time to its
/// limit would have been done, or further, with more memory; starved builds that were measured lost nearly all of it.
const STARVED_SHARE: f64 = 0.2;
/// Starved time just before the end from which it is, however long the build ran before. A judgement: healthy builds touch
/// their limit for seconds.
const STARVED_AT_END: Millis = Millis(60_000);

fn clue(source: Source, cause: Cause, confidence: f64, text: impl Into<String>) -> Clue {
    Clue { source, cause: Some(cause), confidence, weak: false, against: None, text: text.into() }
}

fn weak(clue: Clue) -> Clue {
    Clue { weak: true, ..clue }
}

/// The kernel's count of OOM kills, and whose limit it was.
pub(super) fn kernel(summary: &Summary) -> Option<Clue> {
    let kills = match summary.oom_kill? {
        0 => {
            return Some(Clue {
                cause: None,
                against: Some(Cause::Oom),
                ..clue(Source::Kernel, Cause::Oom, 0.0, "oom_kill 0: the kernel killed nothing for memory")
            });
        }
        kills => kills,
    };
    let (cause, whose) = match summary.oom_origin {
        None => (Cause::Oom, ""),
        Some(OomOrigin::OwnLimit) => (Cause::Oom, " at the build's own limit"),
        Some(OomOrigin::LimitAbove) => {
            (Cause::Oom, " at the limit of a group above the build's, which others may share")
        }
        Some(OomOrigin::Host) => {
            (Cause::Infra, " because the whole machine had no memory left, not at a limit of the build")
        }
    };
    let text = format!("oom_kill {kills}: the kernel killed for memory{whose}");
    Some(clue(Source::Kernel, cause, 0.97, text))
}

/// Kills at a limit, where they are known: a machine without memory says nothing about what the build needs.
pub(super) fn kills_at_limit(summary: &Summary) -> Option<u64> {
    if summary.was_killed_by_host() { Some(0) } else { summary.oom_kill }
}

/// The container's reason.
pub(super) fn container(reason: &str) -> Option<Clue> {
    let found = |cause, confidence| {
        Some(clue(Source::Container, cause, confidence, format!("container reason {reason}")))
    };
    match reason {
        "OOMKilled" => found(Cause::Oom, 0.95),
        "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" | "RegistryUnavailable" => {
            found(Cause::Infra, 0.9)
        }
        "ContainerStatusUnknown" | "CreateContainerError" | "RunContainerError" | "StartError" => {
            found(Cause::Infra, 0.7)
        }
        "InvalidImageName" | "CreateContainerConfigError" | "ContainerCannotRun" => {
            found(Cause::Deterministic, 0.8)
        }
        "DeadlineExceeded" => found(Cause::Timeout, 0.9),
        _ => None,
    }
}

/// The pod's reason.
pub(super) fn pod(reason: &str) -> Option<Clue> {
    let found =
        |cause, confidence| Some(clue(Source::Pod, cause, confidence, format!("pod reason {reason}")));
    match reason {
        "OOMKilled" => found(Cause::Oom, 0.9),
        "DeadlineExceeded" => found(Cause::Timeout, 0.9),
        "Preempting"
        | "Preempted"
        | "NodeShutdown"
        | "Shutdown"
        | "Terminated"
        | "NodeLost"
        | "NodeFailures"
        | "PreemptionByScheduler"
        | "PreemptionByKubeScheduler"
        | "DeletionByTaintManager"
        | "EvictionByEvictionAPI"
        | "DeletionByPodGC"
        | "TerminationByKubelet" => found(Cause::Preempted, 0.95),
        // the reason does not say what was short on the node
        "Evicted" => found(Cause::Preempted, 0.8),
        "PodDeleted"
        | "UnexpectedAdmissionError"
        | "NodeAffinity"
        | "OutOfcpu"
        | "OutOfmemory"
        | "OutOfpods" => found(Cause::Infra, 0.8),
        _ => None,
    }
}

/// It ran at its limit and reclaimed instead of building.
pub(super) fn starved(summary: &Summary) -> Option<Clue> {
    match summary.starved {
        Some(starved) => starved_for(starved, summary),
        // an agent that does not count starved time
        None => starved_by_rate(summary),
    }
}

/// What the agent counted as starved, row by row, from the kernel's counters.
fn starved_for(starved: Millis, summary: &Summary) -> Option<Clue> {
    let at_end = summary.starved_at_end.unwrap_or_default();
    let share = (starved.as_f64() / summary.wall.max(Millis(1)).as_f64()).min(1.0);
    if share < STARVED_SHARE && at_end < STARVED_AT_END {
        return None;
    }
    let confidence = if at_end >= STARVED_AT_END || share >= 0.5 { 0.9 } else { 0.8 };
    let end = if at_end.0 > 0 { format!(", {at_end} of them just before the end") } else { String::new() };
    let (wall, share) = (summary.wall, share * 100.0);
    let text = format!("starved at its memory limit for {starved} of {wall} ({share:.0} %){end}");
    Some(clue(Source::Kernel, Cause::Starved, confidence, text))
}

fn starved_by_rate(summary: &Summary) -> Option<Clue> {
    let (limit, failures) = (summary.resources.memory_limit?, summary.reclaim_failures?);
    let seconds = (summary.wall.as_f64() / 1000.0).max(0.001);
    // a count, not bytes: the type only lends its conversion
    let rate = crate::domain::Bytes(failures).as_f64() / seconds;
    let near = summary.need_peak.as_f64() >= NEAR * limit.as_f64();
    if rate < if near { STARVED_RATE } else { STARVED_ALONE } {
        return None;
    }
    let confidence = if near { 0.9 } else { 0.75 };
    let text = format!(
        "need {} at a limit of {limit}, {rate:.0} charges a second failed without reclaim",
        summary.need_peak
    );
    Some(clue(Source::Measured, Cause::Starved, confidence, text))
}

/// Exit code or signal. `kills` is the kernel's count, where it is known.
pub(super) fn exit(exit: Exit, kills: Option<u64>) -> Option<Clue> {
    let found = |cause, confidence, means: &str| {
        Some(clue(Source::Exit, cause, confidence, format!("{exit}: {means}")))
    };
    let (code, signal) = match exit {
        Exit::Signal(signal) => (None, Some(signal)),
        // shells report a signal as 128 + signal
        Exit::Code(code @ 129..=165) => (None, Some(code - 128)),
        Exit::Code(code) => (Some(code), None),
    };
    match (code, signal) {
        (Some(124), _) => found(Cause::Timeout, 0.8, "the time was over"),
        (Some(126 | 127), _) => found(Cause::Deterministic, 0.8, "a command is missing or cannot be run"),
        (_, Some(9)) if kills == Some(0) => {
            found(Cause::Infra, 0.6, "killed, and not by the kernel for memory").map(weak)
        }
        (_, Some(9)) => {
            found(Cause::Infra, 0.4, "killed, by whom is not known; alone no proof of memory").map(weak)
        }
        (_, Some(15)) => found(Cause::Canceled, 0.5, "asked to end").map(weak),
        (_, Some(2)) => found(Cause::Canceled, 0.8, "interrupted"),
        (_, Some(4 | 6 | 8 | 11)) => found(Cause::Deterministic, 0.5, "the program crashed").map(weak),
        _ => None,
    }
}

/// The CI system's failure reason; numbers and names after GitLab's `commit_status.rb`.
pub(super) fn ci(reason: &str, hits: &[Hit<'_>]) -> Option<Clue> {
    let found =
        |cause, confidence| Some(clue(Source::Ci, cause, confidence, format!("failure reason {reason}")));
    let oom_killed = hits.iter().any(|hit| hit.rule.id == "runner-oomkilled");
    match reason {
        // the runner writes this line; a build that imitates it ends as script_failure
        "runner_system_failure" if oom_killed => found(Cause::Oom, 0.7),
        // many things: what else is known decides
        "runner_system_failure" | "runner_external_dependency_failure" => found(Cause::Infra, 0.6).map(weak),
        "job_execution_timeout" => found(Cause::Timeout, 0.9),
        "api_failure"
        | "stuck_or_timeout_failure"
        | "scheduler_failure"
        | "data_integrity_failure"
        | "runner_provisioning_timeout"
        | "image_pull_failure"
        | "runner_interrupted" => found(Cause::Infra, 0.8),
        "job_canceled" | "canceled" => found(Cause::Canceled, 0.95),
        "runner_configuration_error"
        | "missing_dependency_failure"
        | "stale_schedule"
        | "archived_failure"
        | "unmet_prerequisites"
        | "forward_deployment_failure"
        | "user_blocked"
        | "project_deleted"
        | "ci_quota_exceeded"
        | "pipeline_loop_detected"
        | "no_matching_runner"
        | "trace_size_exceeded"
        | "builds_disabled"
        | "environment_creation_failure"
        | "deployment_rejected"
        | "failed_outdated_deployment_job"
        | "protected_environment_failure"
        | "secrets_provider_not_found" => found(Cause::Deterministic, 0.8),
        _ => None,
    }
}

/// What the log says; the line nearest to its end first, among lines that say as much.
pub(super) fn log(hits: &[Hit<'_>], kills: Option<u64>) -> Vec<Clue> {
    let mut clues: Vec<(u8, Clue)> = hits.iter().map(|hit| (rank(hit), line(hit, kills))).collect();
    clues.sort_by_key(|(rank, _)| *rank);
    clues.into_iter().map(|(_, clue)| clue).collect()
}

/// A full disk and a killed compiler make a tool report errors of its own after them, so they come before those.
fn rank(hit: &Hit<'_>) -> u8 {
    match (hit.rule.cause, hit.rule.weak) {
        (_, true) => 3,
        _ if hit.rule.place => 0,
        (Cause::Oom, _) => 1,
        _ => 2,
    }
}

fn line(hit: &Hit<'_>, kills: Option<u64>) -> Clue {
    let text = format!("{}: {}", hit.rule.id, hit.line);
    let (cause, confidence): (Cause, f64) = match (hit.rule.sign, hit.rule.cause) {
        // a process was killed, and the kernel says that it was not for memory
        (Some(Sign::Kill), _) if kills == Some(0) => (Cause::Infra, 0.6),
        (Some(_), cause) => (cause, 0.4),
        (None, Cause::Deterministic) => (Cause::Deterministic, 0.8),
        (None, cause) => (cause, 0.7),
    };
    let clue = clue(Source::Log, cause, if hit.rule.weak { confidence.min(0.5) } else { confidence }, text);
    Clue { weak: hit.rule.weak, ..clue }
}
