//! One attempt with ten million samples and a hundred thousand that are opened and never fed, over a SIGKILL: what it takes.
//!
//! `cargo run --release --locked --bin too_much -- [SAMPLES] [ATTEMPTS]`

#![expect(clippy::print_stdout, reason = "the result goes to stdout")]

use std::env;

use plimsoll_tests::{Profile, Programs, allow_open_files, endure::Much};

const SAMPLES: u64 = 10_000_000;
const IDLE: u64 = 100_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut words = env::args().skip(1);
    let samples = words.next().map_or(Ok(SAMPLES), |word| word.parse())?;
    let idle = words.next().map_or(Ok(IDLE), |word| word.parse())?;
    allow_open_files()?;
    let cost = Much { samples, idle }.run(&Programs::build(Profile::Release)?).await?;
    println!("{samples} samples in one attempt, {idle} attempts without any: {cost}");
    Ok(())
}
