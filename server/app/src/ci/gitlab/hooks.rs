//! Accepts job hooks: each once, and stored on disk. Answers before a hook is processed, because
//! GitLab disables hooks that respond slowly.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::timeout,
};

use super::{
    EndedJob, Follower, GitlabClient, QUEUE, Spool,
    follow::FollowerParts,
    record::HookRecord,
    spool::FoundHook,
    waiting::{HookClaim, KnownHooks, QueuedHook, hook_hashes},
};
use crate::{
    ingest::Ingest,
    runtime::metrics::{KindLabel, Metrics},
    verdicts::Verdicts,
};

/// How long the answer to a hook waits for the disk: GitLab gives up after ten seconds.
const DISK_PATIENCE: Duration = Duration::from_secs(4);

/// What was done with a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookResult {
    /// The hook was accepted; it is processed and counted later.
    Later,
    /// The hook repeats an earlier one, and is ignored.
    Repeated,
    /// The hook was not accepted, because the queue was full.
    Dropped,
}

/// Accepts hooks. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Hooks {
    claimed_hashes: Arc<Mutex<KnownHooks>>,
    ingest: Ingest,
    queue: mpsc::Sender<QueuedHook>,
    /// Whether GitLab is asked about jobs.
    asks_gitlab: bool,
    /// `None` if hooks are kept only in memory.
    spool: Option<Spool>,
    metrics: Arc<Metrics>,
}

impl Hooks {
    /// Creates the handle, and the [`Follower`], which the caller must run. `kept`: the spool, with
    /// the hooks accepted before the server started.
    pub(crate) fn new(
        ingest: Ingest,
        verdicts: Verdicts,
        client: Option<GitlabClient>,
        kept: Option<(Spool, Vec<FoundHook>)>,
    ) -> (Self, Follower) {
        let metrics = Arc::clone(&ingest.parts.metrics);
        let (queue, waiting) = mpsc::channel(QUEUE);
        let (known, asks) = (Arc::<Mutex<KnownHooks>>::default(), client.is_some());
        let (spool, found) = kept.map_or((None, Vec::new()), |(spool, found)| (Some(spool), found));
        let found = found.into_iter().filter_map(|FoundHook { ended, kept_hook: kept, applied_since }| {
            let name = HookClaim::claim(&known, hook_hashes(&ended, kept.record.delivery.as_deref()))?;
            Some(QueuedHook { ended, name, kept: Some(kept), applied_since, answer: None })
        });
        let parts = FollowerParts { client, ingest: ingest.clone(), verdicts, metrics: Arc::clone(&metrics) };
        let follower = Follower::new(parts, waiting, found.collect());
        (Self { claimed_hashes: known, ingest, queue, asks_gitlab: asks, spool, metrics }, follower)
    }

    /// Whether accepted hooks are stored on disk, so that they survive a crash.
    pub(crate) fn are_on_disk(&self) -> bool {
        self.spool.is_some()
    }

    /// Accepts a hook about the end of a job, on disk if there is a spool. `delivery` is GitLab's
    /// `Idempotency-Key`, which is the same when GitLab repeats a hook. A job ends once, so a hook
    /// with the same end of the same job is a repetition, too. Hooks that are not processed later
    /// are counted here.
    pub(crate) async fn accept(&self, ended: Box<EndedJob>, delivery: Option<&str>) -> HookResult {
        let taken = self.accept_uncounted(ended, delivery).await;
        let kind = match taken {
            HookResult::Later => return taken,
            HookResult::Repeated => "repeated",
            HookResult::Dropped => {
                tracing::warn!("dropped a job hook: too many requests wait for the writer");
                "dropped"
            }
        };
        self.metrics.hooks.get_or_create(&KindLabel::of(kind)).inc();
        taken
    }

    async fn accept_uncounted(&self, ended: Box<EndedJob>, delivery: Option<&str>) -> HookResult {
        let names = hook_hashes(&ended, delivery);
        let number = names.first().copied().unwrap_or_default();
        let Some(name) = HookClaim::claim(&self.claimed_hashes, names) else { return HookResult::Repeated };
        let place = match self.queue.clone().try_reserve_owned() {
            Ok(place) => Some(place),
            // the server is stopping: the hook is stored on disk and processed after the next start
            Err(TrySendError::Closed(_)) if self.spool.is_some() => None,
            Err(_full) => return self.apply_own_content(*ended, name),
        };
        let record = HookRecord::of(&ended, delivery);
        let mut waiting = QueuedHook { ended, name, kept: None, applied_since: None, answer: None };
        let turn = match &self.spool {
            Some(spool) => {
                timeout(DISK_PATIENCE, spool.write_permit()).await.ok().flatten().zip(Some(spool.clone()))
            }
            None => None,
        };
        let Some((turn, spool)) = turn else {
            self.count_unkept();
            return self.queue_hook(waiting, place);
        };
        let hooks = self.clone();
        let writing = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            waiting.kept = spool.keep(number, record);
            if waiting.kept.is_none() {
                hooks.count_unkept();
            }
            hooks.queue_hook(waiting, place)
        });
        // GitLab gets its answer in time even if the disk is slow: the write continues in the
        // background
        timeout(DISK_PATIENCE, writing).await.ok().and_then(Result::ok).unwrap_or(HookResult::Later)
    }

    /// Queues a hook for the [`Follower`]. If GitLab need not be asked, the report is applied at
    /// once. Without space in the queue, a hook on disk is processed after the next start.
    fn queue_hook(
        &self,
        mut waiting: QueuedHook,
        place: Option<mpsc::OwnedPermit<QueuedHook>>,
    ) -> HookResult {
        let Some(place) = place else {
            if waiting.kept.is_none() {
                return self.apply_own_content(*waiting.ended, waiting.name);
            }
            waiting.name.confirm();
            return HookResult::Later;
        };
        if !self.asks_gitlab {
            waiting.answer = self.ingest.queue_report_for_result(waiting.ended.reported.clone());
        }
        place.send(waiting);
        let waiting = self.queue.max_capacity().saturating_sub(self.queue.capacity());
        self.metrics.gitlab_queue.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        HookResult::Later
    }

    /// Reports only the content of the hook, without asking GitLab, because the queue is full.
    fn apply_own_content(&self, ended: EndedJob, name: HookClaim) -> HookResult {
        if self.asks_gitlab {
            self.metrics.hooks.get_or_create(&KindLabel::of("not_asked")).inc();
        }
        if !self.ingest.queue_report(ended.reported) {
            return HookResult::Dropped;
        }
        name.confirm();
        HookResult::Later
    }

    fn count_unkept(&self) {
        if self.spool.is_some() {
            self.metrics.hooks.get_or_create(&KindLabel::of("not_kept")).inc();
        }
    }
}
