//! Pods that are sent to a pool.

use plimsoll_core::placement::{BuildKind, Placement, RuleSubject};

use super::*;

const POOLS: &str = r#"
[[pool]]
name = "big"
cores = 8
memory = "8GiB"
price_gib_hour = 1
node_selector = { "spack.io/node-pool" = "gitlab", size = "big" }
tolerations = [{ key = "ci", value = "big", effect = "NoSchedule" }]
priority_class = "ci"

[[pool]]
name = "small"
cores = 2
memory = "4GiB"
node_selector = { size = "small" }

[kind.auto]
node_selector = { builds_auto = "true" }
priority_class = "ci-low"
"#;

/// Where a pod of a key with these labels shall run, by its own sizes.
fn aim(labels: &[(&str, &str)], needs: &ResourceNeeds) -> PlacementTarget {
    let placement = Placement::parse(POOLS).unwrap();
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let key = Key { labels, ..Key::default() };
    let subject = RuleSubject::of(&key);
    let choice = placement.choose(&subject, needs, &|_| 0);
    let pool = choice.pool.filter(|_| !choice.clamped);
    assert!([BuildKind::Auto, BuildKind::Explicit].contains(&subject.kind));
    PlacementTarget {
        pool: pool.map(|pool| pool.name.clone()).unwrap_or_default(),
        place: placement.place(&subject, pool),
        reason: choice.reason,
    }
}

/// The pod after a plan that puts it into a pool.
fn placed(pod: &Value, memory_mib: (u64, u64), labels: &[(&str, &str)]) -> (Value, Plan) {
    let settings = Settings { agent_image: Some("registry/agent:1".into()), ..on() };
    let prediction = sizes(memory_mib, (1500, 3000), 0.9);
    planned(pod, &settings, (&prediction, SizeSource::ByHistory), |needs| Some(aim(labels, needs)))
}

/// A variable of the agent.
fn of_agent(pod: &Value, name: &str) -> Option<String> {
    let env = pod["spec"]["initContainers"][1]["env"].as_array().unwrap().clone();
    env.iter().find(|entry| entry["name"] == name).map(|entry| entry["value"].as_str().unwrap().to_owned())
}

#[test]
fn a_pool_sets_nodes_tolerations_and_priority() {
    let mut value = pod();
    // as the API server has it when it asks
    value["spec"]["priority"] = json!(0);
    value["spec"]["preemptionPolicy"] = json!("PreemptLowerPriority");
    // no disk that these pools are too small for
    let (after, plan) = placed(&value, (6144, 8192), &[]);
    let spec = &after["spec"];
    let expected = json!({ "kubernetes.io/arch": "amd64", "spack.io/node-pool": "gitlab", "size": "big" });
    assert_eq!(spec["nodeSelector"], expected);
    let expected = json!({ "key": "ci", "operator": "Equal", "value": "big", "effect": "NoSchedule" });
    assert_eq!(spec["tolerations"][1], expected);
    assert_eq!(spec["tolerations"][0], pod()["spec"]["tolerations"][0]);
    assert_eq!(spec["priorityClassName"], json!("ci"));
    // it would be refused with the number of another class
    assert!(spec["priority"].is_null() && spec["preemptionPolicy"].is_null(), "{spec}");
    assert!(plan.placed && plan.sized);
    let why = after["metadata"]["annotations"]["plimsoll/placed"].as_str().unwrap();
    assert!(why.contains("node_selector size=big, 1 tolerations, priority_class ci; pool big"), "{why}");
    assert_eq!(of_agent(&after, "PLIMSOLL_POOL").as_deref(), Some("big"));
}

#[test]
fn a_placed_pod_is_not_placed_again() {
    let mut after = placed(&pod(), (6144, 8192), &[]).0;
    after["metadata"]["annotations"].as_object_mut().unwrap().remove("plimsoll/sized");
    let (again, plan) = placed(&after, (1024, 2048), &[]);
    assert!(!plan.placed);
    assert_eq!(again["spec"]["nodeSelector"], after["spec"]["nodeSelector"]);
    let mut noted = pod();
    noted["metadata"]["annotations"]["plimsoll/placed"] = json!("before");
    assert!(!placed(&noted, (6144, 8192), &[]).1.placed);
    // also without the note: what is there stays as it is
    after["metadata"]["annotations"].as_object_mut().unwrap().remove("plimsoll/placed");
    let (again, plan) = placed(&after, (6144, 8192), &[]);
    assert!(!plan.placed && again["spec"]["tolerations"] == after["spec"]["tolerations"], "{:?}", plan.lines);
}

#[test]
fn a_pod_that_wants_other_nodes_keeps_them() {
    let mut value = pod();
    value["spec"]["nodeSelector"]["size"] = json!("huge");
    let (after, plan) = placed(&value, (6144, 8192), &[("kind", "auto")]);
    assert_eq!(after["spec"]["nodeSelector"], value["spec"]["nodeSelector"]);
    assert_eq!(after["spec"]["tolerations"], value["spec"]["tolerations"]);
    // when, and not where
    assert_eq!(after["spec"]["priorityClassName"], json!("ci-low"));
    assert_eq!((plan.placed, of_agent(&after, "PLIMSOLL_POOL")), (true, None));
    let mut required = pod();
    required["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "size", "operator": "In", "values": ["huge"] }] }],
    });
    let (after, _) = placed(&required, (6144, 8192), &[]);
    assert_eq!(after["spec"]["nodeSelector"], pod()["spec"]["nodeSelector"]);
    assert_eq!(of_agent(&after, "PLIMSOLL_POOL"), None);
    let mut fixed = pod();
    fixed["spec"]["nodeName"] = json!("node-7");
    fixed["spec"]["priorityClassName"] = json!("mine");
    assert!(!placed(&fixed, (6144, 8192), &[]).1.placed);
}

#[test]
fn pods_may_opt_out_of_each_dimension() {
    let with = |name: &str| {
        let mut value = pod();
        value["metadata"]["annotations"][name] = json!("off");
        placed(&value, (6144, 8192), &[])
    };
    let spec = |name: &str| with(name).0["spec"].clone();
    assert_eq!(spec("plimsoll/node-selector")["nodeSelector"], pod()["spec"]["nodeSelector"]);
    assert_eq!(spec("plimsoll/node-selector")["priorityClassName"], json!("ci"));
    assert_eq!(spec("plimsoll/tolerations")["tolerations"], pod()["spec"]["tolerations"]);
    assert!(spec("plimsoll/priority-class")["priorityClassName"].is_null());
    let (after, plan) = with("plimsoll/pool");
    assert!(!plan.placed && plan.sized, "{:?}", plan.lines);
    assert_eq!(after["spec"]["nodeSelector"], pod()["spec"]["nodeSelector"]);
}

#[test]
fn pods_whose_sizes_fit_no_pool_stay_unplaced() {
    let mut value = pod();
    value["metadata"]["annotations"]["plimsoll/memory-request"] = json!("16Gi");
    let (after, _) = placed(&value, (1024, 2048), &[("kind", "auto")]);
    let mut expected = pod()["spec"]["nodeSelector"].clone();
    expected["builds_auto"] = json!("true");
    assert_eq!(after["spec"]["nodeSelector"], expected);
    assert_eq!(of_agent(&after, "PLIMSOLL_POOL").unwrap_or_default(), "");
}

#[test]
fn the_priority_that_a_pod_has_stays() {
    let mut value = pod();
    value["spec"]["priorityClassName"] = json!("mine");
    value["spec"]["priority"] = json!(7);
    let (after, _) = placed(&value, (1024, 2048), &[("kind", "auto")]);
    assert_eq!(after["spec"]["priorityClassName"], "mine");
    assert_eq!(after["spec"]["priority"], 7);
}
