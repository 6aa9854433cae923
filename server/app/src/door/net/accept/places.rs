//! The slots for the connections of a listener. Clients must not shut others out just by connecting. So a listener that is full takes a new
//! connection, and closes another one for it: the first of these that there is.
//!
//! | closed for a new connection | why |
//! |---|---|
//! | the oldest new one of the same address, if that has a quarter of the slots with new ones and half of all are taken | other addresses keep theirs |
//! | the oldest new one | it has proven nothing; an honest client asks at once |
//! | an admitted one without a running request | its client connects again |
//! | the oldest admitted one that is not kept | some always are not |
//!
//! A connection is new until one of its requests was admitted. Then it is kept, while there are slots to keep: an eighth of all slots is for
//! connections that are not kept. A CI job keeps few connections of its own, and
//! a caller that proves nothing keeps none. Kept connections are not limited by address, because thousands of agents may have the same one.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::serving::Serving;
use crate::access::identity::{UsageSlot, network_of};

/// Connections that are looked at, at most, to find one without a running request.
const MAX_LOOKED_AT: usize = 1024;
/// Closed connections that may still hold their files: the next one is accepted when there are fewer. Half of the files that are reserved
/// for other parts of the process.
const MAX_ENDING: usize = 64;

#[derive(Debug)]
pub(super) struct ConnectionSlots {
    most_connections: usize,
    taken_slots: Mutex<TakenSlots>,
    /// Notified when a closed connection has ended.
    ended: Notify,
}

/// Connections by number, in the order in which they came.
#[derive(Debug, Default)]
struct TakenSlots {
    /// All that are open, with their addresses; without those that are closed for others.
    open: BTreeMap<u64, (IpAddr, Serving)>,
    new: BTreeSet<u64>,
    /// The new ones of each address. Addresses without new connections are removed.
    new_of: HashMap<IpAddr, BTreeSet<u64>>,
    /// Those that were admitted and are not kept.
    not_kept: BTreeSet<u64>,
    kept: usize,
    /// Number of those that were closed for others and have not ended.
    ending: usize,
    next: u64,
    /// Where the search for a connection without a running request goes on.
    search_from: u64,
}

/// A slot for a connection; freed on drop.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    all_slots: Arc<ConnectionSlots>,
    number: u64,
    is_new: bool,
    /// The slot of its caller, while it is kept.
    kept: Option<UsageSlot>,
}

impl ConnectionSlots {
    pub(super) fn of(bound: usize) -> Arc<Self> {
        Arc::new(Self { most_connections: bound, taken_slots: Mutex::default(), ended: Notify::new() })
    }

    pub(super) fn bound(&self) -> usize {
        self.most_connections
    }

    fn lock_taken(&self) -> MutexGuard<'_, TakenSlots> {
        self.taken_slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for a new connection from `peer`. Also returns the connection that must be closed for it, if there is one.
    pub(super) fn take_slot(
        self: &Arc<Self>,
        peer: IpAddr,
        serving: Serving,
    ) -> (ConnectionSlot, Option<Serving>) {
        let address = network_of(peer);
        let mut taken = self.lock_taken();
        let replaced = taken.find_replaced(address, self.most_connections);
        let replaced = replaced.and_then(|number| taken.forget(number));
        taken.ending += usize::from(replaced.is_some());
        let number = taken.next;
        taken.next += 1;
        taken.open.insert(number, (address, serving));
        taken.new.insert(number);
        taken.new_of.entry(address).or_default().insert(number);
        let slot = ConnectionSlot { all_slots: Arc::clone(self), number, is_new: true, kept: None };
        (slot, replaced)
    }

    /// Waits while too many closed connections still hold their files.
    pub(super) async fn until_few_end(&self) {
        while self.lock_taken().ending > MAX_ENDING {
            self.ended.notified().await;
        }
    }

    /// Most connections that are kept.
    fn most_kept(&self) -> usize {
        self.most_connections - self.most_connections.div_ceil(8)
    }

    /// Whether all slots are taken.
    pub(super) fn are_taken(&self) -> bool {
        self.lock_taken().open.len() >= self.most_connections
    }
}

impl TakenSlots {
    /// The connection to close for a new one of this address.
    fn find_replaced(&mut self, address: IpAddr, most: usize) -> Option<u64> {
        let own = self.new_of.get(&address).filter(|own| own.len() >= most.div_ceil(4));
        if let Some(own) = own.filter(|_| self.open.len() >= most.div_ceil(2)) {
            return own.first().copied();
        }
        if self.open.len() < most {
            return None;
        }
        let oldest_new = self.new.first().copied();
        oldest_new.or_else(|| self.find_idle()).or_else(|| self.not_kept.first().copied())
    }

    /// An admitted connection without a running request. Looks at some of them, and the next time at those behind them.
    fn find_idle(&mut self) -> Option<u64> {
        let from = self.search_from;
        let later = self.open.range(from..).chain(self.open.range(..from)).take(MAX_LOOKED_AT);
        let (mut last, mut found) = (from, None);
        for (number, (_, serving)) in later {
            last = *number;
            if serving.running() == 0 {
                found = Some(last);
                break;
            }
        }
        self.search_from = last + 1;
        found
    }

    /// Removes a connection that is closed for another one.
    fn forget(&mut self, number: u64) -> Option<Serving> {
        self.forget_new(number);
        self.not_kept.remove(&number);
        self.open.remove(&number).map(|(_, serving)| serving)
    }

    /// A connection is no longer new.
    fn forget_new(&mut self, number: u64) {
        self.new.remove(&number);
        let Some((address, _)) = self.open.get(&number) else { return };
        if let Entry::Occupied(mut own) = self.new_of.entry(*address) {
            own.get_mut().remove(&number);
            if own.get().is_empty() {
                own.remove();
            }
        }
    }
}

impl ConnectionSlot {
    /// Notes that a request was admitted. The connection is kept if there are slots left for that, and if its caller has one: `own`.
    pub(super) fn mark_used(&mut self, own: impl FnOnce() -> Option<UsageSlot>) {
        if !std::mem::take(&mut self.is_new) {
            return;
        }
        let mut taken = self.all_slots.lock_taken();
        taken.forget_new(self.number);
        // one that is being closed for another connection stays so
        if taken.open.contains_key(&self.number) {
            self.kept = (taken.kept < self.all_slots.most_kept()).then(own).flatten();
            match self.kept {
                Some(_) => taken.kept += 1,
                None => drop(taken.not_kept.insert(self.number)),
            }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = self.all_slots.lock_taken();
        taken.kept -= usize::from(self.kept.is_some());
        if taken.forget(self.number).is_none() {
            taken.ending -= 1;
            self.all_slots.ended.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What [`ConnectionSlots`] hold after clients came and went.
    struct Door {
        slots: Arc<ConnectionSlots>,
        open: Vec<(ConnectionSlot, Serving)>,
    }

    impl Door {
        fn of(bound: usize) -> Self {
            Self { slots: ConnectionSlots::of(bound), open: Vec::new() }
        }

        /// So many clients of an address come. Gives the numbers of the connections that were closed for them.
        fn come(&mut self, count: usize, from: &str) -> Vec<u64> {
            let mut closed = Vec::new();
            for _ in 0..count {
                let serving = Serving::new();
                let (slot, replaced) = self.slots.take_slot(from.parse().unwrap(), serving.clone());
                self.open.push((slot, serving));
                let at =
                    replaced.and_then(|replaced| self.open.iter().position(|(_, open)| open.is(&replaced)));
                closed.extend(at.map(|at| self.open.remove(at).0.number));
            }
            closed
        }

        fn admit(&mut self, number: u64, own: Option<UsageSlot>) {
            let (slot, _) = self.open.iter_mut().find(|(slot, _)| slot.number == number).unwrap();
            slot.mark_used(|| own);
        }
    }

    #[test]
    fn a_full_door_closes_the_oldest_new_connection() {
        let mut door = Door::of(8);
        assert_eq!(door.come(2, "10.0.0.1"), [0; 0]);
        assert_eq!(door.come(2, "10.0.0.2"), [0; 0]);
        door.admit(0, Some(UsageSlot::default()));
        assert_eq!(door.come(4, "10.0.0.3"), [4, 5], "an address with a quarter of them loses its own");
        assert_eq!(door.come(2, "10.0.0.4"), [0; 0]);
        assert_eq!(door.come(2, "10.0.0.5"), [1, 2]);
        assert_eq!(door.come(1, "10.0.0.6"), [3]);
        // the same network
        assert_eq!(door.come(3, "2001:db8::1"), [6, 7, 13]);
        assert_eq!(door.come(1, "::ffff:10.0.0.6"), [8]);
        drop(door.open);
        let taken = door.slots.lock_taken();
        assert_eq!((taken.open.len(), taken.new.len(), taken.new_of.len()), (0, 0, 0));
        assert_eq!((taken.kept, taken.ending), (0, 0));
    }

    #[test]
    fn connections_that_are_not_kept_or_idle_make_place() {
        // how many slots the clients' caller has, which of them has no running request, and which one is replaced
        for (own, idle, replaced) in [(8, None, 7), (2, None, 2), (8, Some(3), 3)] {
            let mut door = Door::of(8);
            for number in 0..8 {
                assert_eq!(door.come(1, &format!("10.0.0.{number}")), [0; 0]);
                door.admit(number, (number < own).then(UsageSlot::default));
            }
            let running = door.open.iter().filter(|(slot, _)| Some(slot.number) != idle);
            running.for_each(|(_, serving)| serving.begin_request());
            assert_eq!(door.come(1, "10.0.1.1"), [replaced]);
        }
    }
}
