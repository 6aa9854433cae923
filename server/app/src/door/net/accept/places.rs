//! The slots for the connections of a listener. A client must not take all of them just by
//! connecting: once half of the slots are taken, one address may hold at most a quarter of them
//! with new connections. A connection is new until one of its requests was admitted.
//!
//! Connections that are not new are not limited by address, because thousands of agents may have
//! the same address. Each of their connections is new only for a moment, and an agent that is
//! refused connects again.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::access::identity::network_of;

#[derive(Debug)]
pub(super) struct ConnectionSlots {
    most_connections: usize,
    taken_slots: Mutex<TakenSlots>,
}

#[derive(Debug, Default)]
struct TakenSlots {
    total: usize,
    /// Number of new connections by address. Addresses without new connections are removed.
    new: HashMap<IpAddr, usize>,
}

/// A slot for a connection; freed on drop.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    all_slots: Arc<ConnectionSlots>,
    address: IpAddr,
    new: bool,
}

impl ConnectionSlots {
    pub(super) fn of(bound: usize) -> Arc<Self> {
        Arc::new(Self { most_connections: bound, taken_slots: Mutex::default() })
    }

    pub(super) fn bound(&self) -> usize {
        self.most_connections
    }

    fn lock_taken(&self) -> MutexGuard<'_, TakenSlots> {
        self.taken_slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for a new connection from `peer`; `None` if the limit, or that of the peer's
    /// address, is reached.
    pub(super) fn take_slot(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionSlot> {
        let address = network_of(peer);
        let mut taken = self.lock_taken();
        let own = taken.new.get(&address).copied().unwrap_or_default();
        let greedy =
            taken.total >= self.most_connections.div_ceil(2) && own >= self.most_connections.div_ceil(4);
        if taken.total >= self.most_connections || greedy {
            return None;
        }
        taken.total += 1;
        taken.new.insert(address, own + 1);
        Some(ConnectionSlot { all_slots: Arc::clone(self), address, new: true })
    }
}

impl ConnectionSlot {
    /// Notes that the connection is no longer new, so that it no longer counts toward the limit of
    /// its address.
    pub(super) fn mark_used(&mut self) {
        if std::mem::take(&mut self.new) {
            self.all_slots.lock_taken().note_known(self.address);
        }
    }
}

impl TakenSlots {
    fn note_known(&mut self, address: IpAddr) {
        let Entry::Occupied(mut own) = self.new.entry(address) else { return };
        *own.get_mut() -= 1;
        if *own.get() == 0 {
            own.remove();
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.mark_used();
        self.all_slots.lock_taken().total -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_never_takes_all_places_by_connecting_alone_and_used_ones_are_not_bounded() {
        let places = ConnectionSlots::of(100);
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let silent: Vec<_> = (0..200).filter_map(|_| places.take_slot(ip("10.0.0.1"))).collect();
        assert_eq!(silent.len(), 50);
        assert!(places.take_slot(ip("::ffff:10.0.0.1")).is_none(), "the same address");
        let mut agents: Vec<_> = (0..200)
            .filter_map(|_| {
                let mut place = places.take_slot(ip("10.0.0.2"))?;
                place.mark_used();
                Some(place)
            })
            .collect();
        assert_eq!(agents.len(), 50, "all that are left");
        agents.truncate(10);
        let many = (0..200).filter_map(|host| places.take_slot(ip(&format!("2001:db8::{host:x}"))));
        assert_eq!(many.collect::<Vec<_>>().len(), 25, "one network");
        drop((silent, agents));
        let taken = places.lock_taken();
        assert_eq!((taken.total, taken.new.len()), (0, 0));
    }
}
