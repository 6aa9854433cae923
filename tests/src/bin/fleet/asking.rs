//! Predict, the health check of the same server and an empty call of a server that does nothing else, each at the same fixed
//! rate, timed from the moment at which each was due: what the machine itself makes of a call beside ten thousand agents is in
//! all three. On a thread of their own, because what the fleet does to its own process is not to be measured.

use std::{
    fmt,
    thread::{self, JoinHandle},
    time::Duration,
};

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient};
use plimsoll_tests::{figures::Times, pace};
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// Times of the three kinds of calls.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    predict: Times,
    health: Times,
    empty: Times,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Predict,
    Health,
    Empty,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  Predict: {}", self.predict)?;
        writeln!(f, "  health check of the same server: {}", self.health)?;
        write!(f, "  an empty call of another server: {}", self.empty)
    }
}

/// Asks `rate` times a second and kind until `stop`.
pub(crate) fn start(
    server: String,
    bare: String,
    rate: u32,
    stop: watch::Receiver<bool>,
) -> JoinHandle<anyhow::Result<Asked>> {
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(ask((server, bare), rate, stop))
    })
}

async fn ask(
    (server, bare): (String, String),
    rate: u32,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<Asked> {
    let server = Endpoint::new(server)?.connect().await?;
    let bare = Endpoint::new(bare)?.connect().await?;
    let (mut asked, mut calls) = (Asked::default(), JoinSet::new());
    let turns = [(Kind::Predict, &server), (Kind::Health, &server), (Kind::Empty, &bare)];
    let mut moments = pace::every(Duration::from_secs(1) / rate.max(1) / 3, Duration::MAX);
    for (kind, channel) in turns.into_iter().cycle() {
        let due = tokio::select! {
            Some(due) = moments.recv() => due,
            _ = stop.changed() => break,
        };
        calls.spawn(call(kind, channel.clone(), due));
        while let Some(ended) = calls.try_join_next() {
            asked.take(ended??);
        }
    }
    while let Some(ended) = calls.join_next().await {
        asked.take(ended??);
    }
    Ok(asked)
}

impl Asked {
    fn take(&mut self, (kind, time): (Kind, Duration)) {
        match kind {
            Kind::Predict => self.predict.add(time),
            Kind::Health => self.health.add(time),
            Kind::Empty => self.empty.add(time),
        }
    }
}

async fn call(kind: Kind, channel: Channel, due: Instant) -> Result<(Kind, Duration), Status> {
    match kind {
        Kind::Predict | Kind::Empty => {
            let key = Some(pb::Key { package: "fleet".into(), ..pb::Key::default() });
            PredictorClient::new(channel).predict(pb::PredictRequest { key, ..Default::default() }).await?;
        }
        Kind::Health => {
            let request = HealthCheckRequest { service: String::new() };
            HealthClient::new(channel).check(request).await?;
        }
    }
    Ok((kind, due.elapsed()))
}
