//! The fleet: each agent opens an attempt, sends what its second brought, waits for the acknowledgement, and after a minute
//! ends the attempt and begins another one.

use std::time::Duration;

use plimsoll_tests::{Sender, batch, figures::Times, finish, hello};
use tokio::{
    task::JoinSet,
    time::{Instant, interval_at},
};
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

/// Samples after which an attempt ends.
const SAMPLES: u64 = 60;
/// Most samples of one message.
const BATCH: u64 = 100;
/// Connections that are opened at once.
const AT_ONCE: usize = 64;
const SECOND: Duration = Duration::from_secs(1);

/// So many agents, on so many connections, for so long.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) agents: u64,
    pub(crate) connections: u64,
    pub(crate) time: Duration,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Run {
    /// Samples.
    pub(crate) acknowledged: u64,
    /// Streams.
    pub(crate) broken: u64,
    /// From sending to acknowledgement.
    pub(crate) times: Times,
    /// All of it: more than the time that was asked for, if the server did not keep up.
    pub(crate) took: Duration,
}

impl Fleet {
    /// Streams, until everything that was sent by the end of the time is acknowledged.
    pub(crate) async fn run(&self, url: &str) -> anyhow::Result<Run> {
        let connections = connect(url, self.connections.clamp(1, self.agents.max(1))).await?;
        let mut agents = JoinSet::new();
        let begin = Instant::now();
        let channels: Vec<Channel> = connections.iter().map(|(channel, _stream)| channel.clone()).collect();
        let mut streams = connections.into_iter().map(|(_channel, stream)| stream);
        for (agent, channel) in (0..self.agents).zip(channels.iter().cycle()) {
            // their seconds begin at different moments
            let first = begin + SECOND.mul_f64(fraction(agent, self.agents));
            agents.spawn(stream((channel.clone(), streams.next()), agent, first, begin + self.time));
        }
        let (mut acknowledged, mut broken, mut times) = (0, 0, Times::default());
        while let Some(ended) = agents.join_next().await {
            let one = ended?;
            acknowledged += one.acknowledged;
            broken += u64::from(one.broken.is_some());
            if let Some(status) = one.broken.filter(|_| broken == 1) {
                println!("  the first stream that broke: {status}");
            }
            times.join(one.times);
        }
        Ok(Run { acknowledged, broken, times, took: begin.elapsed() })
    }
}

/// Opens so many connections, a bounded number of them at once: the backlog of a listener is bounded, too. Each has a stream, as an
/// agent opens one at once: thousands of connections of one address without a call are refused.
async fn connect(url: &str, count: u64) -> anyhow::Result<Vec<(Channel, Sender)>> {
    let (mut opening, mut connections) = (JoinSet::new(), Vec::new());
    for _ in 0..count {
        let endpoint = Endpoint::new(url.to_owned())?;
        opening.spawn(async move {
            let channel = endpoint.connect().await?;
            let stream = Sender::open(channel.clone()).await?;
            anyhow::Ok((channel, stream))
        });
        if opening.len() >= AT_ONCE
            && let Some(opened) = opening.join_next().await
        {
            connections.push(opened??);
        }
    }
    while let Some(opened) = opening.join_next().await {
        connections.push(opened??);
    }
    Ok(connections)
}

fn fraction(part: u64, whole: u64) -> f64 {
    let of = |number: u64| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    of(part) / of(whole).max(1.0)
}

/// What one agent has seen.
#[derive(Debug, Default)]
struct Seen {
    acknowledged: u64,
    times: Times,
    broken: Option<Status>,
}

async fn stream(to: (Channel, Option<Sender>), agent: u64, first: Instant, end: Instant) -> Seen {
    let mut seen = Seen::default();
    if let Err(status) = attempts(to, agent, (first, end), &mut seen).await {
        seen.broken = Some(status);
    }
    seen
}

async fn attempts(
    (connection, mut stream): (Channel, Option<Sender>),
    agent: u64,
    (first, end): (Instant, Instant),
    seen: &mut Seen,
) -> Result<(), Status> {
    let mut tick = interval_at(first, SECOND);
    for n in 0_u64.. {
        let attempt = format!("fleet-{agent}-{n}");
        let began = tick.tick().await;
        let stream = match &mut stream {
            Some(stream) => stream,
            none => none.insert(Sender::open(connection.clone()).await?),
        };
        stream.exchange(hello(&attempt, "fleet")).await?;
        let mut sent = 0;
        while sent < SAMPLES {
            let now = tick.tick().await;
            if now >= end {
                return Ok(());
            }
            // as an agent does: what gathered while it waited goes in one message
            let due = (now - began).as_secs().clamp(sent + 1, (sent + BATCH).min(SAMPLES));
            let message = batch(&attempt, sent + 1, due - sent);
            let asked = Instant::now();
            stream.exchange(message).await?;
            seen.times.add(asked.elapsed());
            seen.acknowledged += due - sent;
            sent = due;
        }
        stream.exchange(finish(&attempt, SAMPLES, Some(0))).await?;
    }
    Ok(())
}
