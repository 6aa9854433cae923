//! Predict and the health check at a fixed rate, in turn, on a connection of their own.

use std::time::Duration;

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient};
use plimsoll_tests::figures::Times;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval},
};
use tonic::transport::Endpoint;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// Asks `rate` times a second until `stop`; gives the times of Predict and of the health check. A call that is late because
/// the one before it was slow counts from when it was due.
pub(crate) async fn ask(
    url: &str,
    rate: u64,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<(Times, Times)> {
    let channel = Endpoint::new(url.to_owned())?.connect().await?;
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
        predictor.predict(pb::PredictRequest { key }).await?;
        predicted.add(due.elapsed());
        let asked = Instant::now();
        health.check(HealthCheckRequest { service: String::new() }).await?;
        checked.add(asked.elapsed());
    }
}
