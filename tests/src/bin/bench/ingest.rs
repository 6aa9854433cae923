//! Samples acknowledged a second, against the same messages on a stream that keeps nothing. Streams send as the agent does: a few
//! batches ahead of their acknowledgements.

use std::{path::Path, time::Instant};

use plimsoll_proto::{
    limits,
    v1::{self as pb},
};
use plimsoll_tests::{
    Sender, Server,
    bare::BareServer,
    figures::{Usage, bytes_below, median},
    finish, hello, sample,
};
use tokio::task::JoinSet;

use crate::ROUNDS;

/// Streams, and samples of one message. Few streams wait for the disk now and then; many share its syncs. What agents spool while
/// their server is away comes in messages of 1,000.
const LOADS: [(u64, u64); 3] = [(32, BATCH), (256, BATCH), (32, limits::BATCH_SAMPLES as u64)];
/// Samples of one message elsewhere.
pub(crate) const BATCH: u64 = 100;
/// Samples of one round, about: as many as make whole messages.
const SAMPLES: u64 = 3072 * BATCH;

pub(crate) async fn against_bare(server: &Server, bare: &BareServer, data: &Path) -> anyhow::Result<()> {
    let mut all = 0;
    for (streams, size) in LOADS {
        let batches = SAMPLES / size / streams;
        let samples = batches * size * streams;
        let (mut kept, mut passed) = (Vec::new(), Vec::new());
        let before = Usage::of(server.pid())?.cpu_ms;
        for round in 0..ROUNDS {
            kept.push(stream(&server.url(), (streams, size, batches), round).await?);
            passed.push(stream(&bare.url, (streams, size, batches), round).await?);
        }
        let cpu_ms = Usage::of(server.pid())?.cpu_ms - before;
        let cpu_us = cpu_ms as f64 * 1000.0 / (samples * ROUNDS as u64) as f64;
        all += samples * ROUNDS as u64;
        let (kept, passed) = (median(&mut kept), median(&mut passed));
        println!("samples acknowledged a second, {streams} streams, batches of {size}:");
        println!("  {kept:.0}; a bare stream {passed:.0}; ratio {:.2}; goal 0.5", kept / passed);
        println!("  {cpu_us:.2} us of CPU a sample");
    }
    println!("  disk: {:.1} bytes a sample of seven values, sealed", bytes_below(data)? as f64 / all as f64);
    println!("  wire: {} bytes a sample", wire_bytes() / BATCH as usize);
    Ok(())
}

/// Samples a second.
pub(crate) async fn stream(
    url: &str,
    (count, size, batches): (u64, u64, u64),
    round: usize,
) -> anyhow::Result<f64> {
    let began = Instant::now();
    let mut streams = JoinSet::new();
    for n in 0..count {
        let (url, attempt) = (url.to_owned(), format!("bench-{count}-{size}-{round}-{n}"));
        streams.spawn(async move { send(&url, &attempt, batches, size).await });
    }
    while let Some(ended) = streams.join_next().await {
        ended??;
    }
    Ok((count * size * batches) as f64 / began.elapsed().as_secs_f64())
}

async fn send(url: &str, attempt: &str, batches: u64, size: u64) -> Result<(), tonic::Status> {
    let mut stream = Sender::connect(url).await?;
    stream.exchange(hello(attempt, "bench")).await?;
    let last_sequence = batches * size;
    stream.deliver(attempt, (1, last_sequence), size, |_| {}).await?;
    stream.exchange(finish(attempt, last_sequence, Some(0))).await.map(drop)
}

fn wire_bytes() -> usize {
    let samples = (1..=BATCH).map(sample).collect();
    let attempt = "bench-0-1".to_owned();
    prost::Message::encoded_len(&pb::Batch { attempt, first_sequence: 1, lost: 0, samples })
}
