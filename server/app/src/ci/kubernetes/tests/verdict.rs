//! What a pod gets whose job memory ended before.

use super::*;

/// The pod after a verdict with sizes for memory, on an attempt of which it is not known what it had.
fn after_a_kill(pod: &Value, memory_mib: (u64, u64), confidence: f64, settings: &Settings) -> Value {
    let prediction = sizes(memory_mib, (1000, 2000), confidence);
    let source = SizeSource::ByVerdict { cause: Cause::Oom, had_unknown: true };
    planned(pod, settings, (&prediction, source), |_needs| None).0
}

fn with(requests: &Value, limits: &Value) -> Value {
    let mut pod = pod();
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests, "limits": limits});
    pod
}

#[test]
fn unknown_pods_grow_from_their_own_sizes() {
    let own = with(&json!({"memory": "16Gi", "cpu": "4"}), &json!({"memory": "96Gi"}));
    let after = after_a_kill(&own, (6144, 6144), 0.0, &on());
    let expected = json!({"requests": {"memory": "24576Mi", "cpu": "4"}, "limits": {"memory": "147456Mi"}});
    assert_eq!(resources(&after), &expected, "no processor is taken from it or forbidden to it");
    // more than the namespace takes would make no pod at all
    let gib = |n: u64| Some(Bytes(n << 30));
    let capped = Settings { max_memory: gib(128), ..on() };
    assert_eq!(resources(&after_a_kill(&own, (6144, 6144), 0.0, &capped))["limits"]["memory"], "131072Mi");
    let below = Settings { max_memory: gib(64), ..on() };
    assert_eq!(resources(&after_a_kill(&own, (6144, 6144), 0.0, &below))["limits"]["memory"], "96Gi");
    // where it had less than the verdict says, that is what it gets
    let small = with(&json!({"memory": "1Gi"}), &json!({"memory": "1Gi"}));
    assert_eq!(resources(&after_a_kill(&small, (6144, 6144), 0.0, &on()))["limits"]["memory"], "6144Mi");
    let none = with(&json!({"cpu": "1"}), &json!({}));
    assert_eq!(after_a_kill(&none, (6144, 6144), 0.0, &on()), none, "it had no limit");
}

/// Sizes and annotation of a pod after a verdict that names so many MiB.
fn after_verdict(own: &Value, named_mib: u64, had_unknown: bool, settings: &Settings) -> (Value, String) {
    let mut prediction = sizes((named_mib, named_mib), (1000, 2000), 0.0);
    prediction.reason = "memory limit: a step of 100 MiB above 128 MiB".to_owned();
    let source = SizeSource::ByVerdict { cause: Cause::Oom, had_unknown };
    let (after, _) = planned(own, settings, (&prediction, source), |_needs| None);
    let why = after["metadata"]["annotations"]["plimsoll/sized"].as_str().unwrap().to_owned();
    (resources(&after).clone(), why)
}

#[test]
fn the_verdicts_size_is_set_with_its_reason() {
    let own = with(&json!({"memory": "128Mi"}), &json!({"memory": "128Mi"}));
    let (sizes, why) = after_verdict(&own, 228, false, &on());
    assert_eq!(sizes, json!({ "requests": { "memory": "228Mi" }, "limits": { "memory": "228Mi" } }));
    assert_eq!(
        why,
        "memory_request 128Mi -> 228Mi, memory_limit 128Mi -> 228Mi; the last attempt ran out of memory; memory limit: a step of 100 MiB \
         above 128 MiB; too little is known to set cpu_request, cpu_limit"
    );
}

#[test]
fn the_annotation_explains_the_effective_size() {
    let own = with(&json!({"memory": "2Gi"}), &json!({"memory": "4Gi"}));
    // what the last attempt had is not known: the pod's own limit was too little, and its request is below what the verdict names
    let (sizes, why) = after_verdict(&own, 5000, true, &on());
    assert_eq!(sizes, json!({ "requests": { "memory": "5000Mi" }, "limits": { "memory": "6144Mi" } }));
    let step = "memory_limit: a step above 4.00 GiB, which the last attempt is thought to have had; memory limit: a step of 100 MiB";
    assert!(why.contains(step), "{why}");
    let most = Settings { max_memory: Some(Bytes(4608 << 20)), ..on() };
    let (sizes, why) = after_verdict(&own, 5000, false, &most);
    assert_eq!(sizes, json!({ "requests": { "memory": "4608Mi" }, "limits": { "memory": "4608Mi" } }));
    assert!(why.contains("memory_limit: the most that a pod may have") && !why.contains("a step"), "{why}");
    let mut named = own;
    named["metadata"]["annotations"]["plimsoll/memory-limit"] = json!("3Gi");
    let (sizes, why) = after_verdict(&named, 5000, false, &on());
    assert_eq!(sizes, json!({ "requests": { "memory": "3072Mi" }, "limits": { "memory": "3072Mi" } }));
    assert!(
        why.contains(
            "memory_request: a request is never above its limit; memory_limit: as the pod's annotation says"
        ),
        "{why}"
    );
    assert!(!why.contains("a step"), "{why}");
}

#[test]
fn a_known_job_gets_the_verdicts_size() {
    let own = with(&json!({"memory": "16Gi", "cpu": "4"}), &json!({"memory": "96Gi"}));
    let after = after_a_kill(&own, (1500, 1500), 0.9, &on());
    assert_eq!(resources(&after)["limits"]["memory"], "1500Mi", "it was sized by what is known before");
}

#[test]
fn an_evicted_pod_gets_only_a_larger_request() {
    let own = with(&json!({"memory": "100Mi"}), &json!({"memory": "2Gi"}));
    let mut prediction = sizes((699, 2048), (1000, 2000), 0.0);
    prediction.reason = "memory request 699 MiB: what the last attempt used".to_owned();
    let source = SizeSource::ByVerdict { cause: Cause::EvictedByNode, had_unknown: false };
    let (after, _) = planned(&own, &on(), (&prediction, source), |_needs| None);
    let expected = json!({ "requests": { "memory": "699Mi" }, "limits": { "memory": "2Gi" } });
    assert_eq!(resources(&after), &expected);
    let why = after["metadata"]["annotations"]["plimsoll/sized"].as_str().unwrap();
    let begin_or_end = "memory_request 100Mi -> 699Mi; its node evicted the last attempt; memory request 699 MiB: what the last attempt used; ";
    assert!(why.starts_with(begin_or_end), "{why}");
}
