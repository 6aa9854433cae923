//! Sizes that the verdict on the previous attempt advised for this attempt. The next size is never
//! below them, even if the retry's key has fewer fields.

use std::sync::Arc;

use plimsoll_core::domain::{AttemptId, Bytes, Evidence, NamedSizes, Summary};
use plimsoll_store::{self as store, Store, StoreError};

use super::Verdicts;
use crate::access::Reply;

impl Verdicts {
    /// Memory sizes that the verdict in force on the previous attempt advised for this attempt, if
    /// the previous attempt was short of memory.
    pub(super) async fn named_before(
        &self,
        asked: &Evidence,
        measured: Option<Arc<Summary>>,
    ) -> Reply<Option<NamedSizes>> {
        let key = measured.as_deref().map_or(&asked.key, |summary| &summary.key).clone();
        let project = key.project.clone();
        let about =
            Evidence { key, measured, number: asked.number, ..Evidence::about(asked.attempt.clone()) };
        let before = self.parts.history.read(|history| {
            history.attempts_before(&(&about).into()).first().map(|brief| brief.attempt.clone())
        });
        match before {
            Some(before) => {
                let named = named_for_next(&self.parts.store, &before, &project).await;
                Ok(named?)
            }
            None => Ok(None),
        }
    }
}

/// Memory sizes that the verdict in force on an attempt of this project advised for the next one,
/// if the attempt was short of memory.
async fn named_for_next(
    store: &Store,
    attempt: &AttemptId,
    project: &str,
) -> Result<Option<NamedSizes>, StoreError> {
    let mut given = store::read_verdicts(store, attempt).await?;
    given.retain(|verdict| verdict.counts_for(project) && !verdict.basis.by_untrusted);
    let last = given.pop().filter(|verdict| verdict.cause.is_memory());
    Ok(last.and_then(|verdict| verdict.next).map(|next| NamedSizes {
        request: Bytes(next.memory_request.value),
        limit: Bytes(next.memory_limit.value),
    }))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Exit, test_summary};

    use super::*;
    use crate::{
        ingest::{Ingest, fixture},
        verdicts::Asker,
    };

    async fn find(ingest: &Ingest) {
        let verdicts = fixture::verdicts(ingest);
        let first = test_summary("first", "zlib", "1", 100);
        ingest.history().learn(&first);
        let asked = Evidence {
            key: first.key.clone(),
            exit: Some(Exit::Code(137)),
            container_reason: "OOMKilled".into(),
            ..Evidence::about(first.attempt.clone())
        };
        let next = verdicts.judge(asked, Asker::TRUSTED).await.unwrap().next.unwrap();
        let retry = Summary {
            retries: Some(first.attempt.clone()),
            number: 2,
            ..test_summary("second", "zlib", "1", 100)
        };
        let about = Evidence::about(retry.attempt.clone());
        let named = verdicts.named_before(&about, Some(Arc::new(retry))).await.unwrap().unwrap();
        assert_eq!((named.request.0, named.limit.0), (next.memory_request.value, next.memory_limit.value));
        assert_eq!(verdicts.named_before(&about, None).await, Ok(None));
    }

    #[tokio::test]
    async fn the_retried_attempts_verdict_is_found() {
        fixture::with_server(&Store::memory(), 10, find).await;
    }
}
