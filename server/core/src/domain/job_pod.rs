//! What the pod of a CI job asks for, as the admission webhook saw it when it came to be.

use plimsoll_proto::limits;
use serde::{Deserialize, Serialize};

use super::{AttemptId, Bytes, Resources};

/// The pod of a job, as far as it tells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobPod {
    /// Number of the job.
    pub job: String,
    /// Host of its GitLab; empty if the pod does not say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Path of its project; empty if the pod does not say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// Namespace of the pod, by the word of the cluster: who may make pods there said the rest.
    pub namespace: String,
    /// What its build asks for and may have.
    pub sizes: Resources,
    /// When it was seen, milliseconds since 1970.
    pub seen_unix_ms: u64,
}

impl JobPod {
    /// The id of the attempt that the job is, as an agent in it has it; `None` if the pod says what no job has.
    pub fn id(&self) -> Option<AttemptId> {
        let is_number = !self.job.is_empty() && self.job.bytes().all(|byte| byte.is_ascii_digit());
        if self.project.len() > limits::KEY_FIELD_BYTES || !is_number {
            return None;
        }
        Self::id_of(&self.host, &self.job)
    }

    /// Whether its memory is one that pods may have.
    pub fn is_within(&self, most: Option<Bytes>) -> bool {
        let mut sizes = [self.sizes.memory_request, self.sizes.memory_limit].into_iter().flatten();
        most.is_none_or(|most| sizes.all(|size| size <= most))
    }

    /// The id of a job of a host, which may be empty.
    pub fn id_of(host: &str, job: &str) -> Option<AttemptId> {
        let id =
            if host.is_empty() { AttemptId::parse(job) } else { AttemptId::parse(&format!("{host}:{job}")) };
        id.ok()
    }
}
