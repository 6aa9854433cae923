//! Read-only requests of the wire, for gRPC and for the web page. Each converts the request, calls
//! a service, and converts the result.

use std::sync::Arc;

use plimsoll_proto::v1 as pb;

use super::wire;
use crate::{
    access::{Reply, identity::Identity},
    door::Services,
    fleet::{AttemptService, StatisticsService},
    sizing::SizingService,
};

/// Read access to attempts, statistics and predictions. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ReadApi {
    pub(crate) statistics: StatisticsService,
    pub(crate) attempts: AttemptService,
    pub(crate) sizing: SizingService,
}

impl ReadApi {
    /// Uses the services that only read.
    pub(crate) fn over(services: &Services) -> Self {
        let Services { sizing, attempts, statistics, .. } = services.clone();
        Self { statistics, attempts, sizing }
    }

    /// Answers the rpc `GetStats`.
    pub(crate) async fn get_stats(
        &self,
        caller: &Arc<Identity>,
        asked: pb::GetStatsRequest,
    ) -> Reply<pb::GetStatsResponse> {
        let question = wire::filter::question(asked)?;
        Ok(wire::statistics::answer(self.statistics.report(caller, question).await?))
    }

    /// Answers the rpc `ListAttempts`.
    pub(crate) async fn list_attempts(
        &self,
        caller: &Arc<Identity>,
        asked: pb::ListAttemptsRequest,
    ) -> Reply<pb::ListAttemptsResponse> {
        let mut page = wire::paging::Page::read(&asked)?;
        let filter = wire::filter::filter(asked.filter)?;
        let builder = page.builder();
        let take = |place: &_, listed| page.add_if_room(place, wire::attempts::listed(listed));
        let listed = self.statistics.list(caller, filter, builder, take).await?;
        Ok(page.end(&listed))
    }

    /// Answers the rpc `Recommend`.
    pub(crate) async fn recommend(
        &self,
        caller: &Arc<Identity>,
        asked: pb::RecommendRequest,
    ) -> Reply<pb::RecommendResponse> {
        let question = wire::recommendations::question(asked)?;
        let answer = self.statistics.recommend(caller, &self.sizing, question).await?;
        Ok(wire::recommendations::answer(answer))
    }

    /// Answers the rpc `GetAttempt`.
    pub(crate) async fn get_attempt(
        &self,
        caller: &Arc<Identity>,
        asked: pb::GetAttemptRequest,
    ) -> Reply<pb::GetAttemptResponse> {
        let id = wire::attempt_id("attempt", &asked.attempt)?;
        let mut rows = wire::attempts::rows(asked.max_samples)?;
        let shown = self.attempts.show(caller, &id).await?;
        if !asked.with_series {
            return Ok(wire::attempts::shown(shown));
        }
        let total = self.attempts.series(&shown, |sample| rows.add(wire::attempts::sample(sample))).await?;
        Ok(pb::GetAttemptResponse {
            samples_total: total,
            downsampled: rows.downsampled(),
            series: rows.into_samples(),
            ..wire::attempts::shown(shown)
        })
    }

    /// Answers the rpc `Explain`.
    pub(crate) fn explain(&self, caller: &Identity, asked: pb::PredictRequest) -> Reply<pb::ExplainResponse> {
        let (key, limit) = wire::sizing::ask(asked)?;
        Ok(wire::sizing::explanation(self.sizing.explain(caller, key, limit)?))
    }

    /// The first messages of the rpc `Watch`, for the `most` running attempts with the highest
    /// memory need, and the number of running attempts; both limited to what the caller may see.
    pub(crate) async fn running(
        &self,
        caller: &Arc<Identity>,
        most: usize,
    ) -> Reply<(pb::WatchResponse, usize)> {
        let (running, count) = self.attempts.highest(caller, most).await?;
        Ok((wire::attempts::changed(&running, &[]), count))
    }
}
