//! Kills a server at random moments while agents stream, and checks that every sample is there once.
//!
//! `cargo run --locked --bin kill_run -- 200`

#![expect(clippy::print_stdout, reason = "the result goes to stdout")]

use std::env;

use plimsoll_tests::{Profile, Programs, endure::kills};

const ROUNDS: u64 = 20;
const AGENTS: u64 = 50;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut words = env::args().skip(1);
    let rounds = words.next().map_or(Ok(ROUNDS), |word| word.parse())?;
    let seed = words.next().map_or_else(|| Ok(u64::from(std::process::id())), |word| word.parse())?;
    println!("seed {seed}");
    let checked = kills(&Programs::build(Profile::Dev)?, rounds, AGENTS, seed).await?;
    println!(
        "{rounds} kills, {AGENTS} agents, {checked} samples: each there once, all summaries as undisturbed"
    );
    Ok(())
}
