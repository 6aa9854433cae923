//! What tests count.

use super::{LimitKey, Tickets};

impl Tickets {
    /// Number of tickets that want or hold a slot in a pool, and of attempts that run there without a ticket.
    pub fn wanted(&self, pool: &str) -> u32 {
        let pool = LimitKey::Pool(pool.to_owned());
        let tickets = self.counts.of(&pool).map_or(0, |count| count.held.slots + count.queued.slots);
        tickets + self.counts.unticketed(&pool)
    }
}
