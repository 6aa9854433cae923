//! Takes job hooks: each once, at once. A hook that waits is one that GitLab turns off.

use std::{
    collections::{HashSet, VecDeque},
    hash::{Hash as _, Hasher as _},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::mpsc::{self, error::TrySendError};

use super::{Client, Follower, follow::Parts};
use crate::{
    gantry::Ended,
    ingest::Ingest,
    metrics::{Kind, Metrics},
};

/// Ended jobs that may wait to be asked about: those of some minutes of a large GitLab. About 10 MB.
const QUEUE: usize = 4096;
/// Hooks that are known again when they are sent again: those of some hours.
const KNOWN: usize = 20_000;

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
    /// `None` if GitLab shall not be asked.
    queue: Option<mpsc::Sender<Waiting>>,
    metrics: Arc<Metrics>,
}

impl Hooks {
    /// The handle, and who asks GitLab, if there is a client for it: somebody must run it.
    pub(crate) fn new(
        ingest: Ingest,
        client: Option<Client>,
        metrics: Arc<Metrics>,
    ) -> (Self, Option<Follower>) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let follower = client.map(|client| {
            let parts = Parts { client, ingest: ingest.clone(), metrics: Arc::clone(&metrics) };
            Follower::new(parts, waiting)
        });
        let queue = follower.is_some().then_some(queue);
        (Self { known: Arc::default(), ingest, queue, metrics }, follower)
    }

    /// Takes the end of a job. `delivery` is GitLab's `Idempotency-Key`, the same when it sends a hook again; a job ends once, so that
    /// the same end of the same job is the same hook, too.
    pub(crate) fn take(&self, ended: Box<Ended>, delivery: Option<&str>) -> Taken {
        let names = names(&ended, delivery);
        let Some(name) = Name::claim(&self.known, names) else { return Taken::Repeated };
        let waiting = Waiting { ended, name };
        let taken = match &self.queue {
            None => self.tell(waiting),
            Some(queue) => match queue.try_send(waiting) {
                Ok(()) => Taken::Later,
                // without what GitLab would have said
                Err(TrySendError::Full(waiting) | TrySendError::Closed(waiting)) => {
                    self.metrics.hooks.get_or_create(&Kind::of("not_asked")).inc();
                    self.tell(waiting)
                }
            },
        };
        if let Some(queue) = &self.queue {
            let waiting = queue.max_capacity().saturating_sub(queue.capacity());
            self.metrics.gitlab_queue.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        }
        taken
    }

    fn tell(&self, Waiting { ended, name }: Waiting) -> Taken {
        if !self.ingest.tell(ended.told) {
            return Taken::Dropped;
        }
        name.keep();
        Taken::Later
    }
}

/// A hook that waits to be asked about.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) ended: Box<Ended>,
    pub(super) name: Name,
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

/// Under which a hook is known again.
fn names(ended: &Ended, delivery: Option<&str>) -> Vec<u64> {
    let hash = |what: &dyn Fn(&mut std::hash::DefaultHasher)| {
        let mut hasher = std::hash::DefaultHasher::new();
        what(&mut hasher);
        hasher.finish()
    };
    let job = &ended.job;
    let end = hash(&|hasher| (&job.host, job.id, ended.told.end as u8).hash(hasher));
    let delivery = delivery.filter(|key| !key.is_empty());
    // the number of the job as well: whoever sends one key for everything shall not lose hooks
    let delivery = delivery.map(|key| hash(&|hasher| ("delivery", key, job.id).hash(hasher)));
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
