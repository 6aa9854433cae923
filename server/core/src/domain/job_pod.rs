//! Requests and limits of a CI job's pod, as the admission webhook saw them when the pod was created.

use plimsoll_proto::limits;
use serde::{Deserialize, Serialize};

use super::{AttemptId, Bytes, Resources};

/// The pod of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobPod {
    /// Number of the CI job.
    pub job: String,
    /// Host of the job's GitLab; empty if the pod does not name it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Path of the job's project; empty if the pod does not name it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// Namespace of the pod, as the API server reports it. The other fields come from the pod's author.
    pub namespace: String,
    /// Requests and limits of the pod's build container.
    pub sizes: Resources,
    /// When the webhook saw the pod, milliseconds since 1970.
    pub seen_unix_ms: u64,
}

impl JobPod {
    /// Id of the job's attempt, as an agent in the job forms it; `None` if the pod's values cannot belong to a job.
    pub fn id(&self) -> Option<AttemptId> {
        let is_number = !self.job.is_empty() && self.job.bytes().all(|byte| byte.is_ascii_digit());
        if self.project.len() > limits::KEY_FIELD_BYTES || !is_number {
            return None;
        }
        Self::id_of(&self.host, &self.job)
    }

    /// Whether the pod's memory sizes are at most `most`.
    pub fn is_within(&self, most: Option<Bytes>) -> bool {
        let mut sizes = [self.sizes.memory_request, self.sizes.memory_limit].into_iter().flatten();
        most.is_none_or(|most| sizes.all(|size| size <= most))
    }

    /// The attempt id of a job on a host; the host may be empty.
    pub fn id_of(host: &str, job: &str) -> Option<AttemptId> {
        let id =
            if host.is_empty() { AttemptId::parse(job) } else { AttemptId::parse(&format!("{host}:{job}")) };
        id.ok()
    }
}
