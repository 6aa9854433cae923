//! What a pod gets whose job memory ended before.

use plimsoll_core::domain::Resources;

use super::*;

/// The pod after a verdict with sizes for memory, each half as much again as what was thought to be too little.
fn after_a_kill(pod: &Value, memory_mib: (u64, u64), confidence: f64, settings: &Settings) -> Value {
    let mut prediction = sizes(memory_mib, (1000, 2000), confidence);
    prediction.memory_limit.basis.margin = 1.5;
    prediction.memory_request.basis.margin = 1.5;
    let typed = parse(pod.clone());
    let job = job(&typed, "ci-builds", settings).unwrap();
    let plan =
        plan(&typed, &job, Some((&prediction, SizeSource::ByVerdict { had: None })), settings, |_needs| None)
            .unwrap();
    let mut after = pod.clone();
    if let Some(patch) = &plan.patch {
        json_patch::patch(&mut after, patch).unwrap();
    }
    after
}

fn with(requests: &Value, limits: &Value) -> Value {
    let mut pod = pod();
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests, "limits": limits});
    pod
}

#[test]
fn an_unknown_pod_gets_more_than_it_had_and_not_the_default() {
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

#[test]
fn a_pod_grows_from_what_the_last_one_had_and_not_again_from_what_its_variables_say() {
    let own = with(&json!({"memory": "2Gi", "cpu": "4"}), &json!({"memory": "4Gi"}));
    let grown = |had: Option<(u64, u64)>| {
        let mut prediction = sizes((6144, 6144), (1000, 2000), 0.0);
        prediction.memory_limit.basis.margin = 1.5;
        prediction.memory_request.basis.margin = 1.5;
        let had = had.map(|(request, limit)| Resources {
            memory_request: Some(Bytes(request << 20)),
            memory_limit: Some(Bytes(limit << 20)),
            ..Resources::default()
        });
        let typed = parse(own.clone());
        let job = job(&typed, "ci-builds", &on()).unwrap();
        let known = Some((&prediction, SizeSource::ByVerdict { had }));
        let mut after = own.clone();
        let plan = plan(&typed, &job, known, &on(), |_needs| None).unwrap();
        json_patch::patch(&mut after, plan.patch.as_ref().unwrap()).unwrap();
        resources(&after).clone()
    };
    let expected = |request: &str, limit: &str| json!({ "requests": { "memory": request, "cpu": "4" }, "limits": { "memory": limit } });
    assert_eq!(grown(Some((2048, 4096))), expected("3072Mi", "6144Mi"));
    assert_eq!(grown(Some((3072, 6144))), expected("4608Mi", "9216Mi"));
    assert_eq!(grown(None), expected("6144Mi", "6144Mi"), "its pod was not seen");
}

#[test]
fn a_pod_whose_job_is_known_gets_what_the_verdict_says() {
    let own = with(&json!({"memory": "16Gi", "cpu": "4"}), &json!({"memory": "96Gi"}));
    let after = after_a_kill(&own, (1500, 1500), 0.9, &on());
    assert_eq!(resources(&after)["limits"]["memory"], "1500Mi", "it was sized by what is known before");
}
