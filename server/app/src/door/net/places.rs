//! The places of a listener: one semaphore, and an order in which connections are closed for others when it is full, so that strangers and
//! clients that wait never have all of them, and probes are answered.
//!
//! | closed for a new connection, the first of these that there is | when |
//! |---|---|
//! | the oldest one of its address without an admitted request | half of the places are taken, a quarter by such connections of this address |
//! | the oldest one without an admitted request | all places are taken |
//! | one without a running request | all places are taken |
//! | the oldest one that is not kept | all places are taken |
//!
//! Seven eighths of the places are for connections that are kept: those with an admitted request whose caller has a slot for them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry},
    fmt,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::access::identity::{UsageSlot, network_of};

/// Connections that are looked at, at most, to find one without a running request.
const MAX_LOOKED_AT: usize = 1024;
/// Least time between two warnings that a listener is full.
const WARNING_PAUSE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    free: Arc<Semaphore>,
    free_to_keep: Arc<Semaphore>,
    open: Mutex<Open>,
}

/// What a connection has, in the order in which connections are closed for others.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// No admitted request.
    #[default]
    New,
    Admitted,
    /// An admitted request, and a slot of its caller.
    Kept,
}

/// What a kept connection holds: the slot of its caller, and one of those for kept ones.
type Kept = (UsageSlot, OwnedSemaphorePermit);

/// The open connections, without those that are being closed for others. Numbers are in the order in which they came.
#[derive(Debug, Default)]
struct Open {
    connections: BTreeMap<(Standing, u64), (Arc<Connection>, Option<Kept>)>,
    /// The new ones of each address. Addresses without new connections are removed.
    new_of: HashMap<IpAddr, BTreeSet<u64>>,
    next: u64,
    /// Where the search for a connection without a running request goes on.
    search_from: (Standing, u64),
    /// When it was last logged that all places are taken.
    warned: Option<Instant>,
}

/// A connection, as its listener sees it.
pub(super) struct Connection {
    places: Arc<Places>,
    number: u64,
    address: IpAddr,
    /// Number of running requests.
    pub(super) running: AtomicUsize,
    /// Notified when the connection is closed for another one.
    pub(super) replaced: Notify,
}

/// The place of a connection; freed on drop.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) connection: Arc<Connection>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub(super) fn new(most: usize) -> Arc<Self> {
        let to_keep = most - most.div_ceil(8);
        let [free, free_to_keep] = [most, to_keep].map(|most| Arc::new(Semaphore::new(most)));
        Arc::new(Self { most, free, free_to_keep, open: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection from `peer`, and whether another one is closed for it.
    pub(super) async fn take(self: &Arc<Self>, peer: IpAddr) -> (Place, bool) {
        let replaced = self.replace(peer);
        // the place of a closed connection is free when its task has ended
        let permit = Arc::clone(&self.free).acquire_owned().await.ok();
        let (places, address, mut open) = (Arc::clone(self), network_of(peer), self.lock());
        let number = open.next;
        open.next += 1;
        open.new_of.entry(address).or_default().insert(number);
        let (running, notify) = (AtomicUsize::new(0), Notify::new());
        let connection = Arc::new(Connection { places, number, address, running, replaced: notify });
        open.connections.insert((Standing::New, number), (Arc::clone(&connection), None));
        (Place { connection, _permit: permit }, replaced)
    }

    /// Closes a connection for a new one from `peer`, if one must be closed; returns whether one is.
    fn replace(&self, peer: IpAddr) -> bool {
        let mut open = self.lock();
        let is_full = open.connections.len() >= self.most;
        let key = open.find_replaced(network_of(peer), self.most);
        let Some((closed, _)) = key.and_then(|key| open.remove(key)) else { return false };
        closed.replaced.notify_one();
        if is_full && open.warned.is_none_or(|warned| warned.elapsed() >= WARNING_PAUSE) {
            open.warned = Some(Instant::now());
            tracing::warn!(bound = self.most, %peer, "connection limit reached; others are closed for new connections, those without an admitted request first");
        }
        true
    }
}

impl Open {
    /// The connection to close for a new one of this address.
    fn find_replaced(&mut self, address: IpAddr, most: usize) -> Option<(Standing, u64)> {
        let own = self.new_of.get(&address).filter(|own| own.len() >= most.div_ceil(4));
        if let Some(own) = own.filter(|_| self.connections.len() >= most.div_ceil(2)) {
            return own.first().map(|number| (Standing::New, *number));
        }
        if self.connections.len() < most {
            return None;
        }
        let new = self.oldest(Standing::New);
        new.or_else(|| self.find_idle()).or_else(|| self.oldest(Standing::Admitted))
    }

    fn oldest(&self, standing: Standing) -> Option<(Standing, u64)> {
        self.connections.range((standing, 0)..=(standing, u64::MAX)).next().map(|(key, _)| *key)
    }

    /// A connection without a running request. Looks at some of them, the oldest first, and the next time at those behind them.
    fn find_idle(&mut self) -> Option<(Standing, u64)> {
        let from = self.search_from;
        let later = self.connections.range(from..).chain(self.connections.range(..from));
        for (key, (connection, _)) in later.take(MAX_LOOKED_AT) {
            self.search_from = *key;
            if connection.running.load(Relaxed) == 0 {
                return Some(*key);
            }
        }
        None
    }

    fn remove(&mut self, key: (Standing, u64)) -> Option<(Arc<Connection>, Option<Kept>)> {
        let removed = self.connections.remove(&key)?;
        if key.0 == Standing::New
            && let Entry::Occupied(mut own) = self.new_of.entry(removed.0.address)
        {
            own.get_mut().remove(&key.1);
            if own.get().is_empty() {
                own.remove();
            }
        }
        Some(removed)
    }
}

impl Connection {
    /// Call it when the first request was admitted. `own`: the slot of its caller.
    pub(super) fn admit(&self, own: impl FnOnce() -> Option<UsageSlot>) {
        let mut open = self.places.lock();
        // one that is being closed for another one stays so, and one that has ended too
        let Some((connection, _)) = open.remove((Standing::New, self.number)) else { return };
        let permit = Arc::clone(&self.places.free_to_keep).try_acquire_owned().ok();
        let kept = permit.and_then(|permit| Some((own()?, permit)));
        let standing = if kept.is_some() { Standing::Kept } else { Standing::Admitted };
        open.connections.insert((standing, self.number), (connection, kept));
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // without the places, which hold all connections
        f.debug_struct("Connection").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connection.places.lock();
        for standing in [Standing::New, Standing::Admitted, Standing::Kept] {
            drop(open.remove((standing, self.connection.number)));
        }
    }
}
