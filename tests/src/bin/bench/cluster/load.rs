//! Samples acknowledged a second, and how long commits take.

use std::time::Instant;

use plimsoll_tests::{
    Sender, Server, batch,
    figures::{Times, median},
};

use crate::{
    ROUNDS,
    ingest::{BATCH, stream},
};

/// Streams, samples of one message, and messages of a stream in one round.
const LOADS: [(u64, u64, u64); 2] = [(256, 1, 200), (256, BATCH, 12)];
/// Batches of one agent alone.
const BATCHES: usize = 500;
/// Histogram of the server's commits.
const COMMITS: &str = "plimsoll_store_commit_seconds_bucket{le=\"";

/// One measurement.
#[derive(Debug)]
pub(super) struct Phase {
    name: &'static str,
    /// Attempts of different phases have different names by it.
    first_round: usize,
    /// Goals: samples a second, for each of [`LOADS`].
    samples: [u32; 2],
    /// Goals: median and p99 of a commit, milliseconds.
    commit_ms: [u32; 2],
}

pub(super) const ALONE: Phase =
    Phase { name: "without a standby", first_round: 0, samples: [20_000, 150_000], commit_ms: [5, 40] };
pub(super) const WITH_STANDBY: Phase = Phase {
    name: "with one synchronous standby",
    first_round: 100,
    samples: [12_000, 80_000],
    commit_ms: [10, 80],
};

pub(super) async fn acknowledged(server: &Server, phase: Phase) -> anyhow::Result<()> {
    let mut rates = [Vec::new(), Vec::new()];
    let before = commit_buckets(server)?;
    for round in phase.first_round..phase.first_round + ROUNDS {
        for (load, rates) in LOADS.into_iter().zip(&mut rates) {
            rates.push(stream(&server.url(), load, round).await?);
        }
    }
    let after = commit_buckets(server)?;
    println!("{}:", phase.name);
    for (((_, size, _), rates), goal) in LOADS.iter().zip(&mut rates).zip(phase.samples) {
        println!("  samples acknowledged a second, {size} a batch: {:.0}; goal {goal}", median(rates));
    }
    let [p50, p99] = [50, 99].map(|percent| quantile_ms(&before, &after, percent));
    println!(
        "  commits under that load: p50 at most {p50} ms, p99 at most {p99} ms; goal {:?}",
        phase.commit_ms
    );
    let times = one_agent(server, &format!("one-{}", phase.first_round)).await?;
    println!("  a batch of {BATCH} samples of one agent, until it is acknowledged: {times}");
    Ok(())
}

async fn one_agent(server: &Server, attempt: &str) -> anyhow::Result<Times> {
    let (mut agent, mut times) = (Sender::opened(&server.url(), attempt, "bench").await?, Times::default());
    let mut sent = 0;
    for _batch in 0..BATCHES {
        let message = batch(attempt, sent + 1, BATCH);
        let began = Instant::now();
        sent = agent.exchange(message).await?;
        times.add(began.elapsed());
    }
    Ok(times)
}

/// Upper bounds in seconds, each with the number of commits up to it.
fn commit_buckets(server: &Server) -> anyhow::Result<Vec<(f64, f64)>> {
    let (_, text) = server.get("/metrics")?;
    let bucket = |line: &str| {
        let (bound, count) = line.strip_prefix(COMMITS)?.split_once("\"} ")?;
        Some((bound.parse().unwrap_or(f64::INFINITY), count.parse().ok()?))
    };
    Ok(text.lines().filter_map(bucket).collect())
}

/// The bound that `percent` of 100 commits between two looks stay below, milliseconds.
fn quantile_ms(before: &[(f64, f64)], after: &[(f64, f64)], percent: u32) -> f64 {
    let counts = || before.iter().zip(after).map(|((bound, before), (_, after))| (bound, after - before));
    let all = counts().next_back().map_or(0.0, |(_, all)| all);
    let found = counts().find(|(_, count)| *count >= all * f64::from(percent) / 100.0);
    found.map_or(f64::NAN, |(bound, _)| bound * 1000.0)
}
