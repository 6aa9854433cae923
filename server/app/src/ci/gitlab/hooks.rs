//! Accepts job hooks: each once, and committed to the store. Answers before a hook is processed, because
//! GitLab disables hooks that respond slowly.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use plimsoll_store::Store;
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::task::TaskTracker;

use super::{
    EndedJob, Follower, GitlabClient, QUEUE,
    follow::FollowerParts,
    queued_hooks::{HookClaim, KnownHooks, QueuedHook},
    stored_hooks::{self, StoredHook, hook_hashes},
};
use crate::{
    ingest::Ingest,
    runtime::metrics::{KindLabel, Metrics},
    verdicts::Verdicts,
};

/// How long the answer to a hook waits for the store: GitLab gives up after ten seconds.
const STORE_PATIENCE: Duration = Duration::from_secs(8);

/// What was done with a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookResult {
    /// The hook is in the store; it is processed and counted later.
    Later,
    /// The hook repeats an earlier one, and is ignored.
    Repeated,
    /// The hook was not accepted, because the queue was full or the store did not take it in time.
    Dropped,
}

/// Accepts hooks. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Hooks {
    claimed_hashes: Arc<Mutex<KnownHooks>>,
    store: Store,
    ingest: Ingest,
    queue: mpsc::Sender<QueuedHook>,
    /// Whether GitLab is asked about jobs.
    asks_gitlab: bool,
    metrics: Arc<Metrics>,
}

impl Hooks {
    /// Creates the handle, and the [`Follower`], which the caller must run. `found`: the hooks that were in the store when
    /// the server started.
    pub(crate) fn new(
        (store, metrics): (Store, Arc<Metrics>),
        ingest: Ingest,
        verdicts: Verdicts,
        client: Option<GitlabClient>,
        found: Vec<StoredHook>,
    ) -> (Self, Follower) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let (known, asks) = (Arc::<Mutex<KnownHooks>>::default(), client.is_some());
        let found = found.into_iter().filter_map(|stored| {
            let ended = stored_hooks::ended(&stored.record)?;
            let hashes = hook_hashes(&ended, stored.record.delivery.as_deref());
            let claim = HookClaim::claim(&known, hashes).ok()?;
            claim.mark_stored();
            Some(QueuedHook { ended, claim, stored, answer: None })
        });
        let parts = FollowerParts {
            client,
            ingest: ingest.clone(),
            verdicts,
            metrics: Arc::clone(&metrics),
            other_hosts: Mutex::default(),
        };
        let follower = Follower::new(parts, waiting, found.collect());
        (Self { claimed_hashes: known, store, ingest, queue, asks_gitlab: asks, metrics }, follower)
    }

    /// Accepts a hook about the end of a job, once it is in the store. `delivery` is GitLab's
    /// `Idempotency-Key`, which is the same when GitLab repeats a hook. A job ends once, so a hook
    /// with the same end of the same job is a repetition, too. Hooks that are not processed later
    /// are counted here.
    pub(crate) async fn accept(&self, ended: Box<EndedJob>, delivery: Option<&str>) -> HookResult {
        let accepted = match self.begin_to_store(ended, delivery) {
            // after this time the commit goes on, and the hook is processed once it is stored
            Ok(storing) => timeout(STORE_PATIENCE, storing)
                .await
                .ok()
                .and_then(Result::ok)
                .unwrap_or(HookResult::Dropped),
            Err(refused) => refused,
        };
        let kind = match accepted {
            HookResult::Later => return accepted,
            HookResult::Repeated => "repeated",
            HookResult::Dropped => {
                tracing::warn!("dropped a job hook: the store does not take it, or too many wait");
                "dropped"
            }
        };
        self.metrics.hooks.get_or_create(&KindLabel::of(kind)).inc();
        accepted
    }

    fn begin_to_store(
        &self,
        ended: Box<EndedJob>,
        delivery: Option<&str>,
    ) -> Result<JoinHandle<HookResult>, HookResult> {
        let claim = match HookClaim::claim(&self.claimed_hashes, hook_hashes(&ended, delivery)) {
            Ok(claim) => claim,
            Err(first) if first.is_stored => return Err(HookResult::Repeated),
            // the first one may not get into the store
            Err(_storing) => return Err(HookResult::Dropped),
        };
        let place = match self.queue.clone().try_reserve_owned() {
            Ok(place) => Some(place),
            // the server is stopping: the hook is stored, and processed after the next start
            Err(TrySendError::Closed(_)) => None,
            Err(TrySendError::Full(_)) => return Err(HookResult::Dropped),
        };
        let record = stored_hooks::record(&ended, delivery);
        let hooks = self.clone();
        Ok(TaskTracker::new().spawn(async move {
            let stored = match StoredHook::commit(hooks.store.clone(), record).await {
                Ok(stored) => stored,
                Err(error) => {
                    tracing::warn!(%error, "a job hook cannot be stored");
                    return HookResult::Dropped;
                }
            };
            claim.mark_stored();
            match place {
                Some(place) => hooks.queue_hook(QueuedHook { ended, claim, stored, answer: None }, place),
                None => claim.confirm(),
            }
            HookResult::Later
        }))
    }

    /// Queues a hook for the [`Follower`]. If GitLab need not be asked, the report is applied at
    /// once.
    fn queue_hook(&self, mut waiting: QueuedHook, place: mpsc::OwnedPermit<QueuedHook>) {
        if !self.asks_gitlab {
            waiting.answer = self.ingest.queue_report_for_result(waiting.ended.reported.clone());
        }
        place.send(waiting);
        let waiting = self.queue.max_capacity().saturating_sub(self.queue.capacity());
        self.metrics.gitlab_queue.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }
}
