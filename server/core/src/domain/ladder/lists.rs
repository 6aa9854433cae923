//! Lists of attempts, each with the newest attempts of one or more rungs. Rungs with the same attempts share a list: most packages of a
//! fleet are built with one version of one compiler.

use std::{collections::VecDeque, sync::Arc};

use super::super::{AttemptBrief, RungObservation, weight};

/// Number of the newest attempts kept on one rung. More would average over builds from long ago.
pub(in super::super) const PER_RUNG: usize = 128;

/// Index of a list.
pub(super) type ListId = usize;

/// The newest attempts of the rungs that share this list, oldest first.
#[derive(Debug, Default)]
struct List {
    observations: VecDeque<RungObservation>,
    /// Number of rungs that share the list; 0 if its slot is free.
    rungs: usize,
}

/// All lists of a ladder.
#[derive(Debug, Default)]
pub(super) struct Lists {
    all: Vec<List>,
    free: Vec<ListId>,
    /// Capacity of all lists together, in observations.
    room: usize,
}

impl Lists {
    /// Allocates an empty list for `rungs` rungs, with capacity for `room` attempts.
    pub(super) fn take(&mut self, rungs: usize, room: usize) -> ListId {
        self.put(List { observations: VecDeque::with_capacity(room.min(PER_RUNG)), rungs })
    }

    /// Copies a list for some of its rungs (`rungs` of them), which then use the copy instead of the shared list.
    pub(super) fn split(&mut self, id: ListId, rungs: usize) -> ListId {
        let observations = self.all.get_mut(id).map_or_else(VecDeque::new, |list| {
            list.rungs = list.rungs.saturating_sub(rungs);
            list.observations.clone()
        });
        self.put(List { observations, rungs })
    }

    fn put(&mut self, list: List) -> ListId {
        self.room += list.observations.capacity();
        if let Some((id, place)) = self.free.pop().and_then(|id| Some((id, self.all.get_mut(id)?))) {
            *place = list;
            return id;
        }
        self.all.push(list);
        self.all.len() - 1
    }

    /// Notes that one rung fewer uses the list; frees the list if none is left.
    pub(super) fn release(&mut self, id: ListId) {
        let Some(list) = self.all.get_mut(id) else { return };
        list.rungs = list.rungs.saturating_sub(1);
        if list.rungs == 0 {
            self.room -= list.observations.capacity();
            *list = List::default();
            self.free.push(id);
        }
    }

    /// Adds an attempt that is newer than all others in the list.
    pub(super) fn push(&mut self, id: ListId, observation: RungObservation) {
        self.change(id, |list| {
            if list.len() >= PER_RUNG {
                list.pop_front();
            }
            grow(list);
            list.push_back(observation);
        });
    }

    /// Adds an attempt that is older than all others in the list, if there is room.
    pub(super) fn push_older(&mut self, id: ListId, observation: &RungObservation) {
        self.change(id, |list| {
            if list.len() < PER_RUNG {
                grow(list);
                list.push_front(observation.clone());
            }
        });
    }

    /// Removes the oldest attempt if it is `oldest`. Shrinks a list that is less than half full.
    pub(super) fn pop(&mut self, id: ListId, oldest: &Arc<AttemptBrief>) {
        self.change(id, |list| {
            if list.front().is_some_and(|first| Arc::ptr_eq(&first.brief, oldest)) {
                list.pop_front();
            }
            if list.len() < list.capacity() / 2 {
                list.shrink_to(list.len() + list.len() / 4);
            }
        });
    }

    /// Removes an attempt from any position in the list.
    pub(super) fn remove(&mut self, id: ListId, brief: &Arc<AttemptBrief>) {
        self.change(id, |list| list.retain(|known| !Arc::ptr_eq(&known.brief, brief)));
    }

    /// Replaces the attempt `earlier` in the list.
    pub(super) fn replace(&mut self, id: ListId, earlier: &Arc<AttemptBrief>, observation: &RungObservation) {
        self.change(id, |list| {
            let same = list.iter_mut().filter(|known| Arc::ptr_eq(&known.brief, earlier));
            same.for_each(|known| *known = observation.clone());
        });
    }

    fn change(&mut self, id: ListId, how: impl FnOnce(&mut VecDeque<RungObservation>)) {
        let Some(list) = self.all.get_mut(id) else { return };
        let before = list.observations.capacity();
        how(&mut list.observations);
        self.room = self.room - before + list.observations.capacity();
    }

    /// Number of rungs that share this list.
    pub(super) fn rungs(&self, id: ListId) -> usize {
        self.all.get(id).map_or(0, |list| list.rungs)
    }

    /// The attempts of a list, oldest first.
    pub(super) fn get(&self, id: ListId) -> Option<&VecDeque<RungObservation>> {
        self.all.get(id).map(|list| &list.observations)
    }

    /// Bytes of all lists.
    pub(super) fn bytes(&self) -> usize {
        self.room * size_of::<RungObservation>() + self.all.len() * (size_of::<List>() + weight::STEP)
    }

    /// The lists in use.
    #[cfg(test)]
    pub(super) fn used(&self) -> impl Iterator<Item = &VecDeque<RungObservation>> {
        self.all.iter().filter(|list| list.rungs > 0).map(|list| &list.observations)
    }
}

/// Makes room in a list for one more attempt.
fn grow(list: &mut VecDeque<RungObservation>) {
    if list.len() == list.capacity() {
        // the list grows by a quarter: doubling its capacity would leave a third of the memory unused
        list.reserve_exact((list.len() / 4).max(4).min(PER_RUNG - list.len()));
    }
}
