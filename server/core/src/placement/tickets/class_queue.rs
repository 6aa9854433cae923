//! The classes with waiting tickets, in the order of their turns, indexed so that a decision examines few of them.
//!
//! A class that is blocked by a full limit is parked at that limit, and is not examined while the limit stays full. When a slot is free,
//! only the first class parked there is examined, and it is parked elsewhere if another limit blocks it now. So a decision examines at
//! most each limit (some hundred) and each class that was moved.

use std::collections::{BTreeSet, HashMap};

use super::class::QueueOrder;

/// A class, with the order of its next ticket.
type ClassTurn = (QueueOrder, usize);

/// All classes with a waiting ticket.
#[derive(Debug, Default)]
pub(super) struct ClassQueue {
    seats: HashMap<usize, QueuedClass>,
    /// Classes that are not known to be blocked by a limit.
    ready: BTreeSet<ClassTurn>,
    /// Blocked classes, by the limit that blocks them; no set is empty.
    parked: HashMap<usize, BTreeSet<ClassTurn>>,
    /// Classes that were not passed over too often yet.
    patient: BTreeSet<ClassTurn>,
    /// Classes that were passed over too often.
    overdue: BTreeSet<ClassTurn>,
    /// Number of classes and limits that decisions have examined.
    #[cfg(test)]
    pub(super) looks: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QueuedClass {
    order: QueueOrder,
    parked: Option<usize>,
    is_overdue: bool,
}

impl ClassQueue {
    /// Sets the order of a class; `None` if none of its tickets can be next.
    pub(super) fn set_order(&mut self, class: usize, order: Option<QueueOrder>, is_overdue: bool) {
        let old = self.seats.get(&class).copied();
        let parked = old.and_then(|seat| seat.parked);
        let new = order.map(|order| QueuedClass { order, parked, is_overdue });
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.leave(class, old);
        }
        if let Some(new) = new {
            self.enter(class, new);
        }
    }

    /// The first class that no full limit blocks. `is_full` tests a limit; `held_up` returns a full limit that blocks a class.
    pub(super) fn next(
        &mut self,
        is_full: impl Fn(usize) -> bool,
        held_up: impl Fn(usize) -> Option<usize>,
    ) -> Option<usize> {
        loop {
            let open = self.parked.iter().filter(|(place, _)| !is_full(**place));
            let parked = open.filter_map(|(_, turns)| turns.first());
            let best = parked.chain(self.ready.first()).min().copied();
            #[cfg(test)]
            {
                self.looks += self.parked.len() + 1;
            }
            let (_, class) = best?;
            let Some(place) = held_up(class) else { return Some(class) };
            let seat = self.seats.get(&class).copied()?;
            self.leave(class, seat);
            self.enter(class, QueuedClass { parked: Some(place), ..seat });
        }
    }

    /// Classes that were passed over too often, in their order.
    pub(super) fn overdue(&self) -> impl Iterator<Item = usize> {
        self.overdue.iter().map(|(_, class)| *class)
    }

    /// Classes that were not passed over too often: those before the order `before`, or all of them.
    pub(super) fn patient(&mut self, before: Option<QueueOrder>) -> Vec<usize> {
        let turns = before.map_or_else(|| self.patient.range(..), |order| self.patient.range(..(order, 0)));
        let classes: Vec<usize> = turns.map(|(_, class)| *class).collect();
        #[cfg(test)]
        {
            self.looks += classes.len();
        }
        classes
    }

    fn enter(&mut self, class: usize, seat: QueuedClass) {
        let turn = (seat.order, class);
        match seat.parked {
            Some(place) => self.parked.entry(place).or_default().insert(turn),
            None => self.ready.insert(turn),
        };
        if seat.is_overdue {
            self.overdue.insert(turn)
        } else {
            self.patient.insert(turn)
        };
        self.seats.insert(class, seat);
    }

    fn leave(&mut self, class: usize, seat: QueuedClass) {
        let turn = (seat.order, class);
        self.ready.remove(&turn);
        if let Some(place) = seat.parked
            && let Some(turns) = self.parked.get_mut(&place)
        {
            turns.remove(&turn);
            if turns.is_empty() {
                self.parked.remove(&place);
            }
        }
        self.overdue.remove(&turn);
        self.patient.remove(&turn);
        self.seats.remove(&class);
    }

    /// All classes that were not passed over too often.
    #[cfg(test)]
    pub(super) fn all_patient(&self) -> impl Iterator<Item = usize> {
        self.patient.iter().map(|(_, class)| *class)
    }

    /// Whether no class waits.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let none = self.ready.is_empty() && self.parked.is_empty();
        none && self.seats.is_empty() && self.patient.is_empty() && self.overdue.is_empty()
    }
}
