//! Containers of a job's pod other than the build's. Each has its own memory limit, so an OOM kill in one of them shows nothing about the
//! build's need.
//!
//! GitLab's runner names the build's container `build`, the others `helper`, `init-permissions` and `svc-0`, `svc-1`, ...
//! (executors/kubernetes/kubernetes.go). `init-permissions` has the sizes of `helper`.

use crate::domain::{Cause, EvidenceSource as Source};
use crate::retry::{cause::clues::make_clue, cause::finding::Clue};

/// Name of the build's container.
const BUILD_CONTAINER: &str = "build";
/// Text between a reason of Kubernetes and the name of the container.
const REASON_SEPARATOR: &str = " in container ";

/// A reason with its container, as callers report it: `OOMKilled in container helper`. For the build's own container, the reason alone.
pub fn reason_in_container(reason: &str, container: &str) -> String {
    if is_build(container) { reason.to_owned() } else { format!("{reason}{REASON_SEPARATOR}{container}") }
}

/// The container named in a line of GitLab's runner, if it is not the build's: `ERROR: Job failed (system failure): Error in container
/// helper: exit code: 137, reason: 'OOMKilled'`.
pub fn other_container(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("Error in container ")?;
    rest.split([':', ' ']).next().filter(|name| !is_build(name))
}

/// The container named in a reported reason, if it is not the build's.
pub(in crate::retry) fn named_container(reason: &str) -> Option<&str> {
    let (_, name) = reason.split_once(REASON_SEPARATOR)?;
    name.split([':', ' ', '\n']).next().filter(|name| !is_build(name))
}

fn is_build(container: &str) -> bool {
    container.is_empty() || container == BUILD_CONTAINER
}

/// The clue that this container, not the build's, ran out of memory: the container's configuration has to change. `text` is the evidence.
pub(in crate::retry) fn out_of_memory(
    source: Source,
    container: &str,
    confidence: f64,
    text: String,
) -> Clue {
    let mend = Some(format!("{}; the build's own size is not at fault", what_to_raise(container)));
    Clue { mend, ..make_clue(source, Cause::Configuration, confidence, text) }
}

fn what_to_raise(container: &str) -> String {
    match container {
        "helper" | "init-permissions" => {
            format!("raise KUBERNETES_HELPER_MEMORY_LIMIT, the memory limit of `{container}`")
        }
        service if service.starts_with("svc-") => {
            format!("raise KUBERNETES_SERVICE_MEMORY_LIMIT, the memory limit of the service `{service}`")
        }
        other => format!("raise the memory limit of the container `{other}`"),
    }
}
