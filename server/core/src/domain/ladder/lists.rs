//! Lists of attempts, each with the newest of its rungs. Rungs that have the same attempts have one list: most packages of a fleet
//! are built with one compiler in one version.

use std::{collections::VecDeque, sync::Arc};

use super::super::{AttemptBrief, RungObservation, weight};

/// Newest attempts kept on one rung. More would only average over times long gone.
pub(in super::super) const PER_RUNG: usize = 128;

/// A place among the lists.
pub(super) type ListId = usize;

/// The newest attempts of some rungs, oldest first.
#[derive(Debug, Default)]
struct List {
    observations: VecDeque<RungObservation>,
    /// Rungs that have it; 0 for one that is free.
    rungs: usize,
}

/// All lists.
#[derive(Debug, Default)]
pub(super) struct Lists {
    all: Vec<List>,
    free: Vec<ListId>,
    /// Facts for which there is room in all of them.
    room: usize,
}

impl Lists {
    /// An empty list of so many rungs, with room for so many attempts.
    pub(super) fn take(&mut self, rungs: usize, room: usize) -> ListId {
        self.put(List { observations: VecDeque::with_capacity(room.min(PER_RUNG)), rungs })
    }

    /// A copy of a list for so many of its rungs, which have it no longer.
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

    /// One rung less has the list; perhaps none has it any more.
    pub(super) fn release(&mut self, id: ListId) {
        let Some(list) = self.all.get_mut(id) else { return };
        list.rungs = list.rungs.saturating_sub(1);
        if list.rungs == 0 {
            self.room -= list.observations.capacity();
            *list = List::default();
            self.free.push(id);
        }
    }

    /// Adds the newest.
    pub(super) fn push(&mut self, id: ListId, observation: RungObservation) {
        self.change(id, |list| {
            if list.len() >= PER_RUNG {
                list.pop_front();
            }
            grow(list);
            list.push_back(observation);
        });
    }

    /// Adds one that is older than all, if there is room for it.
    pub(super) fn push_older(&mut self, id: ListId, observation: &RungObservation) {
        self.change(id, |list| {
            if list.len() < PER_RUNG {
                grow(list);
                list.push_front(observation.clone());
            }
        });
    }

    /// Removes the oldest, if it is this one. A list that is half empty then becomes smaller.
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

    /// Removes an attempt wherever it stands.
    pub(super) fn remove(&mut self, id: ListId, brief: &Arc<AttemptBrief>) {
        self.change(id, |list| list.retain(|known| !Arc::ptr_eq(&known.brief, brief)));
    }

    /// Puts an attempt in the place of `earlier`.
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

    /// How many rungs have a list.
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

    /// Lists that are in use.
    #[cfg(test)]
    pub(super) fn used(&self) -> impl Iterator<Item = &VecDeque<RungObservation>> {
        self.all.iter().filter(|list| list.rungs > 0).map(|list| &list.observations)
    }
}

/// Makes room for one more.
fn grow(list: &mut VecDeque<RungObservation>) {
    if list.len() == list.capacity() {
        // doubling would leave a third of all this memory empty
        list.reserve_exact((list.len() / 4).max(4).min(PER_RUNG - list.len()));
    }
}
