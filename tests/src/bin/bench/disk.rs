//! From a batch that is sent to its acknowledgement, against one sync of the same file system.

use std::{fs::File, io::Write as _, path::Path, time::Instant};

use plimsoll_tests::{Sender, Server, batch, figures::Times, hello};

use crate::ingest::BATCH;

const ROUNDS: usize = 20;
/// Batches, and syncs, of one round.
const TIMES: u64 = 20;
/// What one sync covers: about a batch with its key.
const PIECE: [u8; 4096] = [7; 4096];

pub(crate) async fn against_sync(server: &Server, dir: &Path) -> anyhow::Result<()> {
    let mut stream = Sender::connect(&server.url()).await?;
    stream.exchange(hello("bench-disk", "bench")).await?;
    let mut file = File::create(dir.join("synced"))?;
    let (mut batches, mut syncs, mut sent) = (Times::default(), Times::default(), 0);
    for _round in 0..ROUNDS {
        for _time in 0..TIMES {
            let message = batch("bench-disk", sent + 1, BATCH);
            let began = Instant::now();
            sent = stream.exchange(message).await?;
            batches.add(began.elapsed());
        }
        for _time in 0..TIMES {
            let began = Instant::now();
            file.write_all(&PIECE)?;
            file.sync_data()?;
            syncs.add(began.elapsed());
        }
    }
    println!("one batch of {BATCH} samples, from sending to acknowledgement: {batches}");
    println!("  one write of 4 KiB and fdatasync on the same file system: {syncs}");
    let ratio = |percent| batches.quantile_ms(percent) / syncs.quantile_ms(percent).max(f64::EPSILON);
    println!("  ratio p50 {:.2}, p99 {:.2}", ratio(50), ratio(99));
    Ok(())
}
