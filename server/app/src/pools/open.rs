//! Counts open attempts in each pool, with their requests. Each open attempt has a [`HeldSlot`]; its
//! slot is freed when the last copy is dropped.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use plimsoll_core::{
    domain::{PoolSlot, Resources},
    placement::tickets::TicketAmount,
};

/// The attempts that are open in a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OpenInPool {
    /// Number of all open attempts, also of those without a slot.
    pub(crate) attempts: u32,
    /// Number of attempts with a slot and a ticket.
    pub(crate) with_ticket: u32,
    /// Attempts with a slot and without a ticket: their number and the sum of their known requests.
    pub(crate) without_ticket: TicketAmount,
}

/// Open attempts by pool. Agents name pools and jobs freely, but the tables hold at most one entry
/// for each open attempt.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenSlots(Arc<Mutex<OpenCounts>>);

#[derive(Debug, Default)]
struct OpenCounts {
    pools: HashMap<String, OpenInPool>,
    /// Jobs with an attempt that has the job's only slot: untrusted attempts of a job share one.
    jobs_with_slot: HashSet<String>,
}

/// An open attempt's place in the counts. Copies share it.
#[derive(Debug, Clone)]
pub(crate) struct HeldSlot(Arc<SlotHold>);

impl HeldSlot {
    /// Whether the attempt has a slot. Further untrusted attempts of a job, and attempts without a
    /// proven job, have none: they are only counted as open.
    pub(crate) fn takes_place(&self) -> bool {
        self.0.slot.is_some()
    }
}

#[derive(Debug)]
struct SlotHold {
    pool: String,
    slot: Option<PoolSlot>,
    with_ticket: u32,
    without_ticket: TicketAmount,
    counts: Arc<Mutex<OpenCounts>>,
}

impl OpenSlots {
    /// Counts an attempt as open in a pool; with `seat`, also takes a slot with these sizes. A
    /// job's slot that is taken already is not taken again. Returns `None` if the name of the pool
    /// is empty.
    pub(crate) fn hold(
        &self,
        pool: &str,
        sizes: &Resources,
        has_ticket: bool,
        seat: Option<PoolSlot>,
    ) -> Option<HeldSlot> {
        if pool.is_empty() {
            return None;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seat = seat.filter(|seat| match seat {
            PoolSlot::Own => true,
            PoolSlot::OfJob(job) => counts.jobs_with_slot.insert(job.clone()),
        });
        let (with_ticket, without_ticket) = match (&seat, has_ticket) {
            (None, _) => Default::default(),
            (Some(_), true) => (1, TicketAmount::default()),
            (Some(_), false) => (0, slot_amount(sizes)),
        };
        let open = counts.pools.entry(pool.to_owned()).or_default();
        open.attempts = open.attempts.saturating_add(1);
        open.with_ticket = open.with_ticket.saturating_add(with_ticket);
        open.without_ticket = sum(open.without_ticket, without_ticket);
        let (pool, counts) = (pool.to_owned(), Arc::clone(&self.0));
        Some(HeldSlot(Arc::new(SlotHold { pool, slot: seat, with_ticket, without_ticket, counts })))
    }

    /// Number of attempts that are open in a pool.
    pub(crate) fn count(&self, pool: &str) -> u32 {
        self.of(pool).attempts
    }

    /// The open attempts of a pool.
    pub(crate) fn of(&self, pool: &str) -> OpenInPool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pools.get(pool).copied().unwrap_or_default()
    }
}

/// One slot with the requests in `sizes`.
fn slot_amount(sizes: &Resources) -> TicketAmount {
    TicketAmount {
        slots: 1,
        memory_bytes: sizes.memory_asked().unwrap_or_default().0,
        milli_cores: sizes
            .cpu_asked()
            .map_or(0, |cores| plimsoll_base::quantity::rounded_millicores(cores.0)),
    }
}

/// The sum of two amounts.
pub(super) fn sum(one: TicketAmount, other: TicketAmount) -> TicketAmount {
    TicketAmount {
        slots: one.slots.saturating_add(other.slots),
        memory_bytes: one.memory_bytes.saturating_add(other.memory_bytes),
        milli_cores: one.milli_cores.saturating_add(other.milli_cores),
    }
}

impl Drop for SlotHold {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(PoolSlot::OfJob(job)) = &self.slot {
            counts.jobs_with_slot.remove(job);
        }
        let Some(open) = counts.pools.get_mut(&self.pool) else { return };
        open.attempts = open.attempts.saturating_sub(1);
        open.with_ticket = open.with_ticket.saturating_sub(self.with_ticket);
        let (sum, gone) = (open.without_ticket, self.without_ticket);
        open.without_ticket = TicketAmount {
            slots: sum.slots.saturating_sub(gone.slots),
            memory_bytes: sum.memory_bytes.saturating_sub(gone.memory_bytes),
            milli_cores: sum.milli_cores.saturating_sub(gone.milli_cores),
        };
        if open.attempts == 0 {
            counts.pools.remove(&self.pool);
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Bytes, Cores};

    use super::*;

    fn hold(open: &OpenSlots, pool: &str, sizes: &Resources, has_ticket: bool) -> Option<HeldSlot> {
        open.hold(pool, sizes, has_ticket, Some(PoolSlot::Own))
    }

    #[test]
    fn a_slot_is_freed_with_its_last_copy() {
        let open = OpenSlots::default();
        let sizes = Resources {
            memory_request: Some(Bytes(5)),
            cpu_request: Some(Cores(1.5)),
            ..Resources::default()
        };
        let (one, other) =
            (hold(&open, "big", &sizes, false).unwrap(), hold(&open, "big", &sizes, true).unwrap());
        let copy = one.clone();
        drop(one);
        assert_eq!((open.count("big"), open.count("small")), (2, 0));
        // what a ticket counts is not counted here
        let amount = TicketAmount { slots: 1, memory_bytes: 5, milli_cores: 1500 };
        assert_eq!(open.of("big").without_ticket, amount);
        drop(copy);
        let one = OpenInPool { attempts: 1, with_ticket: 1, without_ticket: TicketAmount::default() };
        assert_eq!(open.of("big"), one);
        drop(other);
        assert_eq!(open.count("big"), 0);
        assert!(hold(&open, "", &sizes, false).is_none() && open.0.lock().unwrap().pools.is_empty());
    }

    #[test]
    fn attempts_of_one_job_take_one_slot() {
        let open = OpenSlots::default();
        let sizes = Resources { memory_request: Some(Bytes(5)), ..Resources::default() };
        let job = |id: &str| Some(PoolSlot::OfJob(id.into()));
        let hold = |seat| open.hold("big", &sizes, false, seat).unwrap();
        let held = [job("x:7"), job("x:7"), job("x:7"), job("x:8"), None, None].map(hold);
        assert_eq!(held.each_ref().map(HeldSlot::takes_place), [true, false, false, true, false, false]);
        let with_ticket = [job("x:7"), None].map(|seat| open.hold("big", &sizes, true, seat).unwrap());
        let amount = TicketAmount { slots: 2, memory_bytes: 10, milli_cores: 0 };
        assert_eq!(open.of("big"), OpenInPool { attempts: 8, with_ticket: 0, without_ticket: amount });
        let [first, others @ ..] = held;
        drop((others, with_ticket));
        assert!(!hold(job("x:7")).takes_place(), "another has it still");
        drop(first);
        assert!(hold(job("x:7")).takes_place());
        let counts = open.0.lock().unwrap();
        assert!(counts.pools.is_empty() && counts.jobs_with_slot.is_empty());
    }
}
