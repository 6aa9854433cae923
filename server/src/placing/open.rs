//! How many attempts are open in each pool, and what they ask for. Whoever holds an attempt holds its place; it is given back when the
//! last copy goes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{domain::Resources, placement::tickets::Amount};

type Counts = Arc<Mutex<HashMap<String, Open>>>;

/// The attempts that are open in a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Open {
    /// All of them.
    pub(crate) attempts: u32,
    /// Those that name no ticket, and what they ask for as far as it is known.
    pub(crate) without_ticket: Amount,
}

/// The counts. As many pools as attempts are open at most: agents name them.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenPlaces(Counts);

/// A place that is held. Copies hold the same one.
#[derive(Debug, Clone)]
pub(crate) struct Held(#[expect(dead_code, reason = "held for its end")] Arc<Holding>);

#[derive(Debug)]
struct Holding {
    pool: String,
    without_ticket: Amount,
    counts: Counts,
}

impl OpenPlaces {
    /// Holds a place in a pool for an attempt with these sizes, which may have a ticket; `None` where no pool is known.
    pub(crate) fn hold(&self, pool: &str, sizes: &Resources, has_ticket: bool) -> Option<Held> {
        if pool.is_empty() {
            return None;
        }
        let without_ticket = if has_ticket { Amount::default() } else { amount(sizes) };
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = counts.entry(pool.to_owned()).or_default();
        open.attempts = open.attempts.saturating_add(1);
        open.without_ticket = sum(open.without_ticket, without_ticket);
        Some(Held(Arc::new(Holding { pool: pool.to_owned(), without_ticket, counts: Arc::clone(&self.0) })))
    }

    /// Attempts that are open in a pool.
    pub(crate) fn count(&self, pool: &str) -> u32 {
        self.of(pool).attempts
    }

    /// What is open in a pool.
    pub(crate) fn of(&self, pool: &str) -> Open {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(pool).copied().unwrap_or_default()
    }
}

/// One place, with what is asked for in it.
fn amount(sizes: &Resources) -> Amount {
    Amount {
        places: 1,
        memory_bytes: sizes.memory_asked().unwrap_or_default().0,
        milli_cores: sizes.cpu_asked().map_or(0, |cores| plimsoll_proto::quantity::millicores(cores.0)),
    }
}

/// Both together.
pub(super) fn sum(one: Amount, other: Amount) -> Amount {
    Amount {
        places: one.places.saturating_add(other.places),
        memory_bytes: one.memory_bytes.saturating_add(other.memory_bytes),
        milli_cores: one.milli_cores.saturating_add(other.milli_cores),
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = counts.get_mut(&self.pool) else { return };
        open.attempts = open.attempts.saturating_sub(1);
        let (sum, gone) = (open.without_ticket, self.without_ticket);
        open.without_ticket = Amount {
            places: sum.places.saturating_sub(gone.places),
            memory_bytes: sum.memory_bytes.saturating_sub(gone.memory_bytes),
            milli_cores: sum.milli_cores.saturating_sub(gone.milli_cores),
        };
        if open.attempts == 0 {
            counts.remove(&self.pool);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Bytes, Cores};

    #[test]
    fn a_place_is_given_back_once_when_its_last_copy_goes() {
        let open = OpenPlaces::default();
        let sizes = Resources {
            memory_request: Some(Bytes(5)),
            cpu_request: Some(Cores(1.5)),
            ..Resources::default()
        };
        let (one, other) =
            (open.hold("big", &sizes, false).unwrap(), open.hold("big", &sizes, true).unwrap());
        let copy = one.clone();
        drop(one);
        assert_eq!((open.count("big"), open.count("small")), (2, 0));
        // what a ticket counts is not counted here
        let amount = Amount { places: 1, memory_bytes: 5, milli_cores: 1500 };
        assert_eq!(open.of("big").without_ticket, amount);
        drop(copy);
        assert_eq!(open.of("big"), Open { attempts: 1, without_ticket: Amount::default() });
        drop(other);
        assert_eq!(open.count("big"), 0);
        assert!(open.hold("", &sizes, false).is_none() && open.0.lock().unwrap().is_empty());
    }
}
