//! Decides which ticket gets the next free slot.

use super::{
    ClockReading, LimitKey, OwnerState, TicketChange, Tickets, claim,
    class::{ClassKey, OwnerIndex, QueueOrder, TicketClass},
    count::LimitCount,
};
use crate::domain::{TicketClaim, TicketId};

/// Number of later tickets that may take slots which a class needs, before slots are reserved for the class.
pub const MAX_PASSED_OVER: u32 = 64;

impl Tickets {
    /// Grants slots to all tickets that can have one, lowest round first.
    pub fn grant(&mut self, now: ClockReading) -> Vec<TicketChange> {
        let mut changes = Vec::new();
        while let Some(at) = self.next_class() {
            let Some(class) = self.classes.get_mut(at) else { break };
            let Some(id) = class.pop() else { break };
            class.passed_over = 0;
            self.update_order(at);
            let Some(order) = self.hold_slot(&id, now) else { continue };
            self.round = self.round.max(order.0);
            let Some(entry) = self.known.get(&id) else { continue };
            let (counts, raised) = (entry.counts.clone(), entry.ticket.claim.raised);
            self.pass_over(&counts, order, raised);
            let Some(owner_at) = counts.last() else { continue };
            self.remove_empty_owner(at, *owner_at);
            self.update_owner_limit(*owner_at);
            changes.push(TicketChange::Granted(id));
        }
        changes
    }

    /// Grants a slot out of turn, and even if the pool is full, to a ticket for which a host of the pool is kept: no other ticket may have
    /// that host. Returns the change; `None` if the ticket does not wait, or if another of its limits is full.
    pub fn grant_kept(&mut self, id: &TicketId, now: ClockReading) -> Option<TicketChange> {
        let entry = self.known.get(id).filter(|entry| entry.ticket.granted_unix_ms.is_none())?;
        let is_pool = |count: &LimitCount| matches!(count.scope, LimitKey::Pool(_));
        let is_full = |at: &&usize| {
            self.counts.get(**at).is_some_and(|count| !is_pool(count) && count.free_slots() == 0)
        };
        let (ticket, counts) = (&entry.ticket, entry.counts.clone());
        if counts.iter().any(|at| is_full(&at)) {
            return None;
        }
        let (raised, order) = (ticket.claim.raised, (ticket.round, ticket.number));
        let (class, owner_at) = (self.class_of(&counts, raised)?, *counts.last()?);
        if let Some(class) = self.classes.get_mut(class) {
            class.remove(owner_at, order);
        }
        self.update_order(class);
        self.hold_slot(id, now)?;
        self.remove_empty_owner(class, owner_at);
        self.update_owner_limit(owner_at);
        Some(TicketChange::Granted(id.clone()))
    }

    /// Gives a slot to a ticket that was taken out of its queue. Returns the ticket's order.
    fn hold_slot(&mut self, id: &TicketId, now: ClockReading) -> Option<QueueOrder> {
        let entry = self.known.get_mut(id)?;
        self.counts.subtract(&entry.counts, &entry.ticket, false);
        entry.ticket.granted_unix_ms = Some(now.unix_ms);
        self.counts.add(&entry.counts, &entry.ticket);
        let order = (entry.ticket.round, entry.ticket.number);
        self.start_timeout(id, now);
        Some(order)
    }

    /// The round of a new ticket: one after the owner's last waiting ticket of the same pool and priority. For an owner without waiting
    /// tickets there it is the current round; tickets that the owner closed or has elsewhere do not matter.
    pub(super) fn round_for(&self, claim: &TicketClaim) -> u64 {
        let pool = self.counts.at(&LimitKey::Pool(claim.pool.clone()));
        let count = pool.and_then(|at| self.counts.get(at)).filter(|count| count.waiting.len() > 0);
        let turn = count.map_or(self.round, |count| count.round);
        let first = if claim.raised { turn } else { turn + 1 };
        let (Some(pool), Some((owner_at, owner))) = (pool, self.owner_of(claim)) else { return first };
        let classes = owner.classes.iter().filter_map(|at| self.classes.get(*at));
        let alike =
            |class: &&TicketClass| class.key.raised == claim.raised && class.key.counts.contains(&pool);
        let last = classes.filter(alike).filter_map(|class| class.last_of(owner_at)).max();
        last.map_or(first, |(last, _)| first.max(last + 1))
    }

    /// The owner of a claim, if the owner has open tickets.
    pub(super) fn owner_of(&self, claim: &TicketClaim) -> Option<(OwnerIndex, &OwnerState)> {
        let at = self.counts.at(&LimitKey::Owner(claim.owner.clone()))?;
        Some((at, self.owners.get(&at)?))
    }

    /// The class of the next ticket that can be granted; `None` if no ticket can.
    fn next_class(&mut self) -> Option<usize> {
        // slots are reserved for one class at a time: the first in order, and after its grant the next one
        let kept = self.reserved_class();
        if let Some((at, class)) = kept
            && class.key.counts.iter().all(|place| self.counts.free_slots_of(*place) > 0)
        {
            return Some(at);
        }
        let kept = kept.map_or_else(Vec::new, |(_, class)| class.key.counts.clone());
        let Self { lineup, counts, classes, .. } = self;
        let is_full = |place: usize| counts.free_slots_of(place) <= u32::from(kept.contains(&place));
        let held_up = |at: usize| classes.get(at)?.key.counts.iter().copied().find(|place| is_full(*place));
        let next = lineup.next(is_full, held_up);
        #[cfg(test)]
        if classes.len() < 200 {
            let may = classes.iter().filter(|(at, _)| held_up(*at).is_none());
            let first = may.filter_map(|(at, class)| Some((class.first()?, at))).min();
            assert_eq!(next, first.map(|(_, at)| at), "a look at all of them finds another one");
        }
        next
    }

    /// The class for which slots are reserved.
    fn reserved_class(&self) -> Option<(usize, &TicketClass)> {
        // a class that can get no slot is skipped, because it would block the others for ever: its pool was removed from the file, or is
        // full of attempts without tickets
        let is_off = |place: &usize| self.counts.get(*place).is_some_and(LimitCount::is_closed);
        let can = |class: &TicketClass| !class.key.counts.iter().any(is_off);
        let overdue = self.lineup.overdue().filter_map(|at| Some((at, self.classes.get(at)?)));
        overdue.into_iter().find(|(_, class)| can(class))
    }

    /// Updates the queue of classes after the next ticket of a class changed.
    pub(super) fn update_order(&mut self, at: usize) {
        if let Some(class) = self.classes.get(at) {
            self.lineup.set_order(at, class.first(), class.passed_over >= MAX_PASSED_OVER);
        }
    }

    /// Counts a grant as passing over the classes that precede it in order and need the granted slots. A raised ticket also passes over
    /// every class that is not raised. Classes that were passed over too often already are not counted further.
    fn pass_over(&mut self, granted: &[usize], order: QueueOrder, raised: bool) {
        let limited = |place: &&usize| self.counts.get(**place).is_some_and(|count| count.limit.is_some());
        let taken: Vec<usize> = granted.iter().filter(limited).copied().collect();
        for at in self.lineup.not_overdue_before(Some(order).filter(|_| !raised)) {
            let Some(class) = self.classes.get_mut(at) else { continue };
            let is_jumped = raised && !class.key.raised;
            let was_before = class.first().is_some_and(|first| first < order || is_jumped);
            if was_before && class.key.counts.iter().any(|place| taken.contains(place)) {
                class.passed_over = class.passed_over.saturating_add(1);
                self.update_order(at);
            }
        }
    }

    /// The class of a waiting ticket.
    pub(super) fn class_of(&self, counts: &[usize], raised: bool) -> Option<usize> {
        let (_owner, places) = counts.split_last()?;
        self.sorts.get(&ClassKey { counts: places.to_vec(), raised }).copied()
    }

    /// Whether tickets of the same class as this claim wait.
    pub(super) fn has_class_for(&self, claim: &TicketClaim) -> bool {
        let places: Option<Vec<usize>> =
            claim::scopes(claim).iter().map(|place| self.counts.at(place)).collect();
        places
            .is_some_and(|places| self.sorts.contains_key(&ClassKey { counts: places, raised: claim.raised }))
    }

    /// Removes an owner without waiting tickets from a class, and removes the class if it is empty.
    pub(super) fn remove_empty_owner(&mut self, at: usize, owner_at: OwnerIndex) {
        let Some(class) = self.classes.get(at) else { return };
        if !class.has(owner_at)
            && let Some(owner) = self.owners.get_mut(&owner_at)
        {
            owner.classes.remove(&at);
        }
        if class.is_empty() {
            self.sorts.remove(&class.key);
            self.classes.remove(at);
        }
    }

    /// Skips an owner's tickets while the owner is at its limit, and includes them again afterwards.
    pub(super) fn update_owner_limit(&mut self, owner_at: OwnerIndex) {
        let is_open = self.counts.free_slots_of(owner_at) > 0;
        let Some(owner) = self.owners.get_mut(&owner_at) else { return };
        // in most calls the owner's limit changes nothing, so no class is visited
        if std::mem::replace(&mut owner.is_open, is_open) == is_open {
            return;
        }
        for at in &owner.classes {
            let Some(class) = self.classes.get_mut(*at) else { continue };
            class.set_open(owner_at, is_open);
            self.lineup.set_order(*at, class.first(), class.passed_over >= MAX_PASSED_OVER);
        }
    }
}
