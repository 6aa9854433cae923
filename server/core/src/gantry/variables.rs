//! Formats a prediction as variables of a GitLab job, in the only form that every Spack release accepts: a JSON object of strings.
//!
//! A value above the runner's maximum fails the job, and Kubernetes refuses a pod with a request above its limit. So every value is
//! lowered to the runner's maximum, and then each request to its limit.

use plimsoll_base::quantity;
use serde::Serialize;

use super::settings::{ExtraVariable, Settings};
use crate::domain::{Bytes, Cores, Prediction, Quantity};

/// Body of the answer to an allocation request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AllocationAnswer {
    variables: Variables,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<Retry>,
}

/// GitLab's `retry` keyword, which Spack merges with its own value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Retry {
    max: u8,
    exit_codes: Vec<u8>,
}

/// Most retries that GitLab accepts.
const MAX_RETRIES: u8 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Variables {
    #[serde(rename = "KUBERNETES_CPU_REQUEST")]
    cpu_request: String,
    #[serde(rename = "KUBERNETES_MEMORY_REQUEST")]
    memory_request: String,
    #[serde(rename = "KUBERNETES_CPU_LIMIT", skip_serializing_if = "Option::is_none")]
    cpu_limit: Option<String>,
    #[serde(rename = "KUBERNETES_MEMORY_LIMIT", skip_serializing_if = "Option::is_none")]
    memory_limit: Option<String>,
    #[serde(rename = "SPACK_BUILD_JOBS", skip_serializing_if = "Option::is_none")]
    build_jobs: Option<String>,
    #[serde(rename = "KUBERNETES_EPHEMERAL_STORAGE_REQUEST", skip_serializing_if = "Option::is_none")]
    disk: Option<String>,
}

/// An answer without variables: the job keeps its own sizes. Spack accepts it, even with `require: [variables]`.
pub const EMPTY_ANSWER: &str = r#"{"variables":{}}"#;

/// The variables for a job of `stack`.
pub fn allocation_answer(prediction: &Prediction, stack: &str, settings: &Settings) -> AllocationAnswer {
    // a default is not sent as an extra variable, because it would replace the value that the job or its runner has
    let sent = |extra, quantity: &Quantity| {
        prediction.is_known(quantity, settings.confidence) && settings.extras.contains(&extra)
    };
    // a request that follows from attempts may exceed the runner's default limit, and Kubernetes would refuse the pod, so a limit is sent
    // too. If the predicted limit is a default because needs are incomplete, the runner's own limit may be higher and is kept
    let is_raised = !prediction.memory_request.basis.is_default()
        && !prediction.memory_limit.basis.bound.is_incomplete()
        && settings.extras.contains(&ExtraVariable::MemoryLimit);
    let sends_memory_limit = is_raised || sent(ExtraVariable::MemoryLimit, &prediction.memory_limit);
    let sends_cpu_limit = sent(ExtraVariable::CpuLimit, &prediction.cpu_limit);
    let sends_jobs = sent(ExtraVariable::BuildJobs, &prediction.build_jobs);
    let memory = |max: Option<Bytes>| max.map_or(u64::MAX, |max| max.0);
    let cpu = |max: Option<Cores>| max.map_or(u64::MAX, |max| quantity::rounded_millicores(max.0));
    let memory_limit = prediction.memory_limit.value.min(memory(settings.max_memory_limit));
    let cpu_limit = prediction.cpu_limit.value.min(cpu(settings.max_cpu_limit));
    let memory_request = prediction.memory_request.value.min(memory(settings.max_memory_request));
    let cpu_request = prediction.cpu_request.value.min(cpu(settings.max_cpu_request));
    let codes = &settings.retry_exit_codes;
    let retry = (!codes.is_empty()).then(|| Retry { max: MAX_RETRIES, exit_codes: codes.clone() });
    AllocationAnswer {
        retry,
        variables: Variables {
            cpu_request: format!("{}m", cpu_request.min(cpu_limit)),
            memory_request: mebibytes(memory_request.min(memory_limit)),
            cpu_limit: sends_cpu_limit.then(|| format!("{cpu_limit}m")),
            memory_limit: sends_memory_limit.then(|| mebibytes(memory_limit)),
            build_jobs: sends_jobs.then(|| prediction.build_jobs.value.to_string()),
            disk: settings
                .disk(stack)
                .filter(|_| settings.extras.contains(&ExtraVariable::EphemeralStorage))
                .map(|disk| mebibytes(disk.0)),
        },
    }
}

/// A size as text in MiB. Predictions are whole mebibytes; only a cap may not be, and a cap is never rounded up.
fn mebibytes(bytes: u64) -> String {
    if bytes < Bytes::MIB.0 { bytes.to_string() } else { format!("{}Mi", bytes / Bytes::MIB.0) }
}

#[cfg(test)]
mod tests;
