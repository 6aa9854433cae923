//! A patch never makes a pod invalid that the API server would take, and what cannot be used is named.

use plimsoll_core::domain::LowerBound;
use proptest::prelude::*;

use super::*;

/// Sizes as people write them: none, 0 in each spelling, the least, common, the most, and what is none.
const QUANTITIES: [&str; 14] =
    ["", "0", "000m", "0Mi", "1n", "1m", "500m", "2", "1500m", "64Mi", "4Gi", "1E", "2e9", "0.5"];
/// What else an annotation may hold.
const WORDS: [&str; 9] = [
    "off",
    "-1",
    " ",
    "lots",
    "9223372036854775808",
    "1e99",
    "4096",
    "64 Mi",
    "999999999999999999999999999999999999999999",
];

/// The container's sizes with what the API server adds before it asks a webhook: a request for each limit
/// (Kubernetes, pkg/apis/core/v1/defaults.go, `SetDefaults_Pod`).
fn container(sizes: [&str; 4]) -> Value {
    let list = |memory: &str, cpu: &str| {
        let all = [("memory", memory), ("cpu", cpu)].into_iter().filter(|(_, size)| !size.is_empty());
        all.map(|(name, size)| (name.to_owned(), json!(size))).collect::<serde_json::Map<_, _>>()
    };
    let [memory_request, memory_limit, cpu_request, cpu_limit] = sizes;
    let (mut requests, limits) = (list(memory_request, cpu_request), list(memory_limit, cpu_limit));
    for (name, limit) in &limits {
        requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
    json!({ "requests": requests, "limits": limits })
}

/// What the API server demands of a container's sizes: each is a quantity, not negative, and no request is above its limit, also if that is 0
/// (Kubernetes, pkg/apis/core/validation/validation.go, `ValidateContainerResourceRequirements`). Without Plimsoll's own reading.
fn is_valid(container: &Value) -> bool {
    let nano = |size: &Value| -> Option<f64> {
        let text = size.as_str()?;
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let factor = match unit {
            "" => 1.0,
            "n" => 1e-9,
            "m" => 1e-3,
            "Mi" => f64::from(1 << 20),
            "Gi" => f64::from(1 << 30),
            "E" => 1e18,
            "e9" => 1e9,
            _ => return None,
        };
        Some(number.parse::<f64>().ok()? * factor)
    };
    ["memory", "cpu"].into_iter().all(|name| {
        let (request, limit) = (&container["requests"][name], &container["limits"][name]);
        let is_quantity = |size: &Value| size.is_null() || nano(size).is_some();
        let fits = request.is_null() || limit.is_null() || nano(request) <= nano(limit);
        is_quantity(request) && is_quantity(limit) && fits
    })
}

fn quantity() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(QUANTITIES.as_slice())
}

fn annotation() -> impl Strategy<Value = &'static str> {
    proptest::sample::select([QUANTITIES.as_slice(), WORDS.as_slice()].concat())
}

fn predicted() -> impl Strategy<Value = Prediction> {
    let size = || proptest::sample::select(vec![1_u64, 64, 4096, 1 << 20]);
    ((size(), size()), (size(), size()), prop_oneof![Just(0.0), Just(0.9)], any::<[bool; 4]>()).prop_map(
        |(memory, cpu, confidence, known)| {
            let mut prediction = sizes(memory, cpu, confidence);
            prediction.memory_limit.basis.margin = 1.5;
            prediction.memory_request.basis.margin = 1.5;
            for (quantity, is_known) in all_of(&mut prediction).into_iter().zip(known) {
                quantity.basis.rung = if is_known { Rung::Exact } else { Rung::Default };
            }
            if known[0] != known[1] {
                let above = Bytes(4 << 30);
                prediction.lower_bound =
                    Some(LowerBound { above, attempts: 1, rung: Rung::Package, least: Bytes(6 << 30) });
            }
            prediction
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_patch_never_makes_a_valid_pod_invalid(
        own in [quantity(), quantity(), quantity(), quantity()],
        asked in [annotation(), annotation(), annotation(), annotation()],
        whole in quantity(),
        prediction in predicted(),
        by_verdict in any::<bool>(),
        set in any::<[bool; 4]>(),
    ) {
        let mut value = pod();
        value["spec"]["containers"][0]["resources"] = container(own);
        if !is_valid(resources(&value)) {
            // the limits alone: the API server adds the same requests
            value["spec"]["containers"][0]["resources"] = container(["", own[1], "", own[3]]);
        }
        if !whole.is_empty() {
            value["spec"]["resources"] = json!({ "limits": { "memory": whole } });
        }
        for (size, text) in PodSize::ALL.into_iter().zip(asked) {
            value["metadata"]["annotations"][own_sizes::annotation_of(size)] = json!(text);
        }
        let chosen = PodSize::ALL.into_iter().zip(set).filter_map(|(size, set)| set.then_some(size)).collect();
        let settings = Settings { sizes: chosen, max_memory: Some(Bytes(64 << 30)), ..on() };
        let typed = parse(value.clone());
        let job = match job_of_pod(&typed, "ci-builds", &settings) {
            Ok(job) => job,
            Err(why) => {
                prop_assert_eq!((why, whole.is_empty()), (SkipReason::PodSizes, false));
                return Ok(());
            }
        };
        let from = if by_verdict { SizeSource::ByVerdict { cause: Cause::Oom, had_unknown: true } } else { SizeSource::ByHistory };
        let plan = plan(&typed, &job, Some((&prediction, from)), (&settings, &LimitRanges::default()), |_needs| None).unwrap();
        let mut after = value.clone();
        if let Some(patch) = &plan.patch {
            json_patch::patch(&mut after, patch).unwrap();
        }
        prop_assert!(is_valid(resources(&after)), "{} -> {}", resources(&value), resources(&after));
        let skipped = &after["metadata"]["annotations"]["plimsoll/skipped"];
        prop_assert_eq!(skipped.is_null(), plan.skipped.is_empty());
        // each annotation is used, or says that nothing is to be done, or is named
        for (size, text) in PodSize::ALL.into_iter().zip(asked) {
            let name = own_sizes::annotation_of(size);
            let named = |words: &str| skipped.as_str().is_some_and(|all| all.contains(words));
            let is_named = named(&name) || named(&own_sizes::path(size)) || named("does not go with");
            let is_none = ["", "off"].contains(&text);
            let is_used = own_sizes::parse_annotation(size, text).is_ok();
            prop_assert!(is_none || is_used || is_named, "{name} {text:?}: {skipped}");
        }
    }
}

#[test]
fn a_zero_limit_never_invalidates_a_pod() {
    let mut value = pod();
    value["spec"]["containers"][0]["resources"] =
        json!({ "requests": { "memory": "1Gi", "cpu": "0" }, "limits": { "memory": "2Gi", "cpu": "0" } });
    let prediction = sizes((2048, 4096), (1500, 3000), 0.9);
    let both = patched(&value, &prediction, &on()).0;
    assert_eq!(resources(&both)["requests"]["cpu"], json!("1500m"), "with the predicted limit");
    let settings = Settings { sizes: vec![PodSize::CpuRequest, PodSize::MemoryLimit], ..on() };
    let (after, plan) = patched(&value, &prediction, &settings);
    let expected =
        json!({ "requests": { "memory": "1Gi", "cpu": "0" }, "limits": { "memory": "4096Mi", "cpu": "0" } });
    assert_eq!(resources(&after), &expected, "the memory is sized all the same");
    assert_eq!(plan.skipped.fields(), ["resources.requests.cpu"]);
    let named = after["metadata"]["annotations"]["plimsoll/skipped"].as_str().unwrap();
    assert_eq!(
        named,
        "resources.requests.cpu: 1500m does not go with resources.limits.cpu 0: both stay as they are"
    );
}

#[test]
fn unusable_values_are_reported_once_and_skipped() {
    let mut value = pod();
    value["metadata"]["annotations"]["plimsoll/memory-limit"] = json!("lots");
    value["metadata"]["annotations"]["plimsoll/cpu-limit"] = json!("0");
    let prediction = sizes((2048, 4096), (1500, 3000), 0.9);
    let (after, plan) = patched(&value, &prediction, &on());
    assert_eq!(plan.skipped.fields(), ["plimsoll/memory-limit", "plimsoll/cpu-limit"]);
    assert_eq!(resources(&after)["requests"]["memory"], json!("2048Mi"));
    assert_eq!(resources(&after)["limits"]["memory"], json!("96G"), "as the pod has it");
    // where nothing else is done, too, and a second look changes nothing
    let unsure = sizes((2048, 4096), (1500, 3000), 0.0);
    let (after, plan) = patched(&value, &unsure, &on());
    assert!(plan.patch.is_some() && !plan.sized);
    let named = after["metadata"]["annotations"]["plimsoll/skipped"].as_str().unwrap();
    assert!(named.starts_with("plimsoll/memory-limit: \"lots\" is not a size"), "{named}");
    assert!(patched(&after, &unsure, &on()).1.patch.is_none());
}
