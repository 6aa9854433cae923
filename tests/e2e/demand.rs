//! What pools need, for autoscalers.

use plimsoll_proto::{
    externalscaler::{GetMetricsRequest, ScaledObjectRef, external_scaler_client::ExternalScalerClient},
    v1::{self as pb, placement_client::PlacementClient},
};
use plimsoll_tests::{Sender, Site, finish, hello};

const POOLS: &str = "[[pool]]\nname = \"normal\"\n[[pool]]\nname = \"powerful\"\non_demand = true\n";

fn scaled(pool: &str) -> ScaledObjectRef {
    let scaler_metadata = [("pool", pool), ("measure", "cores")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    ScaledObjectRef { scaler_metadata, ..ScaledObjectRef::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_on_demand_pool_scales_to_zero() {
    let Site { server, dir: _dir, .. } = Site::start_with(&[("--pools-file", POOLS)], &[]).unwrap();
    let mut scaler = ExternalScalerClient::connect(server.url()).await.unwrap();
    let mut changes = scaler.stream_is_active(scaled("powerful")).await.unwrap().into_inner();
    assert!(!changes.message().await.unwrap().unwrap().result);

    let sizes = pb::Resources {
        memory_request_bytes: Some(3 << 30),
        cpu_request_cores: Some(2.5),
        ..pb::Resources::default()
    };
    let hello = pb::Hello { pool: "powerful".into(), resources: Some(sizes), ..hello("one", "kernel") };
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    stream.exchange(hello).await.unwrap();
    assert!(changes.message().await.unwrap().unwrap().result, "pushed when it came");
    let asked = GetMetricsRequest { scaled_object_ref: Some(scaled("powerful")), metric_name: String::new() };
    let values = scaler.get_metrics(asked).await.unwrap().into_inner().metric_values;
    assert_eq!((values[0].metric_name.as_str(), values[0].metric_value), ("cores", 3));
    assert!((values[0].metric_value_float - 2.5).abs() < 1e-9);
    let mut client = PlacementClient::connect(server.url()).await.unwrap();
    let all = client.get_demand(pb::GetDemandRequest::default()).await.unwrap().into_inner().pools;
    let names: Vec<(&str, bool)> = all.iter().map(|pool| (pool.pool.as_str(), pool.on_demand)).collect();
    assert_eq!(names, [("normal", false), ("powerful", true)]);
    assert_eq!(all[1].held.as_ref().unwrap().memory_bytes, 3 << 30);
    server.wait_for_metric("plimsoll_pool_places{pool=\"powerful\",state=\"held\"} 1").await;

    stream.exchange(finish("one", 0, Some(0))).await.unwrap();
    assert!(!changes.message().await.unwrap().unwrap().result, "at zero again");
    for (pool, part) in [("moon", "\"moon\" is not a pool; there are normal, powerful"), ("", "is missing")] {
        let refused = scaler.is_active(scaled(pool)).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        assert!(refused.message().contains(part), "{refused}");
    }
    let refused = client.get_demand(pb::GetDemandRequest { pool: "moon".into() }).await.unwrap_err();
    assert!(refused.message().starts_with("pool: \"moon\" is not a pool"), "{refused}");
}
