//! A pod that a `LimitRange` allows, or that is Guaranteed, stays so.

use super::*;
use crate::ci::kubernetes::limit_range::is_guaranteed;

/// Request and limit of memory, then of CPU.
type Four<'t> = [&'t str; 4];

fn of_four([memory_request, memory_limit, cpu_request, cpu_limit]: Four<'_>) -> Value {
    let requests = json!({ "memory": memory_request, "cpu": cpu_request });
    json!({ "requests": requests, "limits": { "memory": memory_limit, "cpu": cpu_limit } })
}

fn four(container: &Value) -> Four<'_> {
    [("requests", "memory"), ("limits", "memory"), ("requests", "cpu"), ("limits", "cpu")]
        .map(|(list, name)| container["resources"][list][name].as_str().unwrap())
}

/// The pod after a plan that predicts 64 and 88 MiB, 100m and 2 cores; and whether something was skipped.
fn under(own: Four<'_>, annotation: (&str, &str), limits: &Value, settings: &Settings) -> (Value, bool) {
    let mut value = pod();
    value["metadata"]["annotations"][format!("plimsoll/{}", annotation.0)] = json!(annotation.1);
    value["spec"]["containers"][0]["resources"] = of_four(own);
    for other in ["/spec/containers/1", "/spec/initContainers/0"] {
        value.pointer_mut(other).unwrap()["resources"] = of_four(["512Mi", "512Mi", "1", "1"]);
    }
    let typed = parse(value);
    let ranges = LimitRanges(serde_json::from_value(limits.clone()).unwrap());
    let job = job_of_pod(&typed, "ci-builds", settings).unwrap();
    let (known, from) = (sizes((64, 88), (100, 2000), 0.9), SizeSource::ByHistory);
    let plan = plan(&typed, &job, Some((&known, from)), (settings, &ranges), |_needs| None).unwrap();
    assert_eq!(ranges.newly_broken(&typed, &plan.pod), None);
    (serde_json::to_value(&plan.pod).unwrap(), !plan.skipped.is_empty())
}

#[test]
fn a_limit_range_allows_the_patched_pod() {
    let own = ["512Mi", "1Gi", "500m", "2"];
    let least = Settings { min_memory: Some(Bytes(128 << 20)), min_cpu: Some(Cores(0.2)), ..on() };
    let capped = Settings { max_memory: Some(Bytes(256 << 20)), ..on() };
    let (plain, memory_stays) = (["64Mi", "88Mi", "100m", "2"], ["512Mi", "1Gi", "100m", "2"]);
    let small = json!({ "memory": "128Mi", "cpu": "200m" });
    let ratio = json!({ "min": small, "maxLimitRequestRatio": { "cpu": "4", "memory": "1" } });
    let cpu_ratio = json!({ "maxLimitRequestRatio": { "cpu": "4.5" } });
    for (kind, rules, settings, expected, is_skipped) in [
        ("Container", json!({}), &on(), plain, false),
        ("Container", json!({}), &least, ["128Mi", "128Mi", "200m", "2"], false),
        ("Container", json!({ "min": small }), &on(), ["128Mi", "128Mi", "200m", "2"], false),
        ("Container", ratio, &on(), ["128Mi", "128Mi", "500m", "2"], false),
        ("Container", cpu_ratio, &on(), ["64Mi", "88Mi", "445m", "2"], false),
        ("Container", json!({ "max": { "memory": "1Gi", "cpu": "2" } }), &on(), plain, false),
        ("Container", json!({ "max": { "cpu": "1" } }), &on(), ["64Mi", "88Mi", "100m", "1000m"], false),
        // the operator's most is below the least of the namespace
        ("Container", json!({ "min": { "memory": "512Mi" } }), &capped, memory_stays, true),
        ("Pod", json!({ "min": { "memory": "1Gi" } }), &on(), memory_stays, true),
        ("Pod", json!({ "maxLimitRequestRatio": { "memory": "1.01" } }), &on(), plain, false),
        // what the pod breaks as it is keeps no size from it
        ("Container", json!({ "min": { "memory": "2Gi" } }), &on(), ["2048Mi", "2048Mi", "100m", "2"], false),
        ("Node", json!({ "min": { "memory": "2Gi" } }), &on(), plain, false),
    ] {
        let mut limit = rules.clone();
        limit["type"] = json!(kind);
        let (after, skipped) = under(own, ("agent", ""), &json!([limit]), settings);
        assert_eq!(four(&after["spec"]["containers"][0]), expected, "{kind} {rules}");
        assert_eq!(skipped, is_skipped, "{kind} {rules}");
    }
    // the agent's container too, or it is not added
    let settings = Settings { agent_image: Some("registry/agent:1".into()), ..on() };
    for (limit, agent) in [
        (json!({ "type": "Container", "min": small }), Some(["128Mi", "128Mi", "200m", "200m"])),
        (json!({ "type": "Pod", "max": { "cpu": "3" } }), None),
    ] {
        let (after, skipped) = under(own, ("agent", ""), &json!([limit]), &settings);
        let added = after["spec"]["initContainers"].get(1).map(four);
        assert_eq!((added, skipped), (agent, agent.is_none()), "{limit}");
    }
}

#[test]
fn a_guaranteed_pod_stays_guaranteed() {
    let settings = Settings { agent_image: Some("registry/agent:1".into()), ..on() };
    let burstable = Settings { keep_guaranteed: false, ..settings.clone() };
    let capped = Settings { max_cpu: Some(Cores(1.5)), ..settings.clone() };
    let limit_alone = Settings { sizes: vec![PodSize::MemoryLimit], ..settings.clone() };
    let large = ["8Gi", "8Gi", "4", "4"];
    for (own, annotation, settings, expected, stays) in [
        (large, ("agent", ""), &settings, ["88Mi", "88Mi", "2000m", "2000m"], true),
        (large, ("memory-request", "5Gi"), &settings, ["5120Mi", "5120Mi", "2000m", "2000m"], true),
        (
            ["8Gi", "8Gi", "1500m", "1.5"],
            ("cpu-limit", "off"),
            &settings,
            ["88Mi", "88Mi", "1500m", "1.5"],
            true,
        ),
        // whole processors stay whole
        (["8Gi", "8Gi", "1", "1"], ("agent", ""), &capped, ["88Mi", "88Mi", "1", "1"], true),
        (["64Mi", "64Mi", "1", "1"], ("agent", ""), &limit_alone, ["88Mi", "88Mi", "1", "1"], true),
        (large, ("agent", ""), &burstable, ["64Mi", "88Mi", "100m", "2000m"], false),
        (large, ("guaranteed", "off"), &settings, ["64Mi", "88Mi", "100m", "2000m"], false),
    ] {
        let (after, _) = under(own, annotation, &json!([]), settings);
        let is_still = is_guaranteed(&serde_json::from_value(after["spec"].clone()).unwrap());
        assert_eq!((four(&after["spec"]["containers"][0]), is_still), (expected, stays), "{annotation:?}");
    }
}

#[tokio::test]
async fn limit_ranges_are_read_where_that_is_allowed() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let dir = tempfile::tempdir().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api_server = format!("http://{}", listener.local_addr().unwrap());
    let settings = Settings { api_server, namespaces: vec!["ours".into(), "theirs".into()], ..on() };
    let why = read_limit_ranges(&settings, dir.path()).await.1.unwrap();
    assert!(format!("{why:#}").contains("no token of a service account"), "{why:#}");
    std::fs::write(dir.path().join("token"), "abc\n").unwrap();
    let list = r#"{"apiVersion":"v1","kind":"LimitRangeList","metadata":{},"items":[
        {"metadata":{"namespace":"ours"},"spec":{"limits":[{"type":"Pod","min":{"cpu":"1"}}]}}]}"#;
    let server = async {
        for (status, path) in [("200 OK", "ours"), ("403 Forbidden", "theirs")] {
            let (mut stream, mut bytes) = (listener.accept().await.unwrap().0, [0; 4096]);
            let read = stream.read(&mut bytes).await.unwrap();
            let asked = String::from_utf8_lossy(&bytes[..read]).to_lowercase();
            let is_asked = asked.starts_with(&format!("get /api/v1/namespaces/{path}/limitranges "));
            assert!(is_asked && asked.contains("authorization: bearer abc"), "{asked}");
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", list.len());
            stream.write_all((head + list).as_bytes()).await.unwrap();
        }
    };
    let ((found, why), ()) = tokio::join!(read_limit_ranges(&settings, dir.path()), server);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["ours"]);
    let why = format!("{:#}", why.unwrap());
    assert!(why.contains("theirs") && why.contains("may not list limitranges"), "{why}");
}
