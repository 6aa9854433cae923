//! SIGKILL at random moments, again and again, on one data directory.

use std::{fmt, sync::atomic::Ordering::Relaxed, time::Duration};

use tokio::{sync::watch, time::Instant};

use super::{
    Dice,
    agents::{self, World},
};
use crate::{Programs, Server};

/// Most time between the end of a life's work and its death, milliseconds: a commit, and some.
pub(super) const DEATH_MS: u64 = 40;
/// A life without its work ends all the same: a machine may be slow.
const LIFE: Duration = Duration::from_secs(20);
/// Between two looks at the work.
const LOOK: Duration = Duration::from_millis(1);

/// How often, by whom, and after how much.
#[derive(Debug, Clone, Copy)]
pub struct Kills {
    /// Lives of the server.
    pub rounds: u64,
    /// Agents that stream.
    pub agents: u64,
    /// Most samples that are acknowledged in one life before it ends; half of it on average.
    pub work: u64,
    /// Of the dice.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Killed {
    /// Samples that were acknowledged, those that were sent again included.
    pub acknowledged: u64,
    /// Fewest of them in one life.
    pub least: u64,
    /// Attempts that were checked.
    pub attempts: u64,
    /// Samples that were checked, each of which was there once.
    pub checked: u64,
}

impl fmt::Display for Killed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, least, attempts, checked } = self;
        write!(
            f,
            "{acknowledged} samples acknowledged (at least {least} in a life); {checked} samples of {attempts} attempts \
             checked: each there once, all summaries as undisturbed"
        )
    }
}

impl Kills {
    /// Kills a server again and again while agents stream; then delivers the rest and checks everything.
    pub async fn run(&self, programs: &Programs) -> anyhow::Result<Killed> {
        let dir = tempfile::tempdir()?;
        let mut dice = Dice::new(self.seed);
        let (place, places) = watch::channel(None);
        let (stop, stops) = watch::channel(false);
        let world = World::new(places, stops);
        let mut agents = agents::start(self.agents, self.seed, &world);
        let mut least = u64::MAX;
        for _round in 0..self.rounds {
            let before = world.acknowledged.load(Relaxed);
            let server = Server::start(programs, dir.path())?;
            place.send_replace(Some(server.url()));
            live(&world, dice.below(self.work)).await;
            tokio::time::sleep(Duration::from_millis(dice.below(DEATH_MS))).await;
            place.send_replace(None);
            server.kill()?;
            least = least.min(world.acknowledged.load(Relaxed) - before);
            // an agent that found something missing has ended
            if let Some(ended) = agents.try_join_next() {
                ended??;
            }
        }
        stop.send_replace(true);
        let mut ledger = agents::ended(agents).await?;
        let server = Server::start(programs, dir.path())?;
        let checked = agents::complete(&server.url(), &mut ledger).await?;
        let acknowledged = world.acknowledged.load(Relaxed);
        Ok(Killed { acknowledged, least, attempts: ledger.len() as u64, checked })
    }
}

/// Waits until this much more is acknowledged.
pub(super) async fn live(world: &World, work: u64) {
    let (goal, end) = (world.acknowledged.load(Relaxed) + work, Instant::now() + LIFE);
    while world.acknowledged.load(Relaxed) < goal && Instant::now() < end {
        tokio::time::sleep(LOOK).await;
    }
}
