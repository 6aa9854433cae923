//! Mixed load on one server for an hour, or `--for` as long as told: fails on any error, if memory grows, or if the disk holds
//! more than it may. A line every ten seconds.
//!
//! `cargo run --release --locked --bin soak -- --for 3m`

#![expect(clippy::print_stdout, reason = "the result goes to stdout")]

use std::{env, time::Duration};

use anyhow::{Context as _, bail};
use plimsoll_tests::{Profile, Programs, allow_open_files, endure::Soak};

const AGENTS: u64 = 100;
const PAUSE_MS: u64 = 100;
const LOOK: Duration = Duration::from_secs(5);
const HOUR: Duration = Duration::from_hours(1);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let time = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => HOUR,
        ["--for", text] => time(text)?,
        other => bail!("{other:?} is not known; the only option is --for 3m"),
    };
    allow_open_files()?;
    let seed = u64::from(std::process::id());
    println!("seed {seed}, {} s", time.as_secs());
    // a short soak has enough looks for its quarters, too
    let look_every = LOOK.min(time / 24);
    let soak = Soak { time, agents: AGENTS, pause_ms: PAUSE_MS, look_every, seed };
    let soaked = soak.run(&Programs::build(Profile::Release)?, |line| println!("  {line}")).await?;
    println!("{soaked}");
    Ok(())
}

/// A whole number of seconds, minutes or hours: `90s`, `3m`, `1h`.
fn time(text: &str) -> anyhow::Result<Duration> {
    let unknown = || format!("{text:?} is not a time; write it as 90s, 3m or 1h");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).with_context(unknown)?;
    let number: u64 = number.parse().with_context(unknown)?;
    match unit {
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_mins(number)),
        "h" => Ok(Duration::from_hours(number)),
        _ => bail!(unknown()),
    }
}
