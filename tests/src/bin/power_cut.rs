//! Cuts the power of a server's disk at random moments and checks that nothing acknowledged is missing.
//!
//! `cargo run --release --locked --bin power_cut -- 50`. Needs root and loop devices; without them it says so and ends well.

#![expect(clippy::print_stdout, reason = "the result goes to stdout")]

use std::env;

use plimsoll_tests::{
    Profile, Programs,
    endure::{Dice, Disk, power_cuts},
};

const ROUNDS: u64 = 6;
const AGENTS: u64 = 32;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut words = env::args().skip(1);
    let rounds = words.next().map_or(Ok(ROUNDS), |word| word.parse())?;
    let seed = words.next().map_or_else(|| Ok(u64::from(std::process::id())), |word| word.parse())?;
    let dir = tempfile::tempdir()?;
    let disk = match Disk::new(dir.path()) {
        Ok(disk) => disk,
        Err(reason) => {
            println!("skipped: {reason:#}");
            return Ok(());
        }
    };
    let programs = Programs::build(Profile::Release)?;
    println!("seed {seed}");
    let checked = power_cuts(&programs, dir.path(), disk, (rounds, AGENTS), &mut Dice::new(seed)).await?;
    println!("{rounds} cuts, every store opened, {checked} samples checked, nothing acknowledged is missing");
    Ok(())
}
