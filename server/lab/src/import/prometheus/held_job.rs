//! A job of GitLab's list while an import holds it, and which pods it may have run in.

use std::sync::Arc;

use plimsoll_core::domain::JobStatus;
use plimsoll_proto::v1 as pb;
use prost::Message as _;

use super::pod::TimeRange;

/// Largest difference between the clocks of GitLab and of Prometheus, milliseconds.
pub(super) const CLOCKS_MS: u64 = 60_000;
/// Longest time from the start of a job to the first reading of its build, milliseconds: a node is started, images are pulled. The runner
/// waits for a pod for 3 minutes by default (`poll_timeout`); jobs whose nodes are slower wait longer.
pub(super) const UP_TO_BUILD_MS: u64 = 30 * 60_000;
/// Longest time from the last reading of a build to the end of its job, milliseconds: caches and artifacts are uploaded.
const AFTER_BUILD_MS: u64 = 30 * 60_000;

/// A job of the list, packed.
#[derive(Debug)]
pub(super) struct HeldJob {
    pub(super) id: u64,
    pub(super) started_ms: u64,
    pub(super) finished_ms: Option<u64>,
    pub(super) end: Option<JobStatus>,
    pub(super) untrusted: bool,
    pub(super) reason: Arc<str>,
    /// The key as a message.
    pub(super) key: Box<[u8]>,
}

impl HeldJob {
    /// The key of the job.
    pub(super) fn key(&self) -> pb::Key {
        // it was a key before it was packed
        pb::Key::decode(&*self.key).unwrap_or_default()
    }

    /// Whether the pod may be the one in which it ran.
    pub(super) fn may_have_run_in(&self, pod: TimeRange) -> bool {
        let end_ms = self.finished_ms.unwrap_or(u64::MAX - CLOCKS_MS);
        let is_inside = self.started_ms <= pod.start_ms + CLOCKS_MS && pod.end_ms <= end_ms + CLOCKS_MS;
        let is_near = self.started_ms + UP_TO_BUILD_MS >= pod.start_ms
            && self.finished_ms.is_none_or(|end_ms| end_ms <= pod.end_ms + AFTER_BUILD_MS);
        is_inside && is_near
    }
}
