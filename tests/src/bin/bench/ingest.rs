//! Samples acknowledged a second, against the same messages on a stream that keeps nothing. Streams send as the agent does: a few
//! batches ahead of their acknowledgements.

use std::{path::Path, time::Instant};

use plimsoll_proto::v1::{self as pb};
use plimsoll_tests::{
    Sender, Server,
    bare::BareServer,
    figures::{Usage, bytes_below, median},
    finish, hello, sample,
};
use tokio::task::JoinSet;

use crate::ROUNDS;

/// Few streams wait for the disk now and then; many share its syncs.
const STREAMS: [u64; 2] = [32, 256];
/// Batches of one round, over all streams.
const BATCHES: u64 = 3072;
/// Samples of one message.
pub(crate) const BATCH: u64 = 100;
/// Samples of one round.
const SAMPLES: u64 = BATCHES * BATCH;

pub(crate) async fn against_bare(server: &Server, bare: &BareServer, data: &Path) -> anyhow::Result<()> {
    for streams in STREAMS {
        let (mut kept, mut passed) = (Vec::new(), Vec::new());
        let before = Usage::of(server.pid())?.cpu_ms;
        for round in 0..ROUNDS {
            kept.push(stream(&server.url(), streams, round).await?);
            passed.push(stream(&bare.url, streams, round).await?);
        }
        let cpu_ms = Usage::of(server.pid())?.cpu_ms - before;
        let cpu_us = cpu_ms as f64 * 1000.0 / (SAMPLES * ROUNDS as u64) as f64;
        let (kept, passed) = (median(&mut kept), median(&mut passed));
        println!("samples acknowledged a second, {streams} streams, batches of {BATCH}:");
        println!("  {kept:.0}; a bare stream {passed:.0}; ratio {:.2}; goal 0.5", kept / passed);
        println!("  {cpu_us:.2} us of CPU a sample");
    }
    let all = SAMPLES * (ROUNDS * STREAMS.len()) as u64;
    println!("  disk: {:.1} bytes a sample of seven values, sealed", bytes_below(data)? as f64 / all as f64);
    println!("  wire: {} bytes a sample", wire_bytes() / BATCH as usize);
    Ok(())
}

/// Samples a second.
async fn stream(url: &str, count: u64, round: usize) -> anyhow::Result<f64> {
    let began = Instant::now();
    let mut streams = JoinSet::new();
    for n in 0..count {
        let (url, attempt) = (url.to_owned(), format!("bench-{count}-{round}-{n}"));
        streams.spawn(async move { send(&url, &attempt, BATCHES / count).await });
    }
    while let Some(ended) = streams.join_next().await {
        ended??;
    }
    Ok(SAMPLES as f64 / began.elapsed().as_secs_f64())
}

async fn send(url: &str, attempt: &str, batches: u64) -> Result<(), tonic::Status> {
    let mut stream = Sender::connect(url).await?;
    stream.exchange(hello(attempt, "bench")).await?;
    stream.deliver(attempt, batches, BATCH).await?;
    let last_sequence = batches * BATCH;
    stream.exchange(finish(attempt, last_sequence, Some(0))).await.map(drop)
}

fn wire_bytes() -> usize {
    let samples = (1..=BATCH).map(sample).collect();
    let attempt = "bench-0-1".to_owned();
    prost::Message::encoded_len(&pb::Batch { attempt, first_sequence: 1, lost: 0, samples })
}
