//! How many attempts are open in each pool. Whoever holds an attempt holds its place; it is given back when the last copy goes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

type Counts = Arc<Mutex<HashMap<String, u32>>>;

/// The counts. As many pools as attempts are open at most: agents name them.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenPlaces(Counts);

/// A place that is held. Copies hold the same one.
#[derive(Debug, Clone)]
pub(crate) struct Held(#[expect(dead_code, reason = "held for its end")] Arc<Holding>);

#[derive(Debug)]
struct Holding {
    pool: String,
    counts: Counts,
}

impl OpenPlaces {
    /// Holds a place in a pool; `None` where no pool is known.
    pub(crate) fn hold(&self, pool: &str) -> Option<Held> {
        if pool.is_empty() {
            return None;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(pool.to_owned()).or_default();
        *count = count.saturating_add(1);
        Some(Held(Arc::new(Holding { pool: pool.to_owned(), counts: Arc::clone(&self.0) })))
    }

    /// Attempts that are open in a pool.
    pub(crate) fn count(&self, pool: &str) -> u32 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(pool).copied().unwrap_or_default()
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = counts.get_mut(&self.pool) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(&self.pool);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_given_back_once_when_its_last_copy_goes() {
        let open = OpenPlaces::default();
        let (one, other) = (open.hold("big").unwrap(), open.hold("big").unwrap());
        let copy = one.clone();
        drop(one);
        assert_eq!((open.count("big"), open.count("small")), (2, 0));
        drop(copy);
        assert_eq!(open.count("big"), 1);
        drop(other);
        assert_eq!(open.count("big"), 0);
        assert!(open.hold("").is_none() && open.0.lock().unwrap().is_empty());
    }
}
