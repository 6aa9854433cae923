//! Limits of open attempts. All callers share one limit. Some callers also have a limit of their
//! own, and untrusted callers together must leave some attempts for trusted ones.

use std::sync::Arc;

use plimsoll_core::domain::Attempt;

use crate::{
    access::identity::{Bound, UsageSlot},
    ingest::{Refusal, Reply, stream_handle::StreamHandle},
};

/// One in this many attempts is reserved for trusted callers.
const TRUSTED_RESERVE: usize = 5;

/// Counts open attempts of untrusted callers.
#[derive(Debug, Default)]
pub(crate) struct OpenQuota {
    /// Each open attempt of an untrusted caller has a clone, so the number of clones is the number
    /// of these attempts.
    untrusted: Arc<()>,
}

/// What an open attempt takes from the limits; given back on drop.
#[derive(Debug)]
pub(crate) struct QuotaShare {
    /// The slot that the attempt takes from the caller's own limit; `None` if the caller has not
    /// reconnected since the server started.
    own: Option<UsageSlot>,
    untrusted: Option<Arc<()>>,
}

impl OpenQuota {
    /// Takes a share for a new attempt opened by `stream`. All callers together may have `most`
    /// open attempts.
    pub(crate) fn of_new(
        &self,
        attempt: &Attempt,
        stream: &StreamHandle,
        most: usize,
    ) -> Reply<Arc<QuotaShare>> {
        let of_untrusted = most - most / TRUSTED_RESERVE;
        if attempt.opening.untrusted && self.untrusted() >= of_untrusted {
            return Err(Refusal::FullOfUntrusted(of_untrusted));
        }
        let own = stream.caller.place(Bound::OpenAttempts).map_err(Refusal::Exceeded)?;
        Ok(Arc::new(QuotaShare { own: Some(own), untrusted: self.total_share(attempt) }))
    }

    /// Takes a share for an attempt that was open when the server started.
    pub(crate) fn of_resumed(&self, attempt: &Attempt) -> Option<Arc<QuotaShare>> {
        self.total_share(attempt).map(|one| Arc::new(QuotaShare { own: None, untrusted: Some(one) }))
    }

    /// The share of an attempt after its agent has reconnected. From now on it counts toward the
    /// caller's own limit if that allows one more; it continues in any case.
    #[expect(clippy::unused_self, reason = "beside its siblings")]
    pub(crate) fn of_returned(
        &self,
        share: Option<Arc<QuotaShare>>,
        stream: &StreamHandle,
    ) -> Option<Arc<QuotaShare>> {
        if share.as_ref().is_some_and(|share| share.own.is_some()) {
            return share;
        }
        let Ok(own) = stream.caller.place(Bound::OpenAttempts) else { return share };
        let untrusted = share.and_then(|share| share.untrusted.clone());
        Some(Arc::new(QuotaShare { own: Some(own), untrusted }))
    }

    fn total_share(&self, attempt: &Attempt) -> Option<Arc<()>> {
        attempt.opening.untrusted.then(|| Arc::clone(&self.untrusted))
    }

    /// Number of open attempts of untrusted callers.
    fn untrusted(&self) -> usize {
        Arc::strong_count(&self.untrusted) - 1
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_store::Store;
    use tokio::{sync::oneshot, time::Instant};

    use super::*;
    use crate::{
        access::identity::{Access, AccessFile, Identity, Sources, Usages},
        ingest::{Worker, fixture, request::Request},
    };

    /// A caller that is not trusted, and may have `most` attempts open.
    fn stranger(name: &str, most: usize) -> Arc<Identity> {
        let file = format!(
            "[[certificate]]\ndns_name = \"{name}\"\nroles = [\"agent\"]\nbounds.open_attempts = {most}\n"
        );
        let read = |_: &std::path::PathBuf| Err("no file".to_owned());
        let fetched = |_| Arc::default();
        let sources =
            Sources { read: &read, usages: &Usages::default(), moment: Instant::now(), fetched: &fetched };
        let access = Access::new(AccessFile::parse(&file).unwrap(), sources).unwrap();
        access.identify(None, &[name.to_owned()], 0, Instant::now()).unwrap()
    }

    async fn open(worker: &mut Worker, id: &str, caller: &Arc<Identity>) -> Reply<()> {
        let mut attempt = fixture::attempt(id);
        attempt.opening.untrusted = !caller.trusted;
        let (answer, answered) = oneshot::channel();
        let stream = StreamHandle::of(Arc::clone(caller));
        worker
            .handle_requests(
                [Request::Open { attempt: Box::new(attempt), stream, takes_new_id: false, answer }]
                    .into_iter(),
            )
            .await;
        worker.commit_all().await;
        answered.await.unwrap().map(drop)
    }

    #[tokio::test(start_paused = true)]
    async fn open_attempts_per_caller_are_limited() {
        let (_ingest, mut worker) = fixture::ingest(&Store::memory(), 10);
        let stranger = stranger("stranger", 2);
        for id in ["a", "b", "a"] {
            open(&mut worker, id, &stranger).await.unwrap();
        }
        let refused = open(&mut worker, "c", &stranger).await.unwrap_err();
        assert!(refused.to_string().contains("bounds.open_attempts") && refused.retry_after().is_some());
        assert_eq!(open(&mut worker, "c", &Identity::anyone()).await, Ok(()));
        tokio::time::advance(fixture::ABANDON_AFTER + Duration::from_secs(1)).await;
        worker.close_abandoned().await;
        assert_eq!(open(&mut worker, "d", &stranger).await, Ok(()));
    }

    #[tokio::test]
    async fn untrusted_attempts_leave_room_for_trusted_ones() {
        let store = Store::memory();
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        for n in 0..8 {
            open(&mut worker, &format!("a{n}"), &stranger(&format!("s{n}"), 8)).await.unwrap();
        }
        let late = stranger("late", 8);
        assert_eq!(open(&mut worker, "late", &late).await, Err(Refusal::FullOfUntrusted(8)));
        assert_eq!(open(&mut worker, "ours", &Identity::anyone()).await, Ok(()));

        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        worker.resume().await.unwrap();
        assert_eq!(open(&mut worker, "a0", &late).await, Ok(()), "it is open already");
        assert_eq!(open(&mut worker, "late", &late).await, Err(Refusal::FullOfUntrusted(8)), "after a start");
        assert_eq!(open(&mut worker, "ours2", &Identity::anyone()).await, Ok(()));
    }
}
