//! Too much of something: an attempt with more samples than memory holds, and attempts by the ten thousand that are opened and never
//! fed. The server dies with all of them, comes back, takes them up, and serves all other callers meanwhile.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use plimsoll_proto::v1::{self as pb, stats_client::StatsClient};
use tokio::{task::JoinSet, time::Instant};
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

use crate::{
    Programs, QUIET, Sender, Server,
    figures::{Usage, bytes_below, metric},
    finish, hello, key,
};

/// Samples of one message.
const BATCH: u64 = 1000;
/// Attempts of one stream, and streams at once.
const PER_STREAM: u64 = 50;
const STREAMS: usize = 64;
/// Rows of the long series that are asked for.
const ROWS: u32 = 1500;
const LONG: &str = "long";

/// How much.
#[derive(Debug, Clone, Copy)]
pub struct Much {
    /// Samples of one attempt.
    pub samples: u64,
    /// Attempts that are opened and never fed.
    pub idle: u64,
}

/// What it took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    opened: Duration,
    sent: Duration,
    started: Duration,
    shown: Duration,
    sealed: Duration,
    rows: usize,
    disk: u64,
    /// Resident before the death and at the end, KiB.
    resident_kib: [u64; 2],
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { opened, sent, started, shown, sealed, rows, disk, resident_kib: [before, after] } = self;
        write!(
            f,
            "opened in {opened:.1?}, sent in {sent:.1?}, ready again in {started:.1?}, {rows} rows shown in {shown:.2?}, \
             ended in {sealed:.2?}; {} MiB on disk, {} MiB resident before the restart and {} MiB after it",
            disk >> 20,
            before >> 10,
            after >> 10,
        )
    }
}

impl Much {
    /// Does it below a fresh directory, and says what it took.
    pub async fn run(&self, programs: &Programs) -> anyhow::Result<Cost> {
        let dir = tempfile::tempdir()?;
        let most = (self.idle + 10).to_string();
        let options = ["--open-attempts", &most, "--log", QUIET];
        let (server, mut cost) = (Server::start_with(programs, dir.path(), &options)?, Cost::default());
        (cost.opened, ()) = timed(self.open(server.url())).await?;
        (cost.sent, ()) = timed(self.send(&server.url())).await?;
        server.predict(key("zlib")).await?;
        cost.resident_kib = [Usage::of(server.pid())?.resident_kib, 0];
        server.kill()?;

        let began = Instant::now();
        let server = Server::start_with(programs, dir.path(), &options)?;
        server.wait_until_ready().await;
        cost.started = began.elapsed();
        cost.disk = bytes_below(dir.path())?;
        let metrics = tokio::task::block_in_place(|| server.get("/metrics"))?.1;
        let open = metric(&metrics, "plimsoll_ingest_open_attempts").context("no metric of open attempts")?;
        #[expect(clippy::cast_precision_loss, reason = "a count")]
        let expected = (self.idle + 1) as f64;
        ensure!((open - expected).abs() < 0.5, "{open} of {expected} attempts were taken up");
        (cost.shown, cost.rows) = timed(self.show(&server)).await?;
        (cost.sealed, ()) = timed(self.end(&server.url())).await?;
        server.predict(key("zlib")).await?;
        cost.resident_kib[1] = Usage::of(server.pid())?.resident_kib;
        ensure!(server.stop()?.success(), "the server does not stop");
        Ok(cost)
    }

    /// Opens the attempts that get nothing.
    async fn open(&self, url: String) -> anyhow::Result<()> {
        let (next, idle) = (Arc::new(AtomicU64::new(0)), self.idle);
        let channel = Endpoint::new(url)?.connect().await?;
        let mut streams = JoinSet::new();
        for _stream in 0..STREAMS {
            streams.spawn(open_idle(channel.clone(), Arc::clone(&next), idle));
        }
        while let Some(ended) = streams.join_next().await {
            ended??;
        }
        Ok(())
    }

    /// Sends the long attempt.
    async fn send(&self, url: &str) -> anyhow::Result<()> {
        let mut stream = Sender::connect(url).await?;
        stream.exchange(hello(LONG, "zlib")).await?;
        stream.deliver(LONG, (1, self.samples), BATCH, |_acknowledged| {}).await?;
        Ok(())
    }

    /// Asks for the long series; gives its rows.
    async fn show(&self, server: &Server) -> anyhow::Result<usize> {
        let mut client = StatsClient::connect(server.url()).await?;
        let ask = pb::GetAttemptRequest { attempt: LONG.into(), with_series: true, max_samples: ROWS };
        let got = client.get_attempt(ask).await?.into_inner();
        ensure!(got.samples_total == self.samples, "{} of {} samples", got.samples_total, self.samples);
        ensure!(got.series.len() <= ROWS as usize, "{} rows", got.series.len());
        Ok(got.series.len())
    }

    /// Goes on with the long attempt where it was, and ends it.
    async fn end(&self, url: &str) -> anyhow::Result<()> {
        let mut stream = Sender::connect(url).await?;
        let known = stream.exchange(hello(LONG, "zlib")).await?;
        ensure!(known == self.samples, "{known} of {} samples are known", self.samples);
        stream.close(finish(LONG, self.samples, Some(0))).await?;
        Ok(())
    }
}

/// Opens attempts that get nothing, a stream of them at a time, until there are `idle`.
async fn open_idle(channel: Channel, next: Arc<AtomicU64>, idle: u64) -> Result<(), Status> {
    loop {
        let first = next.fetch_add(PER_STREAM, Relaxed);
        if first >= idle {
            return Ok(());
        }
        let mut stream = Sender::open(channel.clone()).await?;
        for n in first..idle.min(first + PER_STREAM) {
            stream.exchange(hello(&format!("idle-{n}"), "zlib")).await?;
        }
    }
}

async fn timed<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<(Duration, T)> {
    let began = Instant::now();
    let done = work.await?;
    Ok((began.elapsed(), done))
}
