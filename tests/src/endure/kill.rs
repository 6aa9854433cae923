//! SIGKILL at random moments, again and again, on one data directory.

use std::time::Duration;

use tokio::sync::watch;

use super::{
    Dice,
    agents::{self, Ledger},
};
use crate::{Programs, Server};

/// Longest time between a server's start and its death, milliseconds.
const LIFE_MS: u64 = 400;

/// Kills a server `rounds` times while `count` agents stream; then delivers the rest and checks everything.
///
/// Gives the number of samples that were checked.
///
/// # Errors
/// Something that was acknowledged is missing, was counted twice, or a server did not start.
pub async fn kills(programs: &Programs, rounds: u64, count: u64, seed: u64) -> anyhow::Result<u64> {
    let dir = tempfile::tempdir()?;
    let mut dice = Dice::new(seed);
    let (place, places) = watch::channel(None);
    let (stop, stops) = watch::channel(false);
    let mut agents = agents::start(count, seed, &places, &stops);
    for _round in 0..rounds {
        let server = Server::start(programs, dir.path())?;
        place.send_replace(Some(server.url()));
        tokio::time::sleep(Duration::from_millis(dice.below(LIFE_MS))).await;
        place.send_replace(None);
        server.kill()?;
        // an agent that found something missing has ended
        if let Some(ended) = agents.try_join_next() {
            ended??;
        }
    }
    stop.send_replace(true);
    let mut ledger = Ledger::new();
    while let Some(ended) = agents.join_next().await {
        ledger.extend(ended??);
    }
    let server = Server::start(programs, dir.path())?;
    agents::complete(&server.url(), &ledger).await?;
    for acknowledged in ledger.values_mut() {
        *acknowledged = None;
    }
    agents::check(&server.url(), &ledger).await
}
