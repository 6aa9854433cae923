//! Who is next.

use super::{
    ClockReading, LimitKey, OwnerState, TicketChange, Tickets, claim,
    class::{ClassKey, OwnerIndex, QueueOrder, TicketClass},
    count::LimitCount,
};
use crate::domain::TicketClaim;

/// Later tickets that may take what a class of tickets needs before its places are kept free for it.
pub const PATIENCE: u32 = 64;

impl Tickets {
    /// Grants what can be granted, lowest round first.
    pub fn grant(&mut self, now: ClockReading) -> Vec<TicketChange> {
        let mut changes = Vec::new();
        while let Some(at) = self.next_class() {
            let Some(class) = self.classes.get_mut(at) else { break };
            let Some(id) = class.pop() else { break };
            class.passed = 0;
            self.reseat(at);
            let Some(entry) = self.known.get_mut(&id) else { continue };
            let order = (entry.ticket.round, entry.ticket.number);
            self.counts.take(&entry.counts, &entry.ticket, false);
            entry.ticket.granted_unix_ms = Some(now.unix_ms);
            self.counts.add(&entry.counts, &entry.ticket);
            self.round = self.round.max(order.0);
            let (counts, raised) = (entry.counts.clone(), entry.ticket.claim.raised);
            self.rest(&id, now);
            self.pass_over(&counts, order, raised);
            let Some(owner_at) = counts.last() else { continue };
            self.left(at, *owner_at);
            self.settle_owner(*owner_at);
            changes.push(TicketChange::Granted(id));
        }
        changes
    }

    /// The round of a ticket that is opened now: after the owner's last one that waits for the same pool, raised or not as it is.
    /// Who waits for nothing there starts afresh, and does not pay for what it took back or wants elsewhere.
    pub(super) fn round_for(&self, claim: &TicketClaim) -> u64 {
        let pool = self.counts.at(&LimitKey::Pool(claim.pool.clone()));
        let count = pool.and_then(|at| self.counts.get(at)).filter(|count| count.waiting.len() > 0);
        let turn = count.map_or(self.round, |count| count.round);
        let first = if claim.raised { turn } else { turn + 1 };
        let (Some(pool), Some((owner_at, owner))) = (pool, self.owner_of(claim)) else { return first };
        let classes = owner.classes.iter().filter_map(|at| self.classes.get(*at));
        let alike =
            |class: &&TicketClass| class.sort.raised == claim.raised && class.sort.places.contains(&pool);
        let last = classes.filter(alike).filter_map(|class| class.last_of(owner_at)).max();
        last.map_or(first, |(last, _)| first.max(last + 1))
    }

    /// The owner of a claim, if something of it is open.
    pub(super) fn owner_of(&self, claim: &TicketClaim) -> Option<(OwnerIndex, &OwnerState)> {
        let at = self.counts.at(&LimitKey::Owner(claim.owner.clone()))?;
        Some((at, self.owners.get(&at)?))
    }

    /// The class whose first ticket is next, if any can be granted.
    fn next_class(&mut self) -> Option<usize> {
        // one at a time, the one whose turn it was first: it gets what it needs, and then the next
        let kept = self.kept();
        if let Some((at, class)) = kept
            && class.sort.places.iter().all(|place| self.counts.free(*place) > 0)
        {
            return Some(at);
        }
        let kept = kept.map_or_else(Vec::new, |(_, class)| class.sort.places.clone());
        let Self { lineup, counts, classes, .. } = self;
        let is_full = |place: usize| counts.free(place) <= u32::from(kept.contains(&place));
        let held_up = |at: usize| classes.get(at)?.sort.places.iter().copied().find(|place| is_full(*place));
        let next = lineup.next(is_full, held_up);
        #[cfg(test)]
        if classes.len() < 200 {
            let may = classes.iter().filter(|(at, _)| held_up(*at).is_none());
            let first = may.filter_map(|(at, class)| Some((class.first()?, at))).min();
            assert_eq!(next, first.map(|(_, at)| at), "a look at all of them finds another one");
        }
        next
    }

    /// The class that others must leave its places to.
    fn kept(&self) -> Option<(usize, &TicketClass)> {
        // where no place can be given, such as in a pool that was taken out of the file or is full without any ticket, would hold the
        // others up for ever
        let is_off = |place: &usize| self.counts.get(*place).is_some_and(LimitCount::is_closed);
        let can = |class: &TicketClass| !class.sort.places.iter().any(is_off);
        let overdue = self.lineup.overdue().filter_map(|at| Some((at, self.classes.get(at)?)));
        overdue.into_iter().find(|(_, class)| can(class))
    }

    /// The class has another ticket that is next, or none: nothing else says whose turn it is.
    pub(super) fn reseat(&mut self, at: usize) {
        if let Some(class) = self.classes.get(at) {
            self.lineup.seat(at, class.first(), class.passed >= PATIENCE);
        }
    }

    /// Counts a grant against the classes whose turn was before it, and that need what it took. A raised one is before its turn. Those
    /// that were passed over often enough are not counted on.
    fn pass_over(&mut self, granted: &[usize], order: QueueOrder, raised: bool) {
        let limited = |place: &&usize| self.counts.get(**place).is_some_and(|count| count.limit.is_some());
        let taken: Vec<usize> = granted.iter().filter(limited).copied().collect();
        for at in self.lineup.patient(Some(order).filter(|_| !raised)) {
            let Some(class) = self.classes.get_mut(at) else { continue };
            let is_jumped = raised && !class.sort.raised;
            let was_before = class.first().is_some_and(|first| first < order || is_jumped);
            if was_before && class.sort.places.iter().any(|place| taken.contains(place)) {
                class.passed = class.passed.saturating_add(1);
                self.reseat(at);
            }
        }
    }

    /// The class of a ticket that waits.
    pub(super) fn class_of(&self, counts: &[usize], raised: bool) -> Option<usize> {
        let (_owner, places) = counts.split_last()?;
        self.sorts.get(&ClassKey { places: places.to_vec(), raised }).copied()
    }

    /// Whether others wait for the same.
    pub(super) fn has_class_for(&self, claim: &TicketClaim) -> bool {
        let places: Option<Vec<usize>> =
            claim::places(claim).iter().map(|place| self.counts.at(place)).collect();
        places.is_some_and(|places| self.sorts.contains_key(&ClassKey { places, raised: claim.raised }))
    }

    /// A ticket of an owner waits in a class no longer: nothing that is empty stays.
    pub(super) fn left(&mut self, at: usize, owner_at: OwnerIndex) {
        let Some(class) = self.classes.get(at) else { return };
        if !class.has(owner_at)
            && let Some(owner) = self.owners.get_mut(&owner_at)
        {
            owner.classes.remove(&at);
        }
        if class.is_empty() {
            self.sorts.remove(&class.sort);
            self.classes.remove(at);
        }
    }

    /// Takes an owner's tickets out of the running while it is at its limit.
    pub(super) fn settle_owner(&mut self, owner_at: OwnerIndex) {
        let is_open = self.counts.free(owner_at) > 0;
        let Some(owner) = self.owners.get_mut(&owner_at) else { return };
        // most events change nothing of that
        if std::mem::replace(&mut owner.is_open, is_open) == is_open {
            return;
        }
        for at in &owner.classes {
            let Some(class) = self.classes.get_mut(*at) else { continue };
            class.set_open(owner_at, is_open);
            self.lineup.seat(*at, class.first(), class.passed >= PATIENCE);
        }
    }
}
