//! KEDA's external scaler: how many builders a pool needs. The metadata of the trigger says which pool, what is measured, and how
//! much of it one replica takes.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, time::Duration};

use plimsoll_proto::externalscaler::{
    self as keda, GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse,
    ScaledObjectRef, external_scaler_server::ExternalScaler,
};
use tonic::{Request, Response, Status};

use super::{
    guarded::admitted,
    outbound::{Answers, Outbound},
    status,
    streams::{AtOnce, Streams},
};
use crate::{
    demand::{Demands, PoolDemand, cores},
    domain::{Bytes, Fault},
};

/// As many as there may be pools, and as much again for triggers that are being changed.
pub(super) const STREAMS: AtOnce = AtOnce { what: "streams of scalers", most: 128 };
/// How often a stream looks whether its pool has become active: KEDA's own interval is 30 s.
const LOOK: Duration = Duration::from_secs(1);
/// Highest target: more than any builder has.
const MOST: f64 = 1e9;

/// What a trigger's metadata may say to us, and what it says to KEDA itself (keda.sh, "External" trigger), which hands all of it on.
const NAMES: [&str; 3] = ["pool", "measure", "target"];
const OF_KEDA: [&str; 8] = [
    "scalerAddress",
    "metricType",
    "tlsCertFile",
    "caCert",
    "tlsClientCert",
    "tlsClientKey",
    "unsafeSsl",
    "enableTLS",
];

/// Behind the name of what KEDA read in the environment of the workload: it hands the value on under the longer name.
const FROM_ENV: &str = "FromEnv";

const POOL: &str = "scaledObjectRef.scalerMetadata.pool";

/// The service `externalscaler.ExternalScaler`.
#[derive(Debug)]
pub(super) struct ScalerService {
    demands: Demands,
    streams: Streams,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Places,
    Cores,
    Memory,
}

impl Measure {
    const ALL: [Self; 3] = [Self::Places, Self::Cores, Self::Memory];

    /// Its name in the metadata, and that of the metric.
    fn as_str(self) -> &'static str {
        match self {
            Self::Places => "places",
            Self::Cores => "cores",
            Self::Memory => "memory",
        }
    }

    fn parse(field: &str, word: &str) -> Result<Self, Fault> {
        let known = Self::ALL.into_iter().find(|measure| measure.as_str() == word);
        known.ok_or_else(|| {
            let shown: String = word.chars().take(64).collect();
            Fault::new(field, format!("{shown:?} is none of {}", Self::ALL.map(Self::as_str).join(", ")))
        })
    }

    /// How much of it is wanted and held: builders that are busy are needed, too.
    fn of(self, demand: &PoolDemand) -> f64 {
        let all = demand.taken.all();
        match self {
            Self::Places => all.places.into(),
            Self::Cores => cores(all),
            Self::Memory => Bytes(all.memory_bytes).as_f64() / Bytes::GIB.as_f64(),
        }
    }
}

/// What a trigger's metadata says.
#[derive(Debug, PartialEq)]
struct Trigger {
    pool: String,
    measure: Measure,
    target: f64,
}

impl Trigger {
    fn read(scaled: &ScaledObjectRef) -> Result<Self, Fault> {
        let metadata: &HashMap<String, String> = &scaled.scaler_metadata;
        let said = |name: &str| metadata.get(name).map(String::as_str).filter(|text| !text.is_empty());
        let of = |name: &str| said(name).or_else(|| said(&format!("{name}{FROM_ENV}")));
        let field = |name: &str| format!("scaledObjectRef.scalerMetadata.{name}");
        let is_known = |name: &str| NAMES.contains(&name) || OF_KEDA.contains(&name);
        let is_known = |name: &str| is_known(name) || name.strip_suffix(FROM_ENV).is_some_and(is_known);
        let unknown = metadata.keys().map(String::as_str).find(|name| !is_known(name));
        if let Some(unknown) = unknown {
            let shown: String = unknown.chars().take(64).collect();
            return Err(Fault::new(field(&shown), format!("is not known; known are {}", NAMES.join(", "))));
        }
        let measure = of("measure").map(|word| Measure::parse(&field("measure"), word)).transpose()?;
        let target = match of("target") {
            None => 1.0,
            Some(text) => {
                let number = text.parse::<f64>().ok().filter(|target| *target > 0.0 && *target <= MOST);
                number.ok_or_else(|| {
                    let shown: String = text.chars().take(64).collect();
                    Fault::new(field("target"), format!("{shown:?} is not a number above 0, up to {MOST}"))
                })?
            }
        };
        let pool = of("pool").unwrap_or_default().to_owned();
        Ok(Self { pool, measure: measure.unwrap_or(Measure::Places), target })
    }
}

/// Reads what a trigger's metadata says; what is understood is within its bounds.
pub(super) fn understood(scaled: &ScaledObjectRef) {
    match Trigger::read(scaled) {
        Ok(Trigger { target, .. }) => assert!(target > 0.0 && target <= MOST, "{target}"),
        Err(fault) => assert!(fault.to_string().len() < 1000, "a fault repeats no more than a word"),
    }
}

impl ScalerService {
    pub(super) fn new(demands: Demands, streams: Streams) -> Self {
        Self { demands, streams }
    }

    /// What the trigger asks, and what its pool needs.
    fn asked(&self, scaled: &ScaledObjectRef) -> Result<(Trigger, PoolDemand), Status> {
        let trigger = Trigger::read(scaled).map_err(|fault| status::of_fault(&fault))?;
        let demand = self.demands.of(POOL, &trigger.pool).map_err(|fault| status::of_fault(&fault))?;
        Ok((trigger, demand))
    }
}

#[tonic::async_trait]
impl ExternalScaler for ScalerService {
    async fn is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<IsActiveResponse>, Status> {
        let (_, demand) = self.asked(request.get_ref())?;
        Ok(Response::new(IsActiveResponse { result: is_active(&demand) }))
    }

    type StreamIsActiveStream = Answers<IsActiveResponse>;

    async fn stream_is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<Self::StreamIsActiveStream>, Status> {
        let (trigger, _) = self.asked(request.get_ref())?;
        let (stream, demands) = (self.streams.take(admitted(&request))?, self.demands.clone());
        let answers = stream
            .answer(move |outbound| Box::pin(async move { follow(&demands, &trigger.pool, outbound).await }));
        Ok(Response::new(answers))
    }

    async fn get_metric_spec(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<GetMetricSpecResponse>, Status> {
        let (trigger, _) = self.asked(request.get_ref())?;
        let spec = keda::MetricSpec {
            metric_name: trigger.measure.as_str().to_owned(),
            target_size: whole(trigger.target),
            target_size_float: trigger.target,
        };
        Ok(Response::new(GetMetricSpecResponse { metric_specs: vec![spec] }))
    }

    async fn get_metrics(
        &self,
        request: Request<GetMetricsRequest>,
    ) -> Result<Response<GetMetricsResponse>, Status> {
        let request = request.into_inner();
        let scaled = request.scaled_object_ref.unwrap_or_default();
        let (trigger, demand) = self.asked(&scaled)?;
        let measure = match request.metric_name.as_str() {
            "" => trigger.measure,
            word => Measure::parse("metricName", word).map_err(|fault| status::of_fault(&fault))?,
        };
        let value = measure.of(&demand);
        let value = keda::MetricValue {
            metric_name: measure.as_str().to_owned(),
            metric_value: whole(value),
            metric_value_float: value,
        };
        Ok(Response::new(GetMetricsResponse { metric_values: vec![value] }))
    }
}

/// Whether there must be a builder.
fn is_active(demand: &PoolDemand) -> bool {
    demand.taken.all().places > 0
}

/// A whole number that is no less.
fn whole(value: f64) -> i64 {
    i64::try_from(Bytes::from_f64(value.ceil()).0).unwrap_or(i64::MAX)
}

/// Says whether the pool is active, and each change, until something ends that.
async fn follow(demands: &Demands, pool: &str, outbound: &Outbound<IsActiveResponse>) -> Result<(), Status> {
    let mut told = None;
    let mut tick = tokio::time::interval(LOOK);
    loop {
        tick.tick().await;
        // the operator may have taken it out of the file
        let demand = demands.of(POOL, pool).map_err(|fault| status::of_fault(&fault))?;
        let active = is_active(&demand);
        if told.replace(active) != Some(active) {
            outbound.send(IsActiveResponse { result: active }).await?;
        }
    }
}
