//! Servers that die at random moments while agents stream to them: by SIGKILL, or by a power cut.
//!
//! Each agent keeps what was acknowledged to it. A server that comes back must know at least that much, and the series must
//! be what was sent, each sample once.
//!
//! Several over one database, which take over from each other. And one with a database that goes away.
//!
//! And one that lives, under a load that never ends, or with too much of something.

mod agents;
mod asking;
mod away;
mod cluster;
mod cut;
mod kill;
mod much;
mod soak;
mod upstream;

pub use away::DatabaseCrashes;
pub use cluster::{TakenOver, Takeovers};
pub use cut::{Disk, power_cuts};
pub use kill::{Killed, Kills};
pub use much::{Cost, Much};
pub use soak::{Soak, Soaked};
pub use upstream::{UpstreamKilled, UpstreamKills};

/// Numbers that differ from call to call and are the same for the same seed (xorshift, Marsaglia 2003).
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice that fall the same way for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}
