//! What tests count.

use super::{LimitKey, Tickets};

impl Tickets {
    /// Those that want or hold a place in a pool, and attempts that run there without one.
    pub fn wanted(&self, pool: &str) -> u32 {
        let pool = LimitKey::Pool(pool.to_owned());
        let tickets = self.counts.of(&pool).map_or(0, |count| count.held.places + count.queued.places);
        tickets + self.counts.unticketed(&pool)
    }
}
