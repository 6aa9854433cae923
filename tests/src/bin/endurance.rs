//! Endurance of whole programs. A number that is left out has its usual value; the seed is printed.
//!
//! | words | what runs |
//! |---|---|
//! | `kills [KILLS] [SEED]` | kills a server at random moments while agents stream: every sample is there once |
//! | `kills KILLS SEED SERVERS [FREEZES]` | the same with several servers over one PostgreSQL, which take over from each other; then freezes the one that serves for 30 s: it commits nothing more |
//! | `database-crashes [CRASHES] [SEED]` | crashes the database of a server while agents stream, and promotes its standby: every sample is there once; needs PostgreSQL |
//! | `upstream-kills [KILLS] [SEED] [shared]` | kills a server and its Resalloc server: each ticket upstream is in use or closed; needs `python3` |
//! | `power-cuts [CUTS] [SEED]` | cuts the power of the disk at random moments: nothing acknowledged is missing; needs root and loop devices |
//! | `soak [MINUTES] [SEED]` | mixed load: no error, memory does not grow, the disk stays within its bounds |
//! | `too-much [SAMPLES] [ATTEMPTS]` | one attempt with very many samples and very many attempts without any, over a kill |
//!
//! `cargo run --release --locked --bin endurance -- soak 3`

#![expect(clippy::print_stdout, reason = "the result goes to stdout")]

use std::{env, time::Duration};

use anyhow::bail;
use plimsoll_tests::{
    Profile, Programs, allow_open_files,
    endure::{DatabaseCrashes, Dice, Disk, Kills, Much, Soak, Takeovers, UpstreamKills, power_cuts},
};

/// Samples of all agents together: twenty attempts, so that there is something to append to, to compact and to seal at every kill.
const KILLS_WORK: u64 = 24_000;
/// Interval between the looks at a server under mixed load.
const SOAK_LOOK: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize, usual: u64| words.get(at).map_or(Ok(usual), |word| word.parse());
    let seed = number(2, u64::from(std::process::id()))?;
    allow_open_files()?;
    let programs = Programs::build(if cfg!(debug_assertions) { Profile::Dev } else { Profile::Release })?;
    println!("seed {seed}");
    match words.first().map(String::as_str) {
        Some("kills") if words.len() > 3 => {
            let (kills, servers) = (number(1, 60)?, usize::try_from(number(3, 3)?)?);
            let (freezes, frozen_for) = (number(4, 30)?, Duration::from_secs(30));
            let (agents, work) = (100, KILLS_WORK);
            let takeovers = Takeovers { servers, kills, freezes, frozen_for, agents, work, seed };
            let Some(found) = takeovers.run(&programs).await? else { bail!("there is no PostgreSQL") };
            println!("{found}");
        }
        Some("kills") => {
            let kills = Kills { rounds: number(1, 200)?, agents: 50, work: KILLS_WORK, seed };
            println!("{}", kills.run(&programs).await?);
        }
        Some("database-crashes") => {
            let crashes = DatabaseCrashes { rounds: number(1, 15)?, agents: 50, work: KILLS_WORK, seed };
            let Some(killed) = crashes.run(&programs).await? else { bail!("PostgreSQL is not installed") };
            println!("{killed}");
        }
        Some("upstream-kills") => {
            let (rounds, shared) = (number(1, 200)?, words.get(3).is_some_and(|word| word == "shared"));
            let kills = UpstreamKills { rounds, seed, shared };
            println!("{}", tokio::task::block_in_place(|| kills.run(&programs))?);
        }
        Some("power-cuts") => {
            let (rounds, dir) = (number(1, 6)?, tempfile::tempdir()?);
            let disk = match Disk::new(dir.path()) {
                Ok(disk) => disk,
                Err(reason) => bail!("there is no disk to cut: {reason:#}"),
            };
            let checked = power_cuts(&programs, dir.path(), disk, (rounds, 32), &mut Dice::new(seed)).await?;
            println!("{rounds} cuts, {checked} samples checked, nothing acknowledged is missing");
        }
        Some("soak") => {
            let time = Duration::from_mins(number(1, 60)?);
            // a short soak has enough looks for its quarters, too
            let soak = Soak { time, agents: 100, pause_ms: 100, look_every: SOAK_LOOK.min(time / 24), seed };
            println!("{}", soak.run(&programs, |line| println!("  {line}")).await?);
        }
        Some("too-much") => {
            let much = Much { samples: number(1, 10_000_000)?, idle: number(2, 100_000)? };
            println!("{}", much.run(&programs).await?);
        }
        _ => bail!("say what to run: kills, database-crashes, upstream-kills, power-cuts, soak or too-much"),
    }
    Ok(())
}
