//! Pods that name jobs of another project: from Prometheus' answer over the import to what a server predicts for that project.

use std::time::Duration;

use plimsoll_core::{
    domain::{Key, Prediction, Summary, test_summary},
    predict,
};
use plimsoll_lab::import::{
    commit_records,
    prometheus::{ListedJobs, PrometheusLabels, TimeRange},
};
use plimsoll_store::Store;
use serde_json::json;

use super::{
    HistoryQuestion, PrometheusClient,
    history_tests::{server, success},
    read_history,
};
use crate::ingest::fixture;

/// Behind the attempts of agents.
const START_MS: u64 = 1_750_000_000_000;
const HOUR_MS: u64 = 3_600_000;
const PODS: u64 = 24;

/// The project and its job.
fn key() -> Key {
    Key { project: "group/one".into(), package: "compile".into(), ..Key::default() }
}

/// What Prometheus answers in the first hour to a question about pods of a namespace that say they are of the project's job, with this many
/// readings of 100 MiB each.
fn answer(line: &str, readings: u64) -> String {
    let pods = |of: &dyn Fn(u64) -> serde_json::Value| {
        success(&json!((0..PODS).map(of).collect::<Vec<serde_json::Value>>()))
    };
    let start = START_MS / 1000;
    if !line.contains(&format!("time={}.000", start + 3600)) {
        return success(&json!([]));
    }
    if line.contains("query=container_memory_working_set_bytes") {
        let values: Vec<_> = (0..readings).map(|n| json!([start + 600 + n * 60, "104857600"])).collect();
        return pods(&|n| json!({"metric": {"namespace": "evil", "pod": format!("p{n}")}, "values": values}));
    }
    if line.contains("kube_pod_annotations") {
        return pods(&|n| {
            json!({"value": [start, "1"], "metric": {
                "namespace": "evil",
                "pod": format!("p{n}"),
                "annotation_job_runner_gitlab_com_id": (9000 + n).to_string(),
                "annotation_job_runner_gitlab_com_name": "compile",
                "annotation_job_runner_gitlab_com_url": format!("https://gitlab.example/group/one/-/jobs/{}", 9000 + n),
            }})
        });
    }
    success(&json!([]))
}

/// Twelve attempts of the project that agents measured: 8 GiB each.
async fn measured() -> Store {
    let of = |n| test_summary(&format!("gitlab.example:{n}"), "compile", "", 8 << 10);
    let all: Vec<Summary> = (0..12).map(|n| Summary { key: key(), ..of(n) }).collect();
    let store = Store::memory();
    fixture::put(&store, &all, &[]).await;
    store
}

/// What a server over this store predicts for the project's job.
async fn predicted(store: &Store) -> Prediction {
    let (ingest, mut worker) = fixture::ingest(store, 1000);
    worker.resume().await.unwrap();
    let settings = predict::Settings::default();
    ingest.history().read(|history| predict::predict_known(history, &key(), &settings))
}

#[tokio::test]
async fn forged_pods_never_lower_what_another_project_gets() {
    let range = TimeRange { start_ms: START_MS, end_ms: START_MS + 2 * HOUR_MS };
    for readings in [1, 20] {
        let store = measured().await;
        let before = predicted(&store).await;
        let server = server(move |line| answer(line, readings)).await;
        let client = PrometheusClient::hasty(&server.url(""), Duration::from_mins(10), 1 << 20);
        let question =
            HistoryQuestion { labels: PrometheusLabels::default(), selector: String::new(), range };
        let read = read_history(&client, &question, |_| {}).await.unwrap();
        let jobs = ListedJobs::default();
        let found = read.pods.from_source(range, "", &jobs).unwrap();
        let records = found.records().map(|record| record.map(|(record, _end)| record));
        let imported = commit_records(records, found.refusals.clone(), &store).await.unwrap();
        assert_eq!(imported.added, PODS, "they are in the store as the project's");
        let after = predicted(&store).await;
        assert!(before.memory_request.value > 8 << 30, "{before:?}");
        assert!(after.memory_request.value >= before.memory_request.value, "{readings}: {after:?}");
        assert!(after.memory_limit.value >= before.memory_limit.value, "{readings}: {after:?}");
        assert!(after.confidence <= before.confidence, "{readings}: {after:?}");
    }
}
