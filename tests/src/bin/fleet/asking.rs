//! Predict and the health check at a fixed rate, in turn, on a connection and a thread of their own: what ten thousand agents do to
//! their own process is not to be measured.

use std::{
    thread::{self, JoinHandle},
    time::Duration,
};

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient};
use plimsoll_tests::figures::Times;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval},
};
use tonic::transport::Endpoint;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// What [`ask`] gives, on a thread of its own.
pub(crate) fn start(
    url: String,
    rate: u64,
    stop: watch::Receiver<bool>,
) -> JoinHandle<anyhow::Result<(Times, Times)>> {
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(ask(url, rate, stop))
    })
}

/// Asks `rate` times a second until `stop`; gives the times of Predict and of the health check. A call that is late because
/// the one before it was slow counts from when it was due.
async fn ask(url: String, rate: u64, mut stop: watch::Receiver<bool>) -> anyhow::Result<(Times, Times)> {
    let channel = Endpoint::new(url)?.connect().await?;
    let (mut predictor, mut health) = (PredictorClient::new(channel.clone()), HealthClient::new(channel));
    let (mut predicted, mut checked) = (Times::default(), Times::default());
    let mut tick = interval(Duration::from_secs(1) / u32::try_from(rate.max(1))?);
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        let due = tokio::select! {
            due = tick.tick() => due,
            _ = stop.changed() => return Ok((predicted, checked)),
        };
        let key = Some(pb::Key { package: "fleet".into(), ..pb::Key::default() });
        predictor.predict(pb::PredictRequest { key, ..Default::default() }).await?;
        predicted.add(due.elapsed());
        let asked = Instant::now();
        health.check(HealthCheckRequest { service: String::new() }).await?;
        checked.add(asked.elapsed());
    }
}
