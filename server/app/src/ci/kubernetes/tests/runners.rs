//! Pods as releases of GitLab's runner make them. What differs is from its source: `executors/kubernetes/kubernetes.go`.

use plimsoll_core::placement::OperatingSystem;

use super::*;

/// The pod of a job as this release makes it. Those after 18.10 make it as that does.
fn made_by(release: &str) -> Value {
    let mut value = pod();
    let of_runner = |name: &String| !name.contains("runner.gitlab.com/");
    let without = |map: &mut Value, keep: &dyn Fn(&String) -> bool| {
        map.as_object_mut().unwrap().retain(|name, _| keep(name));
    };
    // a pointer that is never nil, to a structure that may be empty
    value["spec"]["affinity"] = json!({});
    value["spec"]["securityContext"] = json!({});
    match release {
        // annotations of the runner came with 15.9
        "15.0" => {
            without(&mut value["metadata"]["annotations"], &of_runner);
            without(&mut value["metadata"]["labels"], &of_runner);
            value["metadata"]["labels"]["pod"] = json!("runner-abcdefg-project-23-concurrent-0");
        }
        "15.9" | "16.7" => {
            without(&mut value["metadata"]["labels"], &of_runner);
            value["metadata"]["labels"]["pod"] = json!("runner-abcdefg-project-23-concurrent-0");
        }
        "17.6" | "18.5" => {}
        "18.10" => {
            value["metadata"]["annotations"]["job.runner.gitlab.com/timeout"] = json!("6h1m40s");
            value["spec"]["resources"] = json!({});
        }
        other => panic!("{other}"),
    }
    value
}

const RELEASES: [&str; 6] = ["15.0", "15.9", "16.7", "17.6", "18.5", "18.10"];

#[test]
fn pods_of_every_runner_release_are_supported() {
    let settings = Settings { agent_image: Some("registry/agent:1".into()), ..on() };
    for release in RELEASES {
        let made = made_by(release);
        let job = job_of_pod(&parse(made.clone()), "ci-builds", &settings).unwrap_or_else(|skip_reason| {
            panic!("the pod of runner {release} is left alone: {}", skip_reason.as_str());
        });
        let key = key_of(&job);
        assert_eq!(key.package.as_str(), "curl", "{release}");
        assert_eq!(key.project.as_str(), "spack/spack-packages", "{release}");
        assert_eq!(job_id(&parse(made.clone())).as_deref(), Some("12345"), "{release}");
        let (after, plan) = patched(&made, &sizes((2048, 4096), (1500, 3000), 0.9), &settings);
        assert!(plan.sized && plan.skip_reason.is_none(), "{release}");
        assert_eq!(resources(&after)["limits"]["memory"], "4096Mi", "{release}");
        let agents = after["spec"]["initContainers"].as_array().unwrap();
        assert!(agents.iter().any(|container| container["name"] == "plimsoll"), "{release}");
        assert_eq!(after["spec"]["resources"], made["spec"]["resources"], "{release}");
    }
}

#[test]
fn only_nonempty_pod_level_resources_skip_sizing() {
    let skip_reason = |sizes: Value| {
        let mut value = made_by("18.10");
        value["spec"]["resources"] = sizes;
        job_of_pod(&parse(value), "ci-builds", &on()).err()
    };
    for none in [
        json!(null),
        json!({}),
        json!({ "limits": {} }),
        json!({ "requests": {}, "limits": {}, "claims": [] }),
        json!({ "requests": null, "limits": null }),
    ] {
        assert_eq!(skip_reason(none.clone()), None, "{none}");
    }
    for some in [
        json!({ "limits": { "memory": "1Gi" } }),
        json!({ "limits": {}, "requests": { "cpu": "1" } }),
        json!({ "claims": [{ "name": "gpu" }] }),
    ] {
        assert_eq!(skip_reason(some.clone()), Some(SkipReason::PodSizes), "{some}");
    }
}

#[test]
fn windows_pods_are_detected_and_get_no_agent() {
    let settings = Settings { agent_image: Some("registry/agent:1".into()), ..on() };
    let required = |expression: Value| {
        let terms = json!([{ "matchExpressions": [expression] }]);
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } })
    };
    let os = |key: &str, values: &[&str]| required(json!({ "key": key, "operator": "In", "values": values }));
    let windows = Some(OperatingSystem::Windows);
    let ways = [
        ("os", json!({ "name": "windows" }), windows),
        ("os", json!({ "name": "linux" }), Some(OperatingSystem::Linux)),
        ("nodeSelector", json!({ "kubernetes.io/os": "windows" }), windows),
        ("nodeSelector", json!({ "beta.kubernetes.io/os": "windows" }), windows),
        ("nodeSelector", json!({ "node.kubernetes.io/windows-build": "10.0.20348" }), windows),
        ("securityContext", json!({ "windowsOptions": { "runAsUserName": "x" } }), windows),
        ("affinity", os("kubernetes.io/os", &["windows"]), windows),
        ("affinity", os("kubernetes.io/os", &["windows", "linux"]), None),
        ("affinity", json!({}), None),
    ];
    for (field, value, expected) in ways {
        let mut made = pod();
        made["spec"][field] = value.clone();
        let typed = parse(made);
        let job = job_of_pod(&typed, "ci-builds", &settings).unwrap();
        assert_eq!(job.os, expected, "{field}: {value}");
        if expected == windows {
            let plan = plan(&typed, &job, None, (&settings, &LimitRanges::default()), |_needs| None).unwrap();
            assert!(plan.patch.is_none(), "{field}: {value}");
            assert_eq!(plan.skip_reason, Some(SkipReason::OtherSystem), "{field}: {value}");
        }
    }
}
