//! Which host of `store_url` is the primary, and whether one may be used.
//!
//! A promotion begins a new timeline of the database. Where a primary that was replaced comes back, two hosts take writes: the one with the
//! later timeline is the right one. This process never goes back to an earlier timeline than one that it has written to; `kept_position`
//! remembers it for the next one.

use std::sync::{Mutex, PoisonError};

use super::errors::{PostgresError, PostgresResult};

/// A primary that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Primary {
    /// Which of the hosts of `store_url` it is.
    pub(super) host: usize,
    /// Identity of its cluster.
    pub(super) cluster: String,
    /// As PostgreSQL names its files: 8 digits.
    pub(super) timeline: String,
}

/// The primary that was found last, for all connections of a store.
#[derive(Debug, Default)]
pub(super) struct LastPrimary(Mutex<Option<Primary>>);

impl LastPrimary {
    fn get(&self) -> Option<Primary> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers the one that was found.
    pub(super) fn set(&self, primary: Primary) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(primary);
    }

    /// Which host it is; the first one if none was found yet.
    pub(super) fn host(&self) -> usize {
        self.get().map_or(0, |primary| primary.host)
    }

    /// Whether another host was promoted since this one was found. An old primary that was not stopped goes on answering.
    pub(super) fn has_replaced(&self, primary: &Primary) -> bool {
        self.get().is_some_and(|last| last.cluster == primary.cluster && last.timeline > primary.timeline)
    }

    /// Refuses another cluster than the last one, and an earlier timeline of it.
    pub(super) fn check(&self, found: &Primary) -> PostgresResult<()> {
        let Some(last) = self.get() else { return Ok(()) };
        if found.cluster != last.cluster {
            return Err(PostgresError::lasting(format!(
                "the database is now of another cluster ({}, and {} was opened): name the right one in store_url, or restart this server if \
                 the store was moved",
                found.cluster, last.cluster
            )));
        }
        if found.timeline < last.timeline {
            return Err(PostgresError::Passing(format!(
                "this is an old primary that was replaced (it is on timeline {}, and this server has written to timeline {}): stop it, or \
                 make it a standby of the new one",
                found.timeline, last.timeline
            )));
        }
        Ok(())
    }
}
