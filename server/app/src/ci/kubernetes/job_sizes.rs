//! Sizes for a new pod of a CI job: the prediction, or the verdict on the last attempt of the job.

use std::{sync::Arc, time::Duration};

use plimsoll_core::domain::{Cause, Key, Prediction};
use tokio::time::{Instant, timeout_at};

use super::PodReviewer;
use crate::{sizing::MemoryPreset, verdicts::AfterMemoryEnd};

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

impl PodReviewer {
    /// Sizes for the job: the prediction, and at least the verdict's size if the last attempt ran
    /// out of memory. If reading the verdict from disk takes too long, the prediction alone is
    /// used. `own`: the memory that the pod asks for, which builds of other packages may show to be
    /// too much. Returns `None` if computing the prediction failed.
    pub(super) async fn size_job(
        &self,
        key: Arc<Key>,
        own: Option<MemoryPreset>,
        deadline: Instant,
    ) -> Option<(Arc<Prediction>, SizeSource)> {
        let mut known = self.sizing.size_in_background(Arc::clone(&key)).await?;
        if let Some(own) = own.filter(|_| !known.is_of_package && known.lower_bound.is_none()) {
            known = self.sizing.lowered_preset(Arc::clone(&key), own).await.unwrap_or(known);
        }
        // leaves enough time to answer with the prediction alone
        let again = timeout_at(
            deadline - ANSWER_MARGIN.min(self.settings.answer_within / 4),
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
        let is_sure = known.is_known_for_build(&known.memory_limit, self.settings.confidence);
        let is_more = is_sure
            && known.memory_limit.value > next.memory_limit.value
            && known.memory_request.value >= next.memory_request.value;
        Some((if is_more { known } else { Arc::new(next) }, SizeSource::ByVerdict { cause, had_unknown }))
    }
}
