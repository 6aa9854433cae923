//! Sizes and placement for a new pod of a CI job.

use std::{sync::Arc, time::Duration};

use plimsoll_core::{
    domain::{Cause, JobPod, Key, Prediction},
    placement::{OperatingSystem, PlacementTarget, ResourceNeeds},
};
use tokio::time::{Instant, timeout_at};

use crate::{
    sizing::{SizingService, WithheldAnswer},
    verdicts::{AfterMemoryEnd, Verdicts},
};

/// Time reserved for writing the answer.
const ANSWER_MARGIN: Duration = Duration::from_millis(20);

/// Source of a pod's sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SizeSource {
    /// The history of the key.
    ByHistory,
    /// The verdict on the job's last attempt, which ran out of memory or was evicted because it
    /// used more than its request.
    ByVerdict {
        /// The cause in the verdict.
        cause: Cause,
        /// Whether the sizes of the last attempt are unknown: the verdict then assumes the sizes
        /// that this pod requests.
        had_unknown: bool,
    },
}

/// Time limit of an answer, and the confidence that a prediction needs to replace a verdict's size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerTerms {
    pub(crate) deadline: Instant,
    pub(crate) time_limit: Duration,
    pub(crate) confidence: f64,
}

/// Sizes and places pods. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct AdmissionService {
    pub(crate) sizing: SizingService,
    pub(crate) verdicts: Verdicts,
}

impl AdmissionService {
    /// Sizes for the job: the prediction, and at least the verdict's size if the last attempt ran
    /// out of memory. If reading the verdict from disk takes too long, the prediction alone is
    /// used. Returns `None` if computing the prediction failed.
    pub(crate) async fn size_job(
        &self,
        key: Arc<Key>,
        terms: AnswerTerms,
    ) -> Option<(Arc<Prediction>, SizeSource)> {
        let known = self.sizing.size_in_background(Arc::clone(&key)).await?;
        // leaves enough time to answer with the prediction alone
        let again = timeout_at(
            terms.deadline - ANSWER_MARGIN.min(terms.time_limit / 4),
            self.verdicts.after_memory_end(&key),
        );
        let next = match again.await {
            Ok(Ok(next)) => next,
            Ok(Err(refusal)) => {
                tracing::warn!(%refusal, "no verdict on the last attempt of a pod's job");
                None
            }
            Err(_late) => {
                tracing::warn!("the verdict on the last attempt of a pod's job took too long");
                None
            }
        };
        let Some(AfterMemoryEnd { next, cause, had_unknown }) = next else {
            return Some((known, SizeSource::ByHistory));
        };
        // default sizes are no evidence against the verdict's size
        let is_sure = known.is_known(&known.memory_limit, terms.confidence);
        let is_more = is_sure
            && known.memory_limit.value > next.memory_limit.value
            && known.memory_request.value >= next.memory_request.value;
        Some((if is_more { known } else { Arc::new(next) }, SizeSource::ByVerdict { cause, had_unknown }))
    }

    /// Placement for a pod of this key: in the pool `predicted`, if it fits there.
    pub(crate) fn placement_target(
        &self,
        key: &Key,
        os: OperatingSystem,
        needs: &ResourceNeeds,
        predicted: &str,
    ) -> Option<PlacementTarget> {
        self.sizing.pools.aim(key, os, needs, predicted)
    }

    /// Whether shadow mode is on for the pods of this key.
    pub(crate) fn is_shadowed(&self, key: &Key) -> bool {
        self.sizing.is_shadowed(key)
    }

    /// Counts a pod that would have been changed without shadow mode.
    pub(crate) fn count_withheld(&self) {
        self.sizing.withheld(WithheldAnswer::Pod);
    }

    /// Stores the sizes of a job's pod, for later verdicts on the job's attempts.
    pub(crate) fn note_pod(&self, pod: JobPod) {
        self.verdicts.ingest.note_pod(pod);
    }
}
