//! Takes job hooks: each once, at once, and on disk. A hook that waits is one that GitLab turns off.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::timeout,
};

use super::{
    Client, Follower, Spool,
    follow::Parts,
    record::Record,
    spool::{Found, Kept},
};
use crate::{
    domain::Fnv,
    gantry::Ended,
    ingest::{Ingest, Settled},
    metrics::{Kind, Metrics},
};

/// Ended jobs that may wait to be asked about: those of some minutes of a large GitLab. About 10 MB.
pub(super) const QUEUE: usize = 4096;
/// Hooks that are known again when they are sent again: those of some hours.
const KNOWN: usize = 20_000;

/// How long GitLab waits for the disk: it gives up after ten seconds.
const PATIENCE: Duration = Duration::from_secs(4);

/// What became of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is worked on later, and counted then.
    Later,
    /// It came before.
    Repeated,
    /// There was no room for it.
    Dropped,
}

/// Where hooks go.
#[derive(Debug, Clone)]
pub(crate) struct Hooks {
    known: Arc<Mutex<Known>>,
    ingest: Ingest,
    queue: mpsc::Sender<Waiting>,
    /// Whether GitLab is asked.
    asks: bool,
    /// `None` keeps them in memory alone.
    spool: Option<Spool>,
    metrics: Arc<Metrics>,
}

impl Hooks {
    /// The handle, and who works on what was taken: somebody must run it. `kept` is where hooks wait, with those of before the start.
    pub(crate) fn new(
        ingest: Ingest,
        client: Option<Client>,
        kept: Option<(Spool, Vec<Found>)>,
        metrics: Arc<Metrics>,
    ) -> (Self, Follower) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let (known, asks) = (Arc::<Mutex<Known>>::default(), client.is_some());
        let (spool, found) = kept.map_or((None, Vec::new()), |(spool, found)| (Some(spool), found));
        let found = found.into_iter().filter_map(|Found { ended, kept, told_since }| {
            let name = Name::claim(&known, names(&ended, kept.record.delivery.as_deref()))?;
            Some(Waiting { ended, name, kept: Some(kept), told_since, answer: None })
        });
        let parts = Parts { client, ingest: ingest.clone(), metrics: Arc::clone(&metrics) };
        let follower = Follower::new(parts, waiting, found.collect());
        (Self { known, ingest, queue, asks, spool, metrics }, follower)
    }

    /// Takes the end of a job, on disk where there is a place for it. `delivery` is GitLab's `Idempotency-Key`, the same when it sends a
    /// hook again; a job ends once, so that the same end of the same job is the same hook, too.
    pub(crate) async fn take(&self, ended: Box<Ended>, delivery: Option<&str>) -> Taken {
        let names = names(&ended, delivery);
        let number = names.first().copied().unwrap_or_default();
        let Some(name) = Name::claim(&self.known, names) else { return Taken::Repeated };
        let place = match self.queue.clone().try_reserve_owned() {
            Ok(place) => Some(place),
            // the server stops: what is on the disk is found at the next start
            Err(TrySendError::Closed(_)) if self.spool.is_some() => None,
            Err(_full) => return self.tell(*ended, name),
        };
        let record = Record::of(&ended, delivery);
        let mut waiting = Waiting { ended, name, kept: None, told_since: None, answer: None };
        let turn = match &self.spool {
            Some(spool) => timeout(PATIENCE, spool.turn()).await.ok().flatten().zip(Some(spool.clone())),
            None => None,
        };
        let Some((turn, spool)) = turn else {
            self.count_unkept();
            return self.hand_on(waiting, place);
        };
        let hooks = self.clone();
        let writing = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            waiting.kept = spool.keep(number, record);
            if waiting.kept.is_none() {
                hooks.count_unkept();
            }
            hooks.hand_on(waiting, place)
        });
        // GitLab waits for no disk: what is slow is written all the same
        timeout(PATIENCE, writing).await.ok().and_then(Result::ok).unwrap_or(Taken::Later)
    }

    /// Puts a hook into its place in the queue. One of which GitLab is not asked is told at once. Without a place the next start works
    /// on it, if it is on the disk.
    fn hand_on(&self, mut waiting: Waiting, place: Option<mpsc::OwnedPermit<Waiting>>) -> Taken {
        let Some(place) = place else {
            if waiting.kept.is_none() {
                return self.tell(*waiting.ended, waiting.name);
            }
            waiting.name.keep();
            return Taken::Later;
        };
        if !self.asks {
            waiting.answer = self.ingest.tell_and_hear(waiting.ended.told.clone());
        }
        place.send(waiting);
        let waiting = self.queue.max_capacity().saturating_sub(self.queue.capacity());
        self.metrics.gitlab_queue.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        Taken::Later
    }

    /// Tells what a hook says itself, for which there is no place: without what GitLab would have said.
    fn tell(&self, ended: Ended, name: Name) -> Taken {
        if self.asks {
            self.metrics.hooks.get_or_create(&Kind::of("not_asked")).inc();
        }
        if !self.ingest.tell(ended.told) {
            return Taken::Dropped;
        }
        name.keep();
        Taken::Later
    }

    fn count_unkept(&self) {
        if self.spool.is_some() {
            self.metrics.hooks.get_or_create(&Kind::of("not_kept")).inc();
        }
    }
}

/// A hook that waits to be worked on.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) ended: Box<Ended>,
    pub(super) name: Name,
    /// Its file.
    pub(super) kept: Option<Kept>,
    /// It was worked on before the start, since when it waits for its attempt.
    pub(super) told_since: Option<SystemTime>,
    /// It is told already: what will become of it.
    pub(super) answer: Option<oneshot::Receiver<Settled>>,
}

/// Under which a hook that is worked on is known again. Dropped before it is kept, it is forgotten: what was lost may come again.
#[derive(Debug)]
pub(super) struct Name {
    names: Vec<u64>,
    known: Arc<Mutex<Known>>,
}

impl Name {
    /// `None` if one of the names is known.
    fn claim(all: &Arc<Mutex<Known>>, names: Vec<u64>) -> Option<Self> {
        let mut known = all.lock().unwrap_or_else(PoisonError::into_inner);
        if names.iter().any(|name| known.set.contains(name)) {
            return None;
        }
        for name in &names {
            known.keep(*name);
        }
        drop(known);
        Some(Self { names, known: Arc::clone(all) })
    }

    /// The hook was handed on.
    pub(super) fn keep(mut self) {
        self.names.clear();
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if !self.names.is_empty() {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).forget(&self.names);
        }
    }
}

/// Under which a hook is known again, by this and every later release: the first names its file.
fn names(ended: &Ended, delivery: Option<&str>) -> Vec<u64> {
    let job = &ended.job;
    let named = |what: &str| Fnv::default().with_part(what).with(job.id.to_be_bytes());
    let end = named("end").with([ended.told.end as u8]).with_part(job.host.as_deref().unwrap_or_default());
    let delivery = delivery.filter(|key| !key.is_empty());
    // the number of the job as well: whoever sends one key for everything shall not lose hooks
    let delivery = delivery.map(|key| named("delivery").with_part(key).value());
    let end = end.value();
    [Some(end), delivery].into_iter().flatten().collect()
}

/// Names of hooks, oldest first.
#[derive(Debug, Default)]
pub(super) struct Known {
    set: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Known {
    fn forget(&mut self, names: &[u64]) {
        for name in names {
            self.set.remove(name);
        }
        self.order.retain(|name| !names.contains(name));
    }

    fn keep(&mut self, name: u64) {
        if self.set.insert(name) {
            self.order.push_back(name);
        }
        while self.order.len() > KNOWN {
            let Some(oldest) = self.order.pop_front() else { break };
            self.set.remove(&oldest);
        }
    }
}
