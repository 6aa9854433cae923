//! What KEDA gets for a trigger.

use std::sync::Arc;

use plimsoll_core::placement::tickets::{PoolTickets, TicketAmount};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::Code;

use super::*;
use crate::{pools::PoolRegistry, runtime::metrics::Metrics};

/// A service over one pool, `big`, in which three tickets wait.
fn service() -> ScalerService {
    let (_dir, file) =
        plimsoll_support::temporary::file_with("pools.toml", "[[pool]]\nname = \"big\"\non_demand = true\n");
    let pools = PoolRegistry::open(Some(file), Arc::new(Metrics::new())).unwrap();
    pools.ask_tickets(|pool| {
        let queued = TicketAmount { slots: 3, memory_bytes: 5 << 29, milli_cores: 4500 };
        Some(PoolTickets { pool: pool.into(), queued, held: TicketAmount::default(), attended: 0 })
    });
    ScalerService::new(
        Demands::new(pools),
        Streams::new(STREAMS, TaskTracker::new(), CancellationToken::new()),
    )
}

fn scaled(metadata: &[(&str, &str)]) -> ScaledObjectRef {
    let metadata = metadata.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    ScaledObjectRef { scaler_metadata: metadata.collect(), ..ScaledObjectRef::default() }
}

#[tokio::test]
async fn metric_and_target_follow_the_metadata() {
    let service = service();
    let from_env = [("poolFromEnv", "big"), ("measureFromEnv", "cores"), ("scalerAddressFromEnv", "x:1")];
    let cores = [("pool", "big"), ("measure", "cores"), ("target", "14.5"), ("scalerAddress", "x:1")];
    for (metadata, name, target, value) in [
        (&[("pool", "big")][..], "places", (1, 1.0), (3, 3.0)),
        (&[("pool", "big"), ("measure", "memory")], "memory", (1, 1.0), (3, 2.5)),
        (&cores, "cores", (15, 14.5), (5, 4.5)),
        (&from_env, "cores", (1, 1.0), (5, 4.5)),
        // only where it is not named otherwise
        (&[("pool", "big"), ("poolFromEnv", "moon")], "places", (1, 1.0), (3, 3.0)),
    ] {
        let spec = service.get_metric_spec(Request::new(scaled(metadata))).await.unwrap().into_inner();
        let spec = &spec.metric_specs[0];
        assert_eq!(spec.metric_name, name);
        assert_eq!((spec.target_size, spec.target_size_float), target, "{metadata:?}");
        let scaled_object_ref = Some(scaled(metadata));
        let asked = GetMetricsRequest { scaled_object_ref, metric_name: name.to_owned() };
        let metric = service.get_metrics(Request::new(asked)).await.unwrap().into_inner();
        let metric = &metric.metric_values[0];
        assert_eq!((metric.metric_value, metric.metric_value_float), value, "{metadata:?}");
    }
}

#[tokio::test]
async fn invalid_metadata_is_refused_with_alternatives() {
    let service = service();
    for (metadata, part) in [
        (&[][..], "scalerMetadata.pool: is missing; there are big"),
        (&[("pool", "moon")], "scalerMetadata.pool: \"moon\" is not a pool; there are big"),
        (&[("poolFromEnv", "moon"), ("measure", "cores")], "pool: \"moon\" is not a pool"),
        (&[("pool", "big"), ("target", "0")], "scalerMetadata.target: \"0\" is not a number above 0"),
        (&[("pool", "big"), ("target", "NaN")], "scalerMetadata.target"),
        (&[("pool", "big"), ("target", "-3")], "scalerMetadata.target"),
        (&[("pool", "big"), ("mesure", "cores")], "scalerMetadata.mesure: is not known; known are pool, m"),
        (&[("pool", "big"), ("mesureFromEnv", "cores")], "mesureFromEnv: is not known"),
        (&[("pool", "big"), ("FromEnv", "cores")], "FromEnv: is not known"),
        (&[("pool", "big"), ("measure", "moons")], "\"moons\" is none of places, cores, memory"),
    ] {
        let ask = || Request::new(scaled(metadata));
        let metrics = GetMetricsRequest { scaled_object_ref: Some(scaled(metadata)), ..Default::default() };
        for refused in [
            service.is_active(ask()).await.map(drop).unwrap_err(),
            service.stream_is_active(ask()).await.map(drop).unwrap_err(),
            service.get_metric_spec(ask()).await.map(drop).unwrap_err(),
            service.get_metrics(Request::new(metrics)).await.map(drop).unwrap_err(),
        ] {
            assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
            assert!(refused.message().contains(part), "{refused:?}");
        }
    }
}
