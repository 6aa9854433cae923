//! Agents that stream attempt after attempt, come back after a break, and remember what was acknowledged.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::ensure;
use plimsoll_proto::v1::{self as pb, server_message::Message as Answer, stats_client::StatsClient};
use tokio::{sync::watch, task::JoinSet};
use tonic::{Code, Status, transport::Channel};

use crate::{Sender, finish, hello, sample};

/// Samples of an attempt: enough for a sealed block of its first part while it still runs.
pub(super) const SAMPLES: u64 = 1200;
const BATCH: u64 = 20;
/// Batches that an agent sends again after a break, although they were acknowledged.
const REPEATED: u64 = 3;

/// What was acknowledged of each attempt; `None` for one that has ended.
pub(super) type Ledger = BTreeMap<String, Option<u64>>;

/// Where the server is at present; `None` while it is dead.
pub(super) type ServerAddress = watch::Receiver<Option<String>>;

/// What agents share.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) place: ServerAddress,
    pub(super) stop: watch::Receiver<bool>,
    /// Samples that were acknowledged so far, those that were sent again included.
    pub(super) acknowledged: Arc<AtomicU64>,
}

impl World {
    /// A world in which nothing was acknowledged yet.
    pub(super) fn new(place: ServerAddress, stop: watch::Receiver<bool>) -> Self {
        Self { place, stop, acknowledged: Arc::default() }
    }

    /// Samples that were acknowledged so far.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Relaxed)
    }
}

/// Starts agents that stream until told to stop; each returns its ledger.
pub(super) fn start(count: u64, round: u64, world: &World) -> JoinSet<anyhow::Result<Ledger>> {
    let mut agents = JoinSet::new();
    for agent in 0..count {
        agents.spawn(stream(format!("{round}-{agent}"), world.clone()));
    }
    agents
}

async fn stream(name: String, world: World) -> anyhow::Result<Ledger> {
    let World { mut place, mut stop, acknowledged: total } = world;
    let mut ledger = Ledger::new();
    for n in 0.. {
        let attempt = format!("{name}-{n}");
        let mut acknowledged = 0;
        loop {
            if *stop.borrow() {
                return Ok(ledger);
            }
            let url = tokio::select! {
                url = place.wait_for(Option::is_some) => url?.clone(),
                _ = stop.changed() => continue,
            };
            let Some(url) = url else { continue };
            // not cut off by `stop`: what a dead server said before its end is still to be heard
            match deliver(&url, &attempt, &mut acknowledged, &total).await {
                Ok(()) => break,
                Err(status) => {
                    let broken =
                        [Code::Unavailable, Code::Unknown, Code::Cancelled, Code::Aborted, Code::Internal];
                    ensure!(broken.contains(&status.code()), "{attempt} after {acknowledged}: {status}");
                    ledger.insert(attempt.clone(), Some(acknowledged));
                    // the server needs a moment to come back
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
        ledger.insert(attempt, None);
    }
    Ok(ledger)
}

/// Sends what the server does not have, and some of what it has, and ends the attempt.
async fn deliver(url: &str, attempt: &str, acknowledged: &mut u64, total: &AtomicU64) -> Result<(), Status> {
    let mut stream = Sender::connect(url).await?;
    // a stream that has ended says why when it is read
    let _ended = stream.send(hello(attempt, "zlib")).await;
    let Some(Answer::Welcome(welcome)) = stream.next().await? else {
        return Err(Status::aborted("no welcome"));
    };
    if welcome.sealed {
        // its end was on disk before the server could say so
        return Ok(());
    }
    let welcome = welcome.acknowledged;
    if welcome < *acknowledged {
        let lost = format!("{acknowledged} was acknowledged, {welcome} is there");
        return Err(Status::data_loss(lost));
    }
    let first = (welcome / BATCH).saturating_sub(REPEATED) * BATCH + 1;
    let mut before = first - 1;
    let on_acknowledged = |now_acknowledged: u64| {
        *acknowledged = now_acknowledged.max(*acknowledged);
        total.fetch_add(now_acknowledged.saturating_sub(before), Relaxed);
        before = now_acknowledged;
    };
    stream.deliver(attempt, (first, SAMPLES), BATCH, on_acknowledged).await?;
    stream.close(finish(attempt, SAMPLES, Some(0))).await
}

/// Waits for the end of agents that were asked to stop; gives what was acknowledged to all of them.
pub(super) async fn ended(mut agents: JoinSet<anyhow::Result<Ledger>>) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::new();
    while let Some(ended) = agents.join_next().await {
        ledger.extend(ended??);
    }
    Ok(ledger)
}

/// Delivers what is missing of the attempts in a ledger, undisturbed, and checks all of it as [`check`] does.
pub(super) async fn complete(url: &str, ledger: &mut Ledger) -> anyhow::Result<u64> {
    for (attempt, acknowledged) in &mut *ledger {
        if let Some(mut acknowledged) = acknowledged.take() {
            deliver(url, attempt, &mut acknowledged, &AtomicU64::default()).await?;
        }
    }
    check(url, ledger).await
}

/// Checks that the server holds what the ledger says, each sample once; gives the number of samples checked.
///
/// An attempt that has ended must have the summary of one that nothing disturbed.
pub(super) async fn check(url: &str, ledger: &Ledger) -> anyhow::Result<u64> {
    let mut client = StatsClient::connect(url.to_owned()).await?;
    deliver(url, UNDISTURBED, &mut 0, &AtomicU64::default()).await?;
    let undisturbed = shown(&mut client, UNDISTURBED).await?.summary.map(comparable);
    let last = sample(SAMPLES);
    let whole = undisturbed.as_ref().is_some_and(|found| {
        found.samples == SAMPLES
            && found.samples_lost == 0
            && found.wall_ms == (SAMPLES + 1) * 1000
            && found.need_peak_bytes == Some(last.need_bytes)
            && found.cpu_usec == Some(last.cpu_usec)
            && found.outcome() == pb::Outcome::Succeeded
    });
    ensure!(whole, "the summary does not follow from what was sent: {undisturbed:?}");
    let mut samples = 0;
    for (attempt, acknowledged) in ledger {
        if *acknowledged == Some(0) {
            continue;
        }
        let got = shown(&mut client, attempt).await?;
        let count = got.series.len() as u64;
        let expected: Vec<_> = (1..=count).map(sample).collect();
        ensure!(got.series == expected, "{attempt}: the series is not what was sent");
        let least = acknowledged.unwrap_or(SAMPLES);
        ensure!(count >= least, "{attempt}: {least} was acknowledged, {count} is there");
        if acknowledged.is_none() {
            let found = got.summary.map(comparable);
            ensure!(found == undisturbed, "{attempt}: not as undisturbed: {found:?}");
        }
        samples += count;
    }
    Ok(samples)
}

/// The attempt that all others are compared with.
const UNDISTURBED: &str = "undisturbed";

async fn shown(client: &mut StatsClient<Channel>, attempt: &str) -> Result<pb::GetAttemptResponse, Status> {
    let max_samples = u32::try_from(SAMPLES + 1).unwrap_or(u32::MAX);
    let request = pb::GetAttemptRequest { attempt: attempt.to_owned(), with_series: true, max_samples };
    Ok(client.get_attempt(request).await?.into_inner())
}

/// A summary without what differs between two runs of the same: its name, when it was, and what was expected of it then.
fn comparable(summary: pb::Summary) -> pb::Summary {
    pb::Summary { attempt: String::new(), started_unix_ms: 0, predicted: None, ..summary }
}
