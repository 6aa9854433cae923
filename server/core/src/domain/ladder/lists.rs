//! Lists of attempts, each with the newest attempts of one or more rungs. Rungs with the same attempts share a list: most packages of a
//! fleet are built with one version of one compiler.

use std::{collections::VecDeque, sync::Arc};

use super::super::{AttemptBrief, RungObservation, weight};

/// Number of the newest attempts kept on one rung. More would average over builds from long ago.
pub(in super::super) const ATTEMPTS_PER_RUNG: usize = 128;

/// Index of a list.
pub(super) type ListId = usize;

/// The newest attempts of the rungs that share this list, oldest first.
#[derive(Debug, Default)]
struct RungList {
    observations: VecDeque<RungObservation>,
    /// Number of rungs that share the list; 0 if its slot is free.
    rungs: usize,
}

/// All lists of a ladder.
#[derive(Debug, Default)]
pub(super) struct RungLists {
    lists: Vec<RungList>,
    free_slots: Vec<ListId>,
}

impl RungLists {
    /// Allocates an empty list for `rungs` rungs, with capacity for `room` attempts.
    pub(super) fn allocate(&mut self, rungs: usize, room: usize) -> ListId {
        self.store_list(RungList {
            observations: VecDeque::with_capacity(room.min(ATTEMPTS_PER_RUNG)),
            rungs,
        })
    }

    /// Copies a list for some of its rungs (`rungs` of them), which then use the copy instead of the shared list.
    pub(super) fn split(&mut self, id: ListId, rungs: usize) -> ListId {
        let observations = self.lists.get_mut(id).map_or_else(VecDeque::new, |list| {
            list.rungs = list.rungs.saturating_sub(rungs);
            list.observations.clone()
        });
        self.store_list(RungList { observations, rungs })
    }

    fn store_list(&mut self, list: RungList) -> ListId {
        if let Some((id, place)) = self.free_slots.pop().and_then(|id| Some((id, self.lists.get_mut(id)?))) {
            *place = list;
            return id;
        }
        self.lists.push(list);
        self.lists.len() - 1
    }

    /// Notes that one rung fewer uses the list; frees the list if none is left.
    pub(super) fn release(&mut self, id: ListId) {
        let Some(list) = self.lists.get_mut(id) else { return };
        list.rungs = list.rungs.saturating_sub(1);
        if list.rungs == 0 {
            *list = RungList::default();
            self.free_slots.push(id);
        }
    }

    /// Adds an attempt at its position, unless a full list has only newer ones.
    pub(super) fn push(&mut self, id: ListId, observation: RungObservation) {
        let Some(list) = self.observations_mut(id) else { return };
        let mut at = place_of(list, |other| &other.brief, &observation.brief);
        if list.len() >= ATTEMPTS_PER_RUNG {
            if at == 0 {
                return;
            }
            list.pop_front();
            at -= 1;
        }
        grow(list);
        list.insert(at, observation);
    }

    /// Adds an attempt that is older than all others in the list, if there is room.
    pub(super) fn push_older(&mut self, id: ListId, observation: &RungObservation) {
        if let Some(list) = self.observations_mut(id).filter(|list| list.len() < ATTEMPTS_PER_RUNG) {
            grow(list);
            list.push_front(observation.clone());
        }
    }

    /// Removes the oldest attempt if it is `oldest`. Shrinks a list that is less than half full.
    pub(super) fn pop(&mut self, id: ListId, oldest: &Arc<AttemptBrief>) {
        let Some(list) = self.observations_mut(id) else { return };
        if list.front().is_some_and(|first| Arc::ptr_eq(&first.brief, oldest)) {
            list.pop_front();
        }
        if list.len() < list.capacity() / 2 {
            list.shrink_to(list.len() + list.len() / 4);
        }
    }

    /// Removes an attempt from any position in the list.
    pub(super) fn remove(&mut self, id: ListId, brief: &Arc<AttemptBrief>) {
        if let Some(list) = self.observations_mut(id) {
            list.retain(|known| !Arc::ptr_eq(&known.brief, brief));
        }
    }

    pub(super) fn replace(&mut self, id: ListId, earlier: &Arc<AttemptBrief>, observation: &RungObservation) {
        let known = self.observations_mut(id).into_iter().flatten();
        known
            .filter(|known| Arc::ptr_eq(&known.brief, earlier))
            .for_each(|known| *known = observation.clone());
    }

    fn observations_mut(&mut self, id: ListId) -> Option<&mut VecDeque<RungObservation>> {
        self.lists.get_mut(id).map(|list| &mut list.observations)
    }

    /// Number of rungs that share this list.
    pub(super) fn rungs(&self, id: ListId) -> usize {
        self.lists.get(id).map_or(0, |list| list.rungs)
    }

    /// The attempts of a list, oldest first.
    pub(super) fn get(&self, id: ListId) -> Option<&VecDeque<RungObservation>> {
        self.lists.get(id).map(|list| &list.observations)
    }

    #[cfg(test)]
    pub(super) fn lists_in_use(&self) -> impl Iterator<Item = &VecDeque<RungObservation>> {
        self.lists.iter().filter(|list| list.rungs > 0).map(|list| &list.observations)
    }
}

/// Bytes that are counted for the lists of a key with `attempts` attempts.
///
/// They must depend on the attempts alone: which attempts fit into a history may not depend on the order in which they came, and which
/// lists are shared does. So each key counts for two lists. One is its own. The wider lists have at most [`ATTEMPTS_PER_RUNG`] attempts,
/// and those that no other list equals are of two narrower lists at least, so together they take about as much as the narrowest.
pub(super) fn bytes_of_lists(attempts: usize) -> usize {
    if attempts == 0 {
        return 0;
    }
    let capacity = (attempts + growth(attempts)).min(ATTEMPTS_PER_RUNG);
    2 * (capacity * size_of::<RungObservation>() + size_of::<RungList>() + weight::ALLOCATION_STEP)
}

/// How much a list with `len` attempts grows: by a quarter, because doubling its capacity would leave a third of the memory unused.
fn growth(len: usize) -> usize {
    (len / 4).max(4)
}

/// Index of an attempt in a list that is ordered by [`AttemptBrief::position`]. Most attempts are the newest.
pub(in super::super) fn place_of<T>(
    list: &VecDeque<T>,
    brief_of: impl Fn(&T) -> &Arc<AttemptBrief>,
    brief: &AttemptBrief,
) -> usize {
    let is_before = |other: &T| brief_of(other).position() < brief.position();
    if list.back().is_none_or(is_before) { list.len() } else { list.partition_point(is_before) }
}

/// Makes room in a list for one more attempt.
fn grow(list: &mut VecDeque<RungObservation>) {
    if list.len() == list.capacity() {
        list.reserve_exact(growth(list.len()).min(ATTEMPTS_PER_RUNG - list.len()));
    }
}
