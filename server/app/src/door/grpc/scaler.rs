//! KEDA's external scaler: answers about the demand of pools, and the stream that reports whether a
//! pool is active. [`keda`] parses the metadata of a trigger.

#[cfg(test)]
mod tests;

use std::time::Duration;

use plimsoll_proto::externalscaler::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, MetricSpec, MetricValue,
    ScaledObjectRef, external_scaler_server::ExternalScaler,
};
use tonic::{Request, Response, Status};

use super::{
    caller::caller,
    outbound::{Answers, Outbound},
    status::RpcResult,
    streams::{StreamLimit, Streams},
};
use crate::{
    access::Refusal,
    ci::keda::{self, Trigger},
    tickets::demand::{Demands, PoolDemand},
};

/// Most streams: one for each pool that may exist, and as many again for triggers that are being
/// changed.
pub(crate) const STREAMS: StreamLimit = StreamLimit { what: "streams of scalers", most: 128 };
/// How often a stream checks whether its pool has become active: KEDA's own interval is 30 s.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The service `externalscaler.ExternalScaler`.
#[derive(Debug)]
pub(crate) struct ScalerService {
    demands: Demands,
    streams: Streams,
}

impl ScalerService {
    pub(crate) fn new(demands: Demands, streams: Streams) -> Self {
        Self { demands, streams }
    }

    /// Parses the trigger of a request, and gets the demand of its pool.
    fn asked(&self, scaled: &ScaledObjectRef) -> Result<(Trigger, PoolDemand), Status> {
        let trigger = Trigger::read(&scaled.scaler_metadata).map_err(Refusal::Fault)?;
        let demand = trigger.demand(&self.demands).map_err(Refusal::Fault)?;
        Ok((trigger, demand))
    }
}

#[tonic::async_trait]
impl ExternalScaler for ScalerService {
    async fn is_active(&self, request: Request<ScaledObjectRef>) -> RpcResult<IsActiveResponse> {
        let (_, demand) = self.asked(request.get_ref())?;
        Ok(Response::new(IsActiveResponse { result: keda::is_active(&demand) }))
    }

    type StreamIsActiveStream = Answers<IsActiveResponse>;

    async fn stream_is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> RpcResult<Self::StreamIsActiveStream> {
        let (trigger, _) = self.asked(request.get_ref())?;
        let (stream, demands) = (self.streams.reserve(caller(&request))?, self.demands.clone());
        let answers = stream
            .answer(move |outbound| Box::pin(async move { follow(&demands, &trigger, outbound).await }));
        Ok(Response::new(answers))
    }

    async fn get_metric_spec(&self, request: Request<ScaledObjectRef>) -> RpcResult<GetMetricSpecResponse> {
        let (trigger, _) = self.asked(request.get_ref())?;
        let spec = MetricSpec {
            metric_name: trigger.metric().to_owned(),
            target_size: keda::round_up(trigger.target),
            target_size_float: trigger.target,
        };
        Ok(Response::new(GetMetricSpecResponse { metric_specs: vec![spec] }))
    }

    async fn get_metrics(&self, request: Request<GetMetricsRequest>) -> RpcResult<GetMetricsResponse> {
        let request = request.into_inner();
        let scaled = request.scaled_object_ref.unwrap_or_default();
        let (trigger, demand) = self.asked(&scaled)?;
        let measure = trigger.measured(&request.metric_name).map_err(Refusal::Fault)?;
        let value = measure.of(&demand);
        let value = MetricValue {
            metric_name: measure.as_str().to_owned(),
            metric_value: keda::round_up(value),
            metric_value_float: value,
        };
        Ok(Response::new(GetMetricsResponse { metric_values: vec![value] }))
    }
}

/// Sends whether the pool is active: once at the start, and after each change, until the stream
/// ends.
async fn follow(
    demands: &Demands,
    trigger: &Trigger,
    outbound: &Outbound<IsActiveResponse>,
) -> Result<(), Status> {
    let mut sent = None;
    let mut tick = tokio::time::interval(CHECK_INTERVAL);
    loop {
        tick.tick().await;
        // fails if the operator has removed the pool from the pools file
        let demand = trigger.demand(demands).map_err(Refusal::Fault)?;
        let active = keda::is_active(&demand);
        if sent.replace(active) != Some(active) {
            outbound.send(IsActiveResponse { result: active }).await?;
        }
    }
}
