//! What KEDA hears of a pool.

use std::sync::{Arc, Mutex};

use plimsoll_core::placement::tickets::{self, TicketAmount};
use tokio_stream::StreamExt as _;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::*;
use crate::{
    access::identity::Role, door::grpc::guarded::tests::OneStream, pools::PoolRegistry,
    runtime::metrics::Metrics,
};

/// A service over one pool, whose queue the test sets.
struct Fixture {
    service: ScalerService,
    queue: Arc<Mutex<TicketAmount>>,
    stopping: CancellationToken,
    _dir: tempfile::TempDir,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pools.toml");
    std::fs::write(&file, "[[pool]]\nname = \"big\"\non_demand = true\n").unwrap();
    let pools = PoolRegistry::open(Some(file), Arc::new(Metrics::new())).unwrap();
    let queue = Arc::new(Mutex::new(TicketAmount::default()));
    let asked = Arc::clone(&queue);
    pools.ask_tickets(move |pool| {
        let queued = *asked.lock().unwrap();
        Some(tickets::PoolTickets { pool: pool.into(), queued, held: TicketAmount::default(), attended: 0 })
    });
    let demands = Demands::new(pools);
    let stopping = CancellationToken::new();
    let service = ScalerService::new(demands, Streams::new(STREAMS, TaskTracker::new(), stopping.clone()));
    Fixture { service, queue, stopping, _dir: dir }
}

fn scaled(metadata: &[(&str, &str)]) -> ScaledObjectRef {
    let metadata = metadata.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    ScaledObjectRef { scaler_metadata: metadata.collect(), ..ScaledObjectRef::default() }
}

const THREE: TicketAmount = TicketAmount { slots: 3, memory_bytes: 5 << 29, milli_cores: 4500 };

#[tokio::test]
async fn an_on_demand_pool_scales_from_zero() {
    let fixture = fixture();
    let value = async |measure: &str| {
        let scaled = scaled(&[("pool", "big"), ("measure", measure)]);
        let ask = GetMetricsRequest { scaled_object_ref: Some(scaled), metric_name: measure.to_owned() };
        let answer = fixture.service.get_metrics(Request::new(ask)).await.unwrap().into_inner();
        (answer.metric_values[0].metric_value, answer.metric_values[0].metric_value_float)
    };
    let active = async || {
        let asked = Request::new(scaled(&[("pool", "big")]));
        fixture.service.is_active(asked).await.unwrap().into_inner().result
    };
    assert_eq!((active().await, value("places").await), (false, (0, 0.0)));
    *fixture.queue.lock().unwrap() = THREE;
    assert_eq!((active().await, value("places").await), (true, (3, 3.0)));
    assert_eq!((value("cores").await, value("memory").await), ((5, 4.5), (3, 2.5)));
}

#[tokio::test]
async fn the_metric_spec_follows_the_metadata() {
    let fixture = fixture();
    let spec = async |metadata: &[(&str, &str)]| {
        let answer = fixture.service.get_metric_spec(Request::new(scaled(metadata))).await.unwrap();
        let spec = answer.into_inner().metric_specs.remove(0);
        (spec.metric_name, spec.target_size, spec.target_size_float)
    };
    assert_eq!(spec(&[("pool", "big")]).await, ("places".to_owned(), 1, 1.0));
    let metadata = [("pool", "big"), ("measure", "cores"), ("target", "14.5"), ("scalerAddress", "x:1")];
    assert_eq!(spec(&metadata).await, ("cores".to_owned(), 15, 14.5));
}

#[tokio::test]
async fn from_env_metadata_is_only_a_fallback() {
    let fixture = fixture();
    let spec = async |metadata: &[(&str, &str)]| {
        let answer = fixture.service.get_metric_spec(Request::new(scaled(metadata))).await;
        answer.map(|answer| answer.into_inner().metric_specs.remove(0).metric_name)
    };
    let from = [("poolFromEnv", "big"), ("measureFromEnv", "cores"), ("scalerAddressFromEnv", "x:1")];
    assert_eq!(spec(&from).await.unwrap(), "cores");
    assert_eq!(spec(&[("pool", "big"), ("poolFromEnv", "moon")]).await.unwrap(), "places");
    for (wrong, part) in [
        ([("poolFromEnv", "moon"), ("measure", "cores")], "pool: \"moon\" is not a pool"),
        ([("pool", "big"), ("mesureFromEnv", "cores")], "mesureFromEnv: is not known"),
        ([("pool", "big"), ("FromEnv", "cores")], "FromEnv: is not known"),
    ] {
        let refused = spec(&wrong).await.unwrap_err();
        assert!(refused.message().contains(part), "{refused}");
    }
}

#[tokio::test]
async fn invalid_metadata_is_refused_with_alternatives() {
    let fixture = fixture();
    for (metadata, part) in [
        (&[][..], "scalerMetadata.pool: is missing; there are big"),
        (&[("pool", "moon")], "scalerMetadata.pool: \"moon\" is not a pool; there are big"),
        (&[("pool", "big"), ("target", "0")], "scalerMetadata.target: \"0\" is not a number above 0"),
        (&[("pool", "big"), ("target", "NaN")], "scalerMetadata.target"),
        (&[("pool", "big"), ("target", "-3")], "scalerMetadata.target"),
        (&[("pool", "big"), ("mesure", "cores")], "scalerMetadata.mesure: is not known; known are pool, m"),
        (&[("pool", "big"), ("measure", "moons")], "\"moons\" is none of places, cores, memory"),
    ] {
        let ask = || Request::new(scaled(metadata));
        let refused = [
            fixture.service.is_active(ask()).await.map(drop).unwrap_err(),
            fixture.service.stream_is_active(ask()).await.map(drop).unwrap_err(),
            fixture.service.get_metric_spec(ask()).await.map(drop).unwrap_err(),
        ];
        assert!(refused.iter().all(|status| status.code() == tonic::Code::InvalidArgument), "{refused:?}");
        assert!(refused.iter().all(|status| status.message().contains(part)), "{refused:?}");
    }
    let ask = GetMetricsRequest { metric_name: "places".into(), ..GetMetricsRequest::default() };
    let status = fixture.service.get_metrics(Request::new(ask)).await.unwrap_err();
    assert!(status.message().contains("pool: is missing"), "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_sends_each_activity_change_until_stop() {
    let fixture = fixture();
    let asked = Request::new(scaled(&[("pool", "big")]));
    let mut answers = fixture.service.stream_is_active(asked).await.unwrap().into_inner();
    assert!(!answers.next().await.unwrap().unwrap().result);
    *fixture.queue.lock().unwrap() = THREE;
    assert!(answers.next().await.unwrap().unwrap().result);
    *fixture.queue.lock().unwrap() = TicketAmount::default();
    assert!(!answers.next().await.unwrap().unwrap().result);
    fixture.stopping.cancel();
    let status = answers.next().await.unwrap().unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
}

#[tokio::test]
async fn no_more_streams_are_open_than_may_be() {
    let fixture = fixture();
    let open = async || {
        let asked = Request::new(scaled(&[("pool", "big")]));
        fixture.service.stream_is_active(asked).await.map(Response::into_inner)
    };
    let mut held = Vec::new();
    for _ in 0..STREAMS.most {
        held.push(open().await.unwrap());
    }
    assert_eq!(open().await.map(drop).unwrap_err().code(), tonic::Code::ResourceExhausted);
}

#[tokio::test]
async fn streams_are_limited_and_end_on_access_change() {
    let (fixture, caller) = (fixture(), OneStream::new(Role::Reader));
    let open = async || {
        let asked = caller.ask(scaled(&[("pool", "big")]));
        fixture.service.stream_is_active(asked).await.map(Response::into_inner)
    };
    let mut answers = open().await.unwrap();
    assert!(!answers.next().await.unwrap().unwrap().result);
    assert_eq!(open().await.map(drop).unwrap_err().code(), tonic::Code::ResourceExhausted);
    caller.change();
    let status = answers.next().await.unwrap().unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
}
