//! Kills a server and its Resalloc server upstream at random moments, and checks that each ticket upstream is in use or closed.
//!
//! `cargo run --release --locked --bin upstream_kills -- [ROUNDS] [SEED]`, with `python3`

#![expect(clippy::print_stdout, reason = "the result goes to stdout")]

use std::env;

use plimsoll_tests::{Profile, Programs, endure::UpstreamKills};

const ROUNDS: u64 = 200;

fn main() -> anyhow::Result<()> {
    let mut words = env::args().skip(1);
    let rounds = words.next().map_or(Ok(ROUNDS), |word| word.parse())?;
    let seed = words.next().map_or_else(|| Ok(u64::from(std::process::id())), |word| word.parse())?;
    println!("seed {seed}");
    let profile = if cfg!(debug_assertions) { Profile::Dev } else { Profile::Release };
    let killed = UpstreamKills { rounds, seed }.run(&Programs::build(profile)?)?;
    println!("{rounds} kills of each: {killed}");
    Ok(())
}
