//! Predict at a fixed rate, timed from the moment at which each call was due: a server that stands still for a moment is late
//! for all calls of that moment. Alone, and while samples arrive at half the rate that the server can take.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use plimsoll_tests::{
    Sender, Server,
    bare::BareServer,
    batch,
    figures::{Times, Usage},
    hello, pace,
};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, interval, sleep},
};
use tonic::Status;

use crate::{asking::question, ingest::BATCH, light::Light};

/// Calls a second.
const RATE: u32 = 20_000;
/// Steps in which they are sent: what is sent at once is answered one after the other.
const STEP: Duration = Duration::from_micros(250);
const TIME: Duration = Duration::from_secs(10);
/// Calls that wait for their answer at once; a call that finds no place counts as not sent.
const IN_FLIGHT: usize = 4096;
const STREAMS: u64 = 16;
/// To find the limit of the intake.
const PROBE: Duration = Duration::from_secs(5);

pub(crate) async fn at_a_fixed_rate(server: &Server, bare: &BareServer) -> anyhow::Result<()> {
    let ours = Light::connect(&server.url()).await?;
    let empty = Light::connect(&bare.url).await?;
    println!("at {RATE} calls a second, from when each was due; goal p99 < 2 ms:");
    println!("  an empty call: {}", send(&empty, bare.pid()).await?);
    println!("  Predict: {}", send(&ours, server.pid()).await?);
    let url = server.url();
    let limit = load(&url, None, PROBE).await?;
    let half = limit / 2.0 / BATCH as f64;
    let loaded = async {
        sleep(Duration::from_secs(1)).await;
        send(&ours, server.pid()).await
    };
    let loading = load(&url, Some(half), TIME + Duration::from_secs(2));
    let (taken, answered) = tokio::try_join!(loading, loaded)?;
    println!("  Predict while {taken:.0} samples a second arrive (the limit alone: {limit:.0}): {answered}");
    Ok(())
}

/// A second's calls in steps, each a task; gives their times, how many could not be sent, and the CPU time of the process that answers.
async fn send(caller: &Light, answering: u32) -> anyhow::Result<Sent> {
    let cpu_ms = Usage::of(answering)?.cpu_ms;
    let places = Arc::new(Semaphore::new(IN_FLIGHT));
    let (mut calls, mut sent) = (JoinSet::new(), Sent::default());
    let (mut steps, mut n) = (pace::every(STEP, TIME), 0);
    let each = u64::from(RATE) * u64::try_from(STEP.as_micros())? / 1_000_000;
    while let Some(due) = steps.recv().await {
        n += 1;
        for call in 0..each {
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                sent.refused += 1;
                continue;
            };
            let caller = caller.clone();
            calls.spawn(async move {
                caller.call(&question(n * each + call)).await?;
                drop(place);
                anyhow::Ok(due.elapsed())
            });
        }
        while let Some(ended) = calls.try_join_next() {
            sent.times.add(ended??);
        }
    }
    while let Some(ended) = calls.join_next().await {
        sent.times.add(ended??);
    }
    sent.cpu_ms = Usage::of(answering)?.cpu_ms - cpu_ms;
    Ok(sent)
}

/// Calls that were sent, and those that were not.
#[derive(Debug, Default)]
struct Sent {
    times: Times,
    refused: u64,
    /// CPU time of the process that answered, milliseconds.
    cpu_ms: u64,
}

impl std::fmt::Display for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cpu_us = self.cpu_ms as f64 * 1000.0 / self.times.count().max(1) as f64;
        write!(f, "{}; {cpu_us:.1} us of CPU each; {} found no place", self.times, self.refused)
    }
}

/// Streams batches for a while, at most so many a second in all; gives samples acknowledged a second.
async fn load(url: &str, batches: Option<f64>, time: Duration) -> anyhow::Result<f64> {
    let (stop, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut streams = JoinSet::new();
    let began = Instant::now();
    for n in 0..STREAMS {
        let attempt = format!("rate-{}-{n}", if batches.is_some() { "half" } else { "full" });
        let pause = batches.map(|batches| Duration::from_secs_f64(STREAMS as f64 / batches.max(1.0)));
        streams.spawn(stream(url.to_owned(), attempt, pause, (Arc::clone(&stop), Arc::clone(&taken))));
    }
    sleep(time).await;
    stop.store(true, Relaxed);
    let rate = taken.load(Relaxed) as f64 / began.elapsed().as_secs_f64();
    while let Some(ended) = streams.join_next().await {
        ended??;
    }
    Ok(rate)
}

async fn stream(
    url: String,
    attempt: String,
    pause: Option<Duration>,
    (stop, taken): (Arc<AtomicBool>, Arc<AtomicU64>),
) -> Result<(), Status> {
    let mut stream = Sender::connect(&url).await?;
    stream.exchange(hello(&attempt, "bench")).await?;
    let (mut sent, mut tick) = (0, pause.map(interval));
    while !stop.load(Relaxed) {
        if let Some(tick) = &mut tick {
            tick.tick().await;
        }
        sent = stream.exchange(batch(&attempt, sent + 1, BATCH)).await?;
        taken.fetch_add(BATCH, Relaxed);
    }
    Ok(())
}
