//! Turns reasons of the cluster and of the CI system into clues.
//!
//! The lists grow with every release of Kubernetes and GitLab: an unknown reason is shown as evidence and decides nothing.

use crate::domain::{Cause, EvidenceSource as Source};
use crate::retry::{
    cause::clues::{as_weak, make_clue},
    cause::finding::Clue,
    evidence::containers,
};

/// The clue from the container's reason.
pub(in crate::retry) fn container_clue(reason: &str) -> Option<Clue> {
    let text = || format!("container reason {reason}");
    let named = match (reason_word(reason), containers::named_container(reason)) {
        ("OOMKilled", Some(other)) => {
            return Some(containers::out_of_memory(Source::Container, other, 0.95, text()));
        }
        (word, _) => word,
    };
    let named = match named {
        "" | "Completed" | "Error" => return None,
        "OOMKilled" => (Cause::Oom, 0.95),
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" => (Cause::Infra, 0.9),
        "CreateContainerError" | "RunContainerError" | "StartError" if cannot_be_run(reason) => {
            (Cause::Configuration, 0.8)
        }
        "ContainerStatusUnknown" | "CreateContainerError" | "RunContainerError" | "StartError" => {
            (Cause::Infra, 0.7)
        }
        "InvalidImageName" | "CreateContainerConfigError" | "ContainerCannotRun" | "ErrImageNeverPull" => {
            (Cause::Configuration, 0.8)
        }
        "DeadlineExceeded" => (Cause::Timeout, 0.9),
        _ => return Some(unknown_reason(Source::Container, reason)),
    };
    Some(make_clue(Source::Container, named.0, named.1, text()))
}

/// The clue from the pod's reason, or from that of its condition `DisruptionTarget`; the kubelet's message may follow after a colon.
pub(in crate::retry) fn pod_clue(reason: &str) -> Option<Clue> {
    let named = match reason_word(reason) {
        "" => return None,
        "OOMKilled" => (Cause::Oom, 0.9),
        "DeadlineExceeded" => (Cause::Timeout, 0.9),
        "Preempting"
        | "Preempted"
        | "NodeShutdown"
        | "Shutdown"
        | "Terminated"
        | "PreemptionByScheduler"
        | "PreemptionByKubeScheduler"
        | "DeletionByTaintManager"
        | "EvictionByEvictionAPI"
        | "TerminationByKubelet" => (Cause::Preempted, 0.95),
        "NodeLost" | "NodeFailures" | "DeletionByPodGC" => (Cause::NodeLost, 0.95),
        // the pod was evicted for its own use of storage, so it would be evicted again
        "Evicted" if used_up_its_storage(reason) => (Cause::EphemeralStorage, 0.95),
        // the reason alone does not name the resource
        "Evicted" => (Cause::EvictedByNode, 0.8),
        "PodDeleted" | "UnexpectedAdmissionError" | "OutOfcpu" | "OutOfmemory" | "OutOfpods" => {
            (Cause::Infra, 0.8)
        }
        "NodeAffinity" => (Cause::Configuration, 0.7),
        _ => match refused_by_api(reason) {
            Some(cause) => (cause, 0.9),
            None => return Some(unknown_reason(Source::Pod, reason)),
        },
    };
    Some(make_clue(Source::Pod, named.0, named.1, format!("pod reason {reason}")))
}

/// Rank of a clue: a clue with a cause ranks above a weak one, a weak one above an unknown reason, and that above a reason without meaning.
pub(in crate::retry) fn clue_rank(clue: Option<&Clue>) -> u32 {
    match clue {
        None => 0,
        Some(Clue { cause: None, .. }) => 1,
        Some(Clue { confidence, weak, .. }) => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
            let parts = (confidence.clamp(0.0, 1.0) * 1000.0).round() as u32;
            if *weak { 2 + parts } else { 2000 + parts }
        }
    }
}

/// Whether the message of the container's runtime says that the image has no such program, or none for this machine.
fn cannot_be_run(message: &str) -> bool {
    let texts = [
        "executable file not found",
        "no such file",
        "permission denied",
        "exec format error",
        "invalid",
        "no command",
    ];
    texts.iter().any(|text| message.contains(text))
}

/// The cause if the message behind a reason says that the API server did not take the pod. It refuses the same pod again, unless it says
/// something that passes: a quota that other pods use, a server that starts or is slow.
fn refused_by_api(message: &str) -> Option<Cause> {
    let passing = [
        "exceeded quota: ",
        "not yet ready to handle",
        "status unknown for quota",
        "error looking up service account",
        "is being terminated",
        "the object has been modified",
        "timeout",
        "deadline exceeded",
        "connection refused",
    ];
    let refusals = ["is forbidden: ", "violates PodSecurity", "\" is invalid: ", " denied the request"];
    let cause =
        if passing.iter().any(|text| message.contains(text)) { Cause::Infra } else { Cause::Configuration };
    refusals.iter().any(|text| message.contains(text)).then_some(cause)
}

/// Whether the kubelet evicted a pod for its own use of storage (message from pkg/kubelet/eviction/helpers.go).
fn used_up_its_storage(message: &str) -> bool {
    let texts = [
        "exceeded its local ephemeral storage limit",
        "ephemeral local storage usage exceeds the total limit",
        "Usage of EmptyDir volume",
    ];
    texts.iter().any(|text| message.contains(text))
}

/// Which container was killed for memory, according to the last line of GitLab's runner.
#[derive(Debug, Clone, Copy)]
pub(in crate::retry) enum OutOfMemory<'s> {
    /// No container, or a counter shows that it was not killed.
    Unknown,
    /// The container of the build.
    Build,
    /// Another container of the pod.
    OtherContainer(&'s str),
}

/// The clue from the CI system's failure reason; numbers and names from GitLab's `commit_status.rb`.
pub(in crate::retry) fn ci_clue(reason: &str, killed: OutOfMemory<'_>) -> Option<Clue> {
    let found =
        |cause, confidence| make_clue(Source::Ci, cause, confidence, format!("failure reason {reason}"));
    if let ("runner_system_failure", OutOfMemory::OtherContainer(container)) = (reason_word(reason), killed) {
        let text = format!("failure reason {reason}: the container {container} was killed for memory");
        return Some(containers::out_of_memory(Source::Ci, container, 0.7, text));
    }
    Some(match reason_word(reason) {
        // the build's own script failed, for any reason
        "" | "script_failure" | "unknown_failure" => return None,
        // only the runner reports this reason; a build that prints the runner's line ends with `script_failure`
        "runner_system_failure" if matches!(killed, OutOfMemory::Build) => found(Cause::Oom, 0.7),
        // this reason has many possible causes, so other evidence decides
        "runner_system_failure" | "runner_external_dependency_failure" | "runner_interrupted" => {
            as_weak(found(Cause::Infra, 0.6))
        }
        "job_execution_timeout"
        | "job_execution_server_timeout"
        | "server_timeout_running"
        | "server_timeout_canceling" => found(Cause::Timeout, 0.9),
        "api_failure"
        | "stuck_or_timeout_failure"
        | "stuck_pending_with_matching_runners"
        | "no_updates_running"
        | "no_updates_canceling"
        | "scheduler_failure"
        | "data_integrity_failure"
        | "runner_provisioning_timeout"
        | "job_router_failure"
        | "image_pull_failure" => found(Cause::Infra, 0.8),
        // LSF, Slurm, AWS Batch, and what passes on Kubernetes' reason: each counts the memory of the job by itself
        "TERM_MEMLIMIT" | "TERM_SWAP" | "OUT_OF_MEMORY" | "OutOfMemoryError" | "OOMKilled" => {
            found(Cause::Oom, 0.8)
        }
        "job_canceled" | "canceled" => found(Cause::Canceled, 0.95),
        known if NEEDS_A_MEND.contains(&known) => found(Cause::Configuration, 0.9),
        _ => unknown_reason(Source::Ci, reason),
    })
}

/// Failure reasons that stay until something is changed.
const NEEDS_A_MEND: [&str; 33] = [
    "runner_configuration_error",
    "runner_unsupported",
    "missing_dependency_failure",
    "stale_schedule",
    "archived_failure",
    "unmet_prerequisites",
    "forward_deployment_failure",
    "failed_outdated_deployment_job",
    "user_blocked",
    "project_deleted",
    "ci_quota_exceeded",
    "pipeline_loop_detected",
    "no_matching_runner",
    "stuck_pending_no_matching_runners",
    "trace_size_exceeded",
    "builds_disabled",
    "environment_creation_failure",
    "deployment_rejected",
    "protected_environment_failure",
    "insufficient_bridge_permissions",
    "downstream_bridge_project_not_found",
    "invalid_bridge_trigger",
    "upstream_bridge_project_not_found",
    "insufficient_upstream_permissions",
    "bridge_pipeline_is_child_pipeline",
    "downstream_pipeline_creation_failed",
    "secrets_provider_not_found",
    "reached_max_descendant_pipelines_depth",
    "ip_restriction_failure",
    "reached_max_pipeline_hierarchy_size",
    "reached_downstream_pipeline_trigger_rate_limit",
    "job_token_expired",
    "id_token_burned_project_path",
];

/// The clue from a reason that is not in the lists, for example because it is newer than they are: it is shown and names no cause.
fn unknown_reason(source: Source, reason: &str) -> Clue {
    let text = format!("{} reason {reason} is not known here", source.as_str());
    Clue { cause: None, weak: true, ..make_clue(source, Cause::Unknown, 0.0, text) }
}

/// The reason without the message that may follow it.
fn reason_word(reason: &str) -> &str {
    reason.split([':', ' ', '\n']).next().unwrap_or_default()
}
