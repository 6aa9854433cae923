//! Predict as fast as it goes, against an empty call of a server that does nothing else, and the health check of the same one.

use std::time::Instant;

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient};
use plimsoll_tests::{
    Server,
    bare::BareServer,
    figures::{Times, median},
};
use tokio::task::JoinSet;
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::ROUNDS;

const CALLS: usize = 20_000;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Predict,
    Health,
}

pub(crate) async fn against_empty(server: &Server, bare: &BareServer) -> anyhow::Result<()> {
    let ours = Endpoint::new(server.url())?.connect().await?;
    let empty = Endpoint::new(bare.url.clone())?.connect().await?;
    for in_flight in [1, 64] {
        let calls = [
            ("Predict", &ours, Call::Predict),
            ("health check", &ours, Call::Health),
            ("empty call", &empty, Call::Predict),
        ];
        let mut rates = [Vec::new(), Vec::new(), Vec::new()];
        let mut times = [Times::default(), Times::default(), Times::default()];
        for _round in 0..ROUNDS {
            for (((_, channel, call), rates), times) in calls.iter().zip(&mut rates).zip(&mut times) {
                let (rate, taken) = as_fast_as_it_goes(channel, in_flight, *call).await?;
                rates.push(rate);
                times.join(taken);
            }
        }
        println!("{in_flight} in flight:");
        let [mut asked, mut checked, mut nothing] = rates;
        let rates = [median(&mut asked), median(&mut checked), median(&mut nothing)];
        for (((name, _, _), rate), times) in calls.iter().zip(rates).zip(&times) {
            println!("  {name}: {rate:.0}/s, {times}");
        }
        let [asked, _, nothing] = rates;
        println!("  Predict against an empty call: {:.2}; goal 0.7", asked / nothing);
    }
    Ok(())
}

/// Calls a second, and the time of each.
pub(crate) async fn as_fast_as_it_goes(
    channel: &Channel,
    in_flight: usize,
    call: Call,
) -> anyhow::Result<(f64, Times)> {
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..in_flight {
        callers.spawn(one_after_the_other(channel.clone(), CALLS / in_flight, call));
    }
    let mut times = Times::default();
    while let Some(ended) = callers.join_next().await {
        times.join(ended??);
    }
    Ok((times.count() as f64 / began.elapsed().as_secs_f64(), times))
}

async fn one_after_the_other(channel: Channel, count: usize, call: Call) -> Result<Times, Status> {
    let mut times = Times::default();
    for n in 0..count {
        let began = Instant::now();
        once(&channel, call, n as u64).await?;
        times.add(began.elapsed());
    }
    Ok(times)
}

/// The package of the `n`th row, or question: one of 2,000.
pub(crate) fn package(n: u64) -> String {
    format!("package-{}", n.wrapping_mul(7919) % 2000)
}

/// What to predict.
fn question(n: u64) -> pb::PredictRequest {
    let key = Some(pb::Key { package: package(n), ..pb::Key::default() });
    pb::PredictRequest { key, ..Default::default() }
}

/// One call with the `n`th question.
pub(crate) async fn once(channel: &Channel, call: Call, n: u64) -> Result<(), Status> {
    match call {
        Call::Predict => PredictorClient::new(channel.clone()).predict(question(n)).await.map(drop),
        Call::Health => {
            let request = HealthCheckRequest { service: String::new() };
            HealthClient::new(channel.clone()).check(request).await.map(drop)
        }
    }
}
