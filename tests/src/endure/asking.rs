//! Asks what people, jobs and dashboards ask, all the time.

use std::time::Duration;

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient, stats_client::StatsClient};
use tokio::{sync::watch, time::interval};
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

/// Between two rounds of questions.
const PAUSE: Duration = Duration::from_millis(50);
/// Predictions of one round.
const PREDICTIONS: u64 = 20;
/// Attempts that a dashboard shows.
const PAGE: u32 = 20;

/// Asks until `stop`; gives the number of answers.
pub(super) async fn ask(url: String, stop: watch::Receiver<bool>) -> Result<u64, Status> {
    let unreachable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
    let channel = Endpoint::new(url).map_err(unreachable)?.connect().await.map_err(unreachable)?;
    let (mut predictor, mut stats) = (PredictorClient::new(channel.clone()), StatsClient::new(channel));
    let (mut answers, mut tick) = (0, interval(PAUSE));
    while !*stop.borrow() {
        tick.tick().await;
        for n in 0..PREDICTIONS {
            let key = pb::Key { package: format!("package-{}", answers + n), ..pb::Key::default() };
            predictor.predict(pb::PredictRequest { key: Some(key), ..Default::default() }).await?;
        }
        answers += PREDICTIONS + dashboard(&mut stats, &mut predictor).await?;
    }
    Ok(answers)
}

/// What a dashboard shows, and a verdict on each failure that it lists.
async fn dashboard(
    stats: &mut StatsClient<Channel>,
    predictor: &mut PredictorClient<Channel>,
) -> Result<u64, Status> {
    let by_package =
        pb::GetStatsRequest { group_by: pb::GroupBy::Package.into(), ..pb::GetStatsRequest::default() };
    stats.get_stats(by_package).await?;
    let list = pb::ListAttemptsRequest { page_size: PAGE, ..pb::ListAttemptsRequest::default() };
    let listed = stats.list_attempts(list).await?.into_inner().attempts;
    let mut answers = 2;
    for summary in listed {
        if summary.outcome() == pb::Outcome::Failed {
            let ask = pb::ShouldRetryRequest {
                attempt: summary.attempt.clone(),
                log_tail: b"zlib.c:7: error: expected expression".to_vec(),
                ..pb::ShouldRetryRequest::default()
            };
            predictor.should_retry(ask).await?;
            answers += 1;
        }
        let one = pb::GetAttemptRequest { attempt: summary.attempt, with_series: true, max_samples: 100 };
        stats.get_attempt(one).await?;
        answers += 1;
    }
    Ok(answers)
}
