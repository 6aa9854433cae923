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
    queued: HashMap<usize, QueuedClass>,
    /// Classes that are not known to be blocked by a limit.
    ready: BTreeSet<ClassTurn>,
    /// Blocked classes, by the limit that blocks them; no set is empty.
    blocked: HashMap<usize, BTreeSet<ClassTurn>>,
    /// Classes that were not passed over too often yet.
    not_overdue: BTreeSet<ClassTurn>,
    /// Classes that were passed over too often.
    overdue: BTreeSet<ClassTurn>,
    /// Number of classes and limits that decisions have examined.
    #[cfg(test)]
    pub(super) examined: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QueuedClass {
    order: QueueOrder,
    blocked_by: Option<usize>,
    is_overdue: bool,
}

impl ClassQueue {
    /// Sets the order of a class; `None` if none of its tickets can be next.
    pub(super) fn set_order(&mut self, class: usize, order: Option<QueueOrder>, is_overdue: bool) {
        let old = self.queued.get(&class).copied();
        let parked = old.and_then(|seat| seat.blocked_by);
        let new = order.map(|order| QueuedClass { order, blocked_by: parked, is_overdue });
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.remove_class(class, old);
        }
        if let Some(new) = new {
            self.insert_class(class, new);
        }
    }

    /// The first class that no full limit blocks. `is_full` tests a limit; `held_up` returns a full limit that blocks a class.
    pub(super) fn next(
        &mut self,
        is_full: impl Fn(usize) -> bool,
        held_up: impl Fn(usize) -> Option<usize>,
    ) -> Option<usize> {
        loop {
            let open = self.blocked.iter().filter(|(place, _)| !is_full(**place));
            let parked = open.filter_map(|(_, turns)| turns.first());
            let best = parked.chain(self.ready.first()).min().copied();
            #[cfg(test)]
            {
                self.examined += self.blocked.len() + 1;
            }
            let (_, class) = best?;
            let Some(place) = held_up(class) else { return Some(class) };
            let seat = self.queued.get(&class).copied()?;
            self.remove_class(class, seat);
            self.insert_class(class, QueuedClass { blocked_by: Some(place), ..seat });
        }
    }

    /// Classes that were passed over too often, in their order.
    pub(super) fn overdue(&self) -> impl Iterator<Item = usize> {
        self.overdue.iter().map(|(_, class)| *class)
    }

    /// Classes that were not passed over too often: those before the order `before`, or all of them.
    pub(super) fn not_overdue_before(&mut self, before: Option<QueueOrder>) -> Vec<usize> {
        let turns =
            before.map_or_else(|| self.not_overdue.range(..), |order| self.not_overdue.range(..(order, 0)));
        let classes: Vec<usize> = turns.map(|(_, class)| *class).collect();
        #[cfg(test)]
        {
            self.examined += classes.len();
        }
        classes
    }

    fn insert_class(&mut self, class: usize, seat: QueuedClass) {
        let turn = (seat.order, class);
        match seat.blocked_by {
            Some(place) => self.blocked.entry(place).or_default().insert(turn),
            None => self.ready.insert(turn),
        };
        if seat.is_overdue {
            self.overdue.insert(turn)
        } else {
            self.not_overdue.insert(turn)
        };
        self.queued.insert(class, seat);
    }

    fn remove_class(&mut self, class: usize, seat: QueuedClass) {
        let turn = (seat.order, class);
        self.ready.remove(&turn);
        if let Some(place) = seat.blocked_by
            && let Some(turns) = self.blocked.get_mut(&place)
        {
            turns.remove(&turn);
            if turns.is_empty() {
                self.blocked.remove(&place);
            }
        }
        self.overdue.remove(&turn);
        self.not_overdue.remove(&turn);
        self.queued.remove(&class);
    }

    /// All classes that were not passed over too often.
    #[cfg(test)]
    pub(super) fn all_not_overdue(&self) -> impl Iterator<Item = usize> {
        self.not_overdue.iter().map(|(_, class)| *class)
    }

    /// Whether no class waits.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let none = self.ready.is_empty() && self.blocked.is_empty();
        none && self.queued.is_empty() && self.not_overdue.is_empty() && self.overdue.is_empty()
    }
}
