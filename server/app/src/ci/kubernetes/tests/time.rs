//! What a pod says of the time of its build.

use std::time::Duration;

use super::*;

const KUEUE: &str = "kueue.x-k8s.io/max-exec-time-seconds";

fn timed(max_time: Option<f64>, long_from_minutes: Option<u64>) -> Settings {
    let long_from = long_from_minutes.map(|minutes| Duration::from_secs(minutes * 60));
    Settings { max_time, long_from, ..on() }
}

/// A prediction of so many seconds at p95.
fn seconds(p95: u64) -> Prediction {
    let mut prediction = sizes((1024, 2048), (1000, 2000), 0.9);
    prediction.wall_p95.value = p95 * 1000 + 1;
    prediction
}

#[test]
fn kueue_max_time_uses_the_operators_factor() {
    let (after, plan) = patched(&pod(), &seconds(600), &timed(Some(2.0), None));
    assert_eq!(after["metadata"]["labels"][KUEUE], json!("1201"), "rounded up");
    assert!(plan.placed && plan.lines.iter().any(|line| line.contains("max-exec-time-seconds=1201")));
    // Kueue keeps an int32, and takes no 0
    let (after, _) = patched(&pod(), &seconds(u64::from(u32::MAX)), &timed(Some(100.0), None));
    assert_eq!(after["metadata"]["labels"][KUEUE], json!("2147483647"));
    // it is not configured: Kueue would end what takes longer
    let (after, _) = patched(&pod(), &seconds(600), &on());
    assert!(after["metadata"]["labels"].get(KUEUE).is_none());
}

#[test]
fn pods_prefer_nodes_with_builds_of_similar_length() {
    for (p95, length) in [(3600, "long"), (60, "short")] {
        let (after, _) = patched(&pod(), &seconds(p95), &timed(None, Some(30)));
        assert_eq!(after["metadata"]["labels"]["plimsoll/length"], json!(length));
        let affinity = &after["spec"]["affinity"]["podAffinity"];
        let term = &affinity["preferredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(term["podAffinityTerm"]["labelSelector"]["matchLabels"]["plimsoll/length"], json!(length));
        assert_eq!(term["podAffinityTerm"]["topologyKey"], json!("kubernetes.io/hostname"));
        assert!(affinity.get("requiredDuringSchedulingIgnoredDuringExecution").is_none());
    }
}

#[test]
fn existing_time_settings_stay_and_patches_are_idempotent() {
    let settings = Settings { sizes: Vec::new(), ..timed(Some(1.5), Some(30)) };
    let mut value = pod();
    value["metadata"]["labels"][KUEUE] = json!("7");
    value["spec"]["affinity"] = json!({ "podAffinity": {} });
    let (after, _) = patched(&value, &seconds(3600), &settings);
    assert_eq!(after["metadata"]["labels"][KUEUE], json!("7"));
    assert_eq!(after["spec"]["affinity"], value["spec"]["affinity"]);
    let (once, _) = patched(&pod(), &seconds(3600), &settings);
    let (twice, plan) = patched(&once, &seconds(60), &settings);
    assert!(plan.patch.is_none() && once == twice, "{:?}", plan.lines);
    let mut value = pod();
    value["metadata"]["annotations"]["plimsoll/max-time"] = json!("off");
    value["metadata"]["annotations"]["plimsoll/length"] = json!("off");
    assert!(patched(&value, &seconds(3600), &settings).1.patch.is_none());
}

#[test]
fn a_guess_says_nothing_of_time() {
    let guess = Prediction { confidence: 0.1, ..seconds(3600) };
    let (_, plan) = patched(&pod(), &guess, &timed(Some(1.5), Some(30)));
    assert!(plan.patch.is_none(), "{:?}", plan.lines);
}
