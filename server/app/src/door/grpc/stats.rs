//! `GetStats`, `ListAttempts`, `GetAttempt`, `Recommend` and `Watch`. Each handler converts the
//! request, calls a room, and converts the result.

mod watch;

use plimsoll_proto::v1::{self as pb, stats_server::Stats};
use tonic::{Request, Response};
pub(super) use watch::WATCHERS;

use super::{
    caller::caller,
    outbound::Answers,
    status::{self, RpcResult},
    streams::Streams,
};
use crate::door::read_api::ReadApi;

/// The service `plimsoll.v1.Stats`.
#[derive(Debug, Clone)]
pub(super) struct StatsService {
    pub(super) api: ReadApi,
    pub(super) watchers: Streams,
}

#[tonic::async_trait]
impl Stats for StatsService {
    type WatchStream = Answers<pb::WatchResponse>;

    async fn get_stats(&self, request: Request<pb::GetStatsRequest>) -> RpcResult<pb::GetStatsResponse> {
        let caller = caller(&request);
        status::answered(self.api.get_stats(&caller, request.into_inner()).await)
    }

    async fn list_attempts(
        &self,
        request: Request<pb::ListAttemptsRequest>,
    ) -> RpcResult<pb::ListAttemptsResponse> {
        let caller = caller(&request);
        status::answered(self.api.list_attempts(&caller, request.into_inner()).await)
    }

    async fn get_attempt(
        &self,
        request: Request<pb::GetAttemptRequest>,
    ) -> RpcResult<pb::GetAttemptResponse> {
        let caller = caller(&request);
        status::answered(self.api.get_attempt(&caller, request.into_inner()).await)
    }

    async fn recommend(&self, request: Request<pb::RecommendRequest>) -> RpcResult<pb::RecommendResponse> {
        let caller = caller(&request);
        status::answered(self.api.recommend(&caller, request.into_inner()).await)
    }

    async fn watch(&self, request: Request<pb::WatchRequest>) -> RpcResult<Self::WatchStream> {
        let caller = caller(&request);
        let (watch, stream) = (self.api.attempts.watch(&caller)?, self.watchers.reserve(caller)?);
        Ok(Response::new(stream.answer(|outbound| Box::pin(watch::send_to_watcher(watch, outbound)))))
    }
}
