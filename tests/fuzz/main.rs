//! Gives a parser of foreign bytes many inputs that are nearly right, and keeps the one that breaks it.
//!
//! ```text
//! cargo run --release --bin fuzz -- TARGET|all [--runs N] [--seed N]
//! ```
//!
//! A parser that breaks leaves `broken-SEED` in its corpus, where the tests find it until it is mended. The same seed gives the
//! same inputs.

#![expect(clippy::print_stdout, reason = "it is what the program is for")]

mod mutate;
mod targets;

use std::{
    fs,
    panic::catch_unwind,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use mutate::{Chance, corpus, folder};
use plimsoll_server::fuzz::Target;
use targets::targets;

/// Inputs, unless a number is given.
const RUNS: u64 = 100_000;

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    let (mut runs, mut seed) = (RUNS, 1);
    while let Some(option) = words.next() {
        let number = words.next().with_context(|| format!("{option} needs a number"))?;
        match option.as_str() {
            "--runs" => runs = number.parse().context("--runs")?,
            "--seed" => seed = number.parse().context("--seed")?,
            _ => bail!("{option} is not known: --runs N, --seed N"),
        }
    }
    let chosen: Vec<Target> = targets().filter(|target| name == "all" || target.name == name).collect();
    if chosen.is_empty() {
        let names: Vec<_> = targets().map(|target| target.name).collect();
        bail!("name a parser: all, {}", names.join(", "));
    }
    for target in chosen {
        fuzz(target, runs, seed)?;
    }
    Ok(())
}

fn fuzz(target: Target, runs: u64, seed: u64) -> anyhow::Result<()> {
    let corpus = corpus(target.name)?;
    let (mut chance, begun, mut longest) = (Chance::new(seed), Instant::now(), Duration::ZERO);
    for _ in 0..runs {
        let input = chance.input(&corpus);
        let before = Instant::now();
        let broke = catch_unwind(|| (target.run)(&input)).is_err();
        longest = longest.max(before.elapsed());
        if broke {
            let path = folder(target.name).join(format!("broken-{seed}"));
            fs::write(&path, &input)?;
            bail!("{} broke; the input is {}", target.name, path.display());
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{:14} {runs} inputs, {seconds:.1} s, {:.0} inputs/s, the longest took {:.1} ms",
        target.name,
        f64::from(u32::try_from(runs).unwrap_or(u32::MAX)) / seconds.max(1e-9),
        longest.as_secs_f64() * 1e3
    );
    Ok(())
}
