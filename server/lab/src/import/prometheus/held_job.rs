//! A job of GitLab's list in a compact form, and which pods it may have run in.

use std::sync::Arc;

use plimsoll_core::domain::JobStatus;
use plimsoll_proto::v1 as pb;
use prost::Message as _;

use super::pod::TimeRange;

/// Largest accepted difference between the clocks of GitLab and Prometheus, milliseconds.
pub(super) const CLOCK_DIFFERENCE_MS: u64 = 60_000;
/// Longest time from the start of a job to the first reading of its build, milliseconds. In this time a node is
/// started and images are pulled. By default the runner waits 3 minutes for a pod (`poll_timeout`), and longer
/// if it is configured so.
pub(super) const UP_TO_BUILD_MS: u64 = 30 * 60_000;
/// Longest time from the last reading of a build to the end of its job, milliseconds. In this time caches and
/// artifacts are uploaded.
const AFTER_BUILD_MS: u64 = 30 * 60_000;

/// A job of GitLab's list, in a compact form.
#[derive(Debug)]
pub(super) struct HeldJob {
    pub(super) id: u64,
    pub(super) started_ms: u64,
    pub(super) finished_ms: Option<u64>,
    pub(super) end: Option<JobStatus>,
    pub(super) untrusted: bool,
    pub(super) reason: Arc<str>,
    /// The key of the job, as the bytes of a message.
    pub(super) key: Box<[u8]>,
}

impl HeldJob {
    pub(super) fn key(&self) -> pb::Key {
        // cannot fail: the bytes were made from a key
        pb::Key::decode(&*self.key).unwrap_or_default()
    }

    /// Whether the job may have run in a pod that was seen in this time.
    pub(super) fn may_have_run_in(&self, pod: TimeRange) -> bool {
        let end_ms = self.finished_ms.unwrap_or(u64::MAX - CLOCK_DIFFERENCE_MS);
        let is_inside = self.started_ms <= pod.start_ms + CLOCK_DIFFERENCE_MS
            && pod.end_ms <= end_ms + CLOCK_DIFFERENCE_MS;
        let is_near = self.started_ms + UP_TO_BUILD_MS >= pod.start_ms
            && self.finished_ms.is_none_or(|end_ms| end_ms <= pod.end_ms + AFTER_BUILD_MS);
        is_inside && is_near
    }
}
