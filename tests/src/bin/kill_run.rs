//! Kills a server at random moments while agents stream, and checks that every sample is there once.
//!
//! `cargo run --release --locked --bin kill_run -- [KILLS] [SEED]`

#![expect(clippy::print_stdout, reason = "the result goes to stdout")]

use std::env;

use plimsoll_tests::{Profile, Programs, endure::Kills};

const ROUNDS: u64 = 200;
const AGENTS: u64 = 50;
/// Twenty attempts, so that there is something to append to, to roll and to seal whenever the end comes.
const WORK: u64 = 24_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut words = env::args().skip(1);
    let rounds = words.next().map_or(Ok(ROUNDS), |word| word.parse())?;
    let seed = words.next().map_or_else(|| Ok(u64::from(std::process::id())), |word| word.parse())?;
    println!("seed {seed}");
    let kills = Kills { rounds, agents: AGENTS, work: WORK, seed };
    let killed = kills.run(&Programs::build(Profile::Release)?).await?;
    println!("{rounds} kills, {AGENTS} agents: {killed}");
    Ok(())
}
