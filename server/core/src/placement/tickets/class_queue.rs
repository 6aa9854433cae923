//! The classes that wait, in the order of their turns, so that a decision looks at few of them.
//!
//! A class that was found held up is parked at a limit that does it: as long as that one is full, it is not looked at. Only the first of
//! those that are parked at a limit with a free place is asked again, and goes to another limit if that one holds it up now. So each
//! limit is looked at, at most some hundred, and each class that has moved.

use std::collections::{BTreeSet, HashMap};

use super::class::QueueOrder;

/// A class and its turn.
type ClassTurn = (QueueOrder, usize);

/// All classes of which a ticket is next.
#[derive(Debug, Default)]
pub(super) struct ClassQueue {
    seats: HashMap<usize, QueuedClass>,
    /// Those of which nothing is known.
    ready: BTreeSet<ClassTurn>,
    /// Those that were held up, by where they are counted; none of the sets is empty.
    parked: HashMap<usize, BTreeSet<ClassTurn>>,
    /// Those that were not passed over too often.
    patient: BTreeSet<ClassTurn>,
    /// Those that were.
    overdue: BTreeSet<ClassTurn>,
    /// Classes and limits that decisions have looked at.
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
    /// The turn of a class is this one now, or none of its tickets can be next.
    pub(super) fn seat(&mut self, class: usize, order: Option<QueueOrder>, is_overdue: bool) {
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

    /// The class whose turn is first of those that nothing holds up. `is_full` says it of a limit, `held_up` gives a limit that holds a
    /// class up: one that is full.
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

    /// Those that were passed over too often, by their turns.
    pub(super) fn overdue(&self) -> impl Iterator<Item = usize> {
        self.overdue.iter().map(|(_, class)| *class)
    }

    /// Those that were not, with a turn before this one, or all of them.
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

    /// All that were not passed over too often.
    #[cfg(test)]
    pub(super) fn all_patient(&self) -> impl Iterator<Item = usize> {
        self.patient.iter().map(|(_, class)| *class)
    }

    /// Whether it is empty.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let none = self.ready.is_empty() && self.parked.is_empty();
        none && self.seats.is_empty() && self.patient.is_empty() && self.overdue.is_empty()
    }
}
