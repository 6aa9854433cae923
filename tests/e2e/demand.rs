//! What pools need, told to autoscalers; and a day of history on nodes.

use std::{fmt::Write as _, fs};

use plimsoll_proto::{
    externalscaler::{GetMetricsRequest, ScaledObjectRef, external_scaler_client::ExternalScalerClient},
    v1::{self as pb, placement_client::PlacementClient},
};
use plimsoll_tests::{Answer, Sender, Server, Site, finish, hello};
use serde_json::Value;

const POOLS: &str = "[[pool]]\nname = \"normal\"\n[[pool]]\nname = \"powerful\"\non_demand = true\n";

fn scaled(pool: &str) -> ScaledObjectRef {
    let scaler_metadata = [("pool", pool), ("measure", "cores")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    ScaledObjectRef { scaler_metadata, ..ScaledObjectRef::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_on_demand_is_at_zero_without_demand_grows_with_an_attempt_and_goes_back() {
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

fn simulate(words: &[&str]) -> Answer {
    Server::call(&[&["--prices", "0/1", "--currency", "EUR", "simulate"], words].concat())
}

#[test]
fn a_day_of_history_is_packed_on_nodes_for_sizes_by_hand_and_for_ours() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("builds.csv");
    let mut text = "package,submitted_ms,wall_ms,cores,peak_bytes,requested_bytes\n".to_owned();
    // forty a day, one after the other, each asks for eight times what it needs
    for n in 0..80_u64 {
        let arrival = 1_795_132_800_000 + n * 2_160_000;
        writeln!(text, "zlib,{arrival},600000,1,{},{}", 1_u64 << 30, 8_u64 << 30).unwrap();
    }
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let printed = |words: &[&str]| simulate(&[&[file], words].concat()).done();
    let day = ["--day", "2026-11-21", "--nodes", "4x16GiB:2", "--nodes", "1x8GiB", "--spread", "30min"];
    let json: Value = serde_json::from_str(&printed(&[&day[..], &["-o", "json"]].concat())).unwrap();
    assert_eq!(json["currency"], "EUR");
    let outcomes = json["fleets"][0]["outcomes"].as_array().unwrap();
    let names: Vec<&str> = outcomes.iter().map(|outcome| outcome["sizes"].as_str().unwrap()).collect();
    assert_eq!(names, ["preset", "plimsoll", "plimsoll, spread", "plimsoll-pod", "plimsoll-pod, spread"]);
    assert!(outcomes.iter().all(|outcome| outcome["builds"] == 40 && outcome["lost"] == 0), "{json}");
    let free = |at: usize| outcomes[at]["free_gib_hours"].as_f64().unwrap();
    assert!(free(1) > free(0), "ours hold less: {json}");
    let table = printed(&day);
    assert!(table.contains("nodes 4x16GiB:2, 40 builds") && table.contains("plimsoll, spread"), "{table}");
    for (words, part) in [
        (&["--nodes", "moon"][..], "\"moon\" is neither CORESxMEMORY"),
        (&["--nodes", "1x1GiB", "--day", "2026-01-01"], "no build came on it; the file goes from 2026-11-20"),
        (&["--nodes", "1x1GiB", "--day", "yesterday"], "is not a day such as"),
        (&["--nodes", "1x1GiB", "--per-hour", "9"], "the file tells when each build came"),
        (&["--nodes", "1x1GiB", "--policy", "mine"], "\"mine\" is not a policy"),
        (&[], "--nodes"),
    ] {
        let answer = simulate(&[&[file], words].concat());
        assert!(answer.code != Some(0) && answer.stderr.contains(part), "{words:?}: {answer:?}");
    }
}
