//! What becomes of pods, and of the agent beside the build.

mod limit_range;
mod place;
mod runners;
mod sure;
mod time;
mod token;
mod valid;
mod verdict;

use plimsoll_core::{
    domain::{Bytes, Cause, Cores, History, Key, Quantity, Rung},
    predict,
};
use serde_json::{Value, json};

use super::*;

/// The pod that GitLab's runner makes for a job of Spack's CI.
fn pod() -> Value {
    serde_json::from_str(include_str!("testdata/gitlab_pod.json")).unwrap()
}

fn parse(pod: Value) -> Pod {
    serde_json::from_value(pod).unwrap()
}

fn on() -> Settings {
    Settings { mode: AdmissionMode::On, ..Settings::default() }
}

fn sizes(memory_mib: (u64, u64), milli: (u64, u64), confidence: f64) -> Prediction {
    let mut prediction = predict::predict(&History::new(1), &Key::default(), &predict::Settings::default());
    prediction.memory_request.value = memory_mib.0 << 20;
    prediction.memory_limit.value = memory_mib.1 << 20;
    (prediction.cpu_request.value, prediction.cpu_limit.value) = milli;
    prediction.confidence = confidence;
    for quantity in all_of(&mut prediction) {
        quantity.basis.rung = Rung::Exact;
    }
    prediction
}

/// Everything that is predicted.
fn all_of(prediction: &mut Prediction) -> [&mut Quantity; 7] {
    let Prediction {
        memory_request,
        memory_limit,
        cpu_request,
        cpu_limit,
        build_jobs,
        wall_p50,
        wall_p95,
        ..
    } = prediction;
    [memory_request, memory_limit, cpu_request, cpu_limit, build_jobs, wall_p50, wall_p95]
}

/// The pod after the plan, and the plan.
fn patched(pod: &Value, prediction: &Prediction, settings: &Settings) -> (Value, Plan) {
    planned(pod, settings, (prediction, SizeSource::ByHistory), |_needs| None)
}

/// The pod after a plan with sizes from this source and a pool by `aim`, and the plan.
fn planned(
    pod: &Value,
    settings: &Settings,
    known: (&Prediction, SizeSource),
    aim: impl FnOnce(&ResourceNeeds) -> Option<PlacementTarget>,
) -> (Value, Plan) {
    let typed = parse(pod.clone());
    let job = job_of_pod(&typed, "ci-builds", settings).unwrap();
    let plan = plan(&typed, &job, Some(known), (settings, &LimitRanges::default()), aim).unwrap();
    let mut after = pod.clone();
    if let Some(patch) = &plan.patch {
        json_patch::patch(&mut after, patch).unwrap();
    }
    (after, plan)
}

fn key_of(job: &PodJob) -> plimsoll_proto::v1::Key {
    plimsoll_proto::job::key(|name| job.variable(name))
}

fn resources(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["resources"]
}

#[test]
fn environment_annotations_and_labels_together_are_the_job() {
    let job = job_of_pod(&parse(pod()), "ci-builds", &on()).unwrap();
    let key = key_of(&job);
    let fields = [&key.package, &key.version, &key.compiler, &key.compiler_version, &key.arch, &key.stack];
    assert_eq!(fields, ["curl", "8.15.0", "gcc", "12.2.0", "linux-debian12-x86_64_v3", "e4s"]);
    assert_eq!((key.project.as_str(), key.r#ref.as_str()), ("spack/spack-packages", "develop"));
    assert_eq!(key.build_system, "autotools");
    assert_eq!(key.hints.unwrap().build_jobs, Some(4));
    assert_eq!(key.labels["pipeline"].as_str(), "777");
    assert_eq!(key.labels["job"].as_str(), "curl@8.15.0 /abcdefg");
}

#[test]
fn the_project_falls_back_to_pod_labels() {
    let mut value = pod();
    value["spec"]["containers"][0]["env"] = json!([]);
    let job = job_of_pod(&parse(value), "ci-builds", &on()).unwrap();
    assert_eq!(key_of(&job).project, "spack/spack-packages");
}

#[test]
fn runner_values_override_the_jobs_variables() {
    let mut value = pod();
    let variables = value["spec"]["containers"][0]["env"].as_array_mut().unwrap();
    variables.push(json!({ "name": "CI_JOB_ID", "value": "1" }));
    variables.push(json!({ "name": "CI_COMMIT_REF_NAME", "value": "main" }));
    let job = job_of_pod(&parse(value), "ci-builds", &on()).unwrap();
    assert_eq!((job.variable("CI_JOB_ID").unwrap(), key_of(&job).r#ref), ("12345".into(), "develop".into()));
}

#[test]
fn jobs_cannot_claim_other_projects_or_priority() {
    let mut value = pod();
    let variables = value["spec"]["containers"][0]["env"].as_array_mut().unwrap();
    for (name, fields) in [
        ("CI_PROJECT_PATH", "team/heavy"),
        ("PLIMSOLL_SECURITY_FIX", "true"),
        ("PLIMSOLL_BUILD_KIND", "auto"),
    ] {
        variables.push(json!({ "name": name, "value": fields }));
    }
    let key = |job: &PodJob, settings: &Settings| {
        let key = plimsoll_core::validated::key(Some(key_of(job))).unwrap();
        job.trusted_key(&key, settings)
    };
    let with_url = job_of_pod(&parse(value.clone()), "ci-builds", &on()).unwrap();
    let known = key(&with_url, &on());
    assert_eq!((known.project.as_str(), known.owner.as_str()), ("spack/spack-packages", ""));
    assert!(!known.labels.contains_key("kind") && !known.labels.contains_key("security"), "{known:?}");
    let trusting = Settings { trust_variables: true, ..on() };
    let trusted = key(&with_url, &trusting);
    assert_eq!((&*trusted.labels["kind"], &*trusted.labels["security"]), ("auto", "true"));
    // also its sizes are not those of another project
    assert_eq!(trusted.project, "spack/spack-packages");
    value["metadata"]["annotations"].as_object_mut().unwrap().remove("job.runner.gitlab.com/url");
    let without = job_of_pod(&parse(value), "ci-builds", &on()).unwrap();
    assert_eq!(key(&without, &on()).project.as_str(), "");
    assert_eq!(key(&without, &trusting).project.as_str(), "team/heavy");
}

#[test]
fn jobs_without_spec_use_name_and_node() {
    let mut value = pod();
    value["metadata"]["annotations"] = json!({});
    let job = job_of_pod(&parse(value), "ci-builds", &on()).unwrap();
    assert_eq!(key_of(&job).package, "curl@8.15.0 /abcdefg");
    assert_eq!(job.arch, Some("x86_64".to_owned()));
}

#[test]
fn only_the_build_containers_sizes_change() {
    let (after, plan) = patched(&pod(), &sizes((2048, 4096), (1500, 3000), 0.9), &on());
    let expected = json!({
        "limits": { "memory": "4096Mi", "cpu": "3000m" },
        "requests": { "cpu": "1500m", "memory": "2048Mi", "ephemeral-storage": "10Gi" },
    });
    assert_eq!(resources(&after), &expected);
    assert_eq!(plan.lines.len(), 4, "{:?}", plan.lines);
    assert_eq!(plan.lines[0], "memory_request 16G -> 2048Mi");
    let done = after["metadata"]["annotations"]["plimsoll/sized"].as_str().unwrap();
    assert!(done.contains("memory_limit 96G -> 4096Mi"), "{done}");
    let mut rest = after.clone();
    rest["metadata"]["annotations"].as_object_mut().unwrap().remove("plimsoll/sized");
    rest["spec"]["containers"][0]["resources"] = resources(&pod()).clone();
    assert_eq!(rest, pod());
}

#[test]
fn a_second_look_changes_nothing() {
    let settings = Settings { agent_image: Some("registry/agent:1".into()), ..on() };
    let prediction = sizes((2048, 4096), (1500, 3000), 0.9);
    let (after, _) = patched(&pod(), &prediction, &settings);
    assert_eq!(job_of_pod(&parse(after), "ci-builds", &settings), Err(SkipReason::Done));
    // also where only the agent was added
    let unsure = sizes((2048, 4096), (1500, 3000), 0.0);
    let (after, plan) = patched(&pod(), &unsure, &settings);
    assert!(!plan.sized && plan.patch.is_some());
    assert!(patched(&after, &unsure, &settings).1.patch.is_none());
}

#[test]
fn guesses_set_nothing_but_verdicts_always_apply() {
    let mut guess = sizes((2048, 4096), (1500, 3000), 0.49);
    assert!(patched(&pod(), &guess, &on()).1.patch.is_none());
    guess.memory_limit.basis.margin = 1.5;
    let typed = parse(pod());
    let job = job_of_pod(&typed, "ci-builds", &on()).unwrap();
    let plan = plan(
        &typed,
        &job,
        Some((&guess, SizeSource::ByVerdict { cause: Cause::Oom, had_unknown: true })),
        (&on(), &LimitRanges::default()),
        |_needs| None,
    )
    .unwrap();
    assert!(plan.sized);
}

#[test]
fn requests_stay_within_caps_and_limits() {
    let settings = Settings { max_memory: Some(Bytes(3 << 30)), max_cpu: Some(Cores(2.0)), ..on() };
    let (after, _) = patched(&pod(), &sizes((8192, 16384), (4000, 8000), 0.9), &settings);
    let fields = resources(&after);
    assert_eq!(fields["requests"]["memory"], "3072Mi");
    assert_eq!(fields["limits"]["memory"], "3072Mi");
    assert_eq!((&fields["requests"]["cpu"], &fields["limits"]["cpu"]), (&json!("2000m"), &json!("2000m")));
}

#[test]
fn an_unchanged_size_bounds_the_other() {
    let mut value = pod();
    value["spec"]["containers"][0]["resources"] =
        json!({ "limits": { "memory": "1Gi" }, "requests": { "memory": "1Gi" } });
    let only = |sizes: &[PodSize]| Settings { sizes: sizes.to_vec(), ..on() };
    let (after, _) = patched(&value, &sizes((2048, 4096), (1, 1), 0.9), &only(&[PodSize::MemoryRequest]));
    assert_eq!(resources(&after)["requests"]["memory"], json!("1024Mi"));
    let (after, _) = patched(&value, &sizes((100, 200), (1, 1), 0.9), &only(&[PodSize::MemoryLimit]));
    assert_eq!(resources(&after)["limits"]["memory"], json!("1024Mi"));
}

#[test]
fn a_pod_keeps_what_its_annotations_say() {
    let with = |name: &str, text: &str| {
        let mut value = pod();
        value["metadata"]["annotations"][name] = json!(text);
        value
    };
    let prediction = sizes((2048, 4096), (1500, 3000), 0.9);
    let off = with("plimsoll/admit", "off");
    assert_eq!(job_of_pod(&parse(off), "ci-builds", &on()), Err(SkipReason::OptedOut));
    let (after, _) = patched(&with("plimsoll/memory-limit", "off"), &prediction, &on());
    assert_eq!(resources(&after)["limits"]["memory"], json!("96G"));
    let (after, _) = patched(&with("plimsoll/memory-limit", "5Gi"), &prediction, &on());
    assert_eq!(resources(&after)["limits"]["memory"], json!("5120Mi"));
    // no further than the operator allows
    let bounded = Settings { max_memory: Some(Bytes(4 << 30)), ..on() };
    let (after, _) = patched(&with("plimsoll/memory-limit", "5Gi"), &prediction, &bounded);
    assert_eq!(resources(&after)["limits"]["memory"], json!("4096Mi"));
    // a request by hand lifts the limit that we choose
    let (after, _) = patched(&with("plimsoll/memory-request", "6Gi"), &prediction, &on());
    assert_eq!(resources(&after)["limits"]["memory"], json!("6144Mi"));
    let (after, _) = patched(&with("plimsoll/memory-request", "lots"), &prediction, &on());
    assert_eq!(resources(&after)["requests"]["memory"], json!("16G"));
    // what is not whole MiB is written as it is, and never rounded below its request
    let (after, _) = patched(&with("plimsoll/memory-request", "5G"), &prediction, &on());
    assert_eq!(resources(&after)["limits"]["memory"], json!("5000000000"));
    // two by hand that contradict each other: the API server would refuse the pod
    let mut both = with("plimsoll/memory-request", "6Gi");
    both["metadata"]["annotations"]["plimsoll/memory-limit"] = json!("5Gi");
    let (after, _) = patched(&both, &prediction, &on());
    assert_eq!(resources(&after)["requests"]["memory"], "16G");
    assert_eq!(resources(&after)["limits"]["memory"], "96G");
}

#[test]
fn pods_that_are_not_known_are_left_alone() {
    let skip_reason = |change: fn(&mut Value)| {
        let mut value = pod();
        change(&mut value);
        job_of_pod(&parse(value), "ci-builds", &on()).unwrap_err()
    };
    assert_eq!(skip_reason(|pod| pod["spec"]["containers"][0]["name"] = json!("main")), SkipReason::NotAJob);
    let pod_sizes = skip_reason(|pod| pod["spec"]["resources"] = json!({ "limits": { "memory": "1Gi" } }));
    assert_eq!(pod_sizes, SkipReason::PodSizes);
    let foreign = |pod: &mut Value| {
        pod["metadata"]["annotations"] = json!(null);
        pod["spec"]["containers"][0]["env"] = json!([{ "name": "CI_JOB_ID", "value": "$(OTHER)" }]);
    };
    assert_eq!(skip_reason(foreign), SkipReason::NotAJob);
    let elsewhere = Settings { namespaces: vec!["ci-builds".into()], ..on() };
    assert_eq!(job_of_pod(&parse(pod()), "kube-system", &elsewhere), Err(SkipReason::Namespace));
}

#[test]
fn the_agent_is_added_with_only_its_needs() {
    let settings = Settings { agent_image: Some("registry/agent:1".into()), ..on() };
    let (after, plan) = patched(&pod(), &sizes((2048, 4096), (1500, 3000), 0.9), &settings);
    let spec = &after["spec"];
    let agent = &spec["initContainers"][1];
    assert_eq!((&agent["name"], &agent["restartPolicy"]), (&json!("plimsoll"), &json!("Always")));
    assert_eq!(agent["args"], json!(["attach", "--container-name", "build"]));
    assert_eq!(spec["shareProcessNamespace"], json!(true));
    assert_eq!(spec["volumes"][3]["name"], json!("plimsoll"));
    assert_eq!(agent["resources"]["requests"], agent["resources"]["limits"]);
    let env = agent["env"].as_array().unwrap();
    let value =
        |name: &str| env.iter().find(|entry| entry["name"] == name).map(|entry| entry["value"].clone());
    assert_eq!(value("CI_JOB_ID"), Some(json!("12345")));
    assert_eq!(value("SPACK_JOB_SPEC_PKG_NAME"), Some(json!("curl")));
    assert_eq!(value("KUBERNETES_MEMORY_LIMIT"), Some(json!("4096Mi")));
    let context = &agent["securityContext"];
    assert_eq!((&context["runAsUser"], &context["allowPrivilegeEscalation"]), (&json!(0), &json!(false)));
    assert!(plan.lines.last().unwrap().contains("agent"));
}

#[test]
fn the_agent_runs_as_the_builds_user() {
    let settings = Settings { agent_image: Some("registry/agent:1".into()), ..on() };
    let mut value = pod();
    value["spec"]["securityContext"] = json!({ "runAsUser": 1000 });
    let (after, _) = patched(&value, &sizes((2048, 4096), (1500, 3000), 0.9), &settings);
    let context = &after["spec"]["initContainers"][1]["securityContext"];
    assert_eq!((&context["runAsUser"], &context["capabilities"]["drop"]), (&json!(1000), &json!(["ALL"])));
}

#[test]
fn whatever_admits_the_build_admits_the_agent() {
    let settings = Settings { agent_image: Some("registry/agent:1".into()), ..on() };
    let mut value = pod();
    value["spec"]["containers"][0]["securityContext"] = json!({
        "runAsNonRoot": true, "runAsUser": 1000, "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] }, "seccompProfile": { "type": "RuntimeDefault" },
    });
    let (after, _) = patched(&value, &sizes((2048, 4096), (1500, 3000), 0.9), &settings);
    let expected = json!({
        "runAsNonRoot": true, "runAsUser": 1000, "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] }, "seccompProfile": { "type": "RuntimeDefault" },
        "readOnlyRootFilesystem": true,
    });
    assert_eq!(after["spec"]["initContainers"][1]["securityContext"], expected);
}

#[test]
fn a_pod_may_refuse_the_agent() {
    let settings = Settings { agent_image: Some("registry/agent:1".into()), ..on() };
    let refuses = |change: fn(&mut Value)| {
        let mut value = pod();
        change(&mut value);
        let (after, _) = patched(&value, &sizes((2048, 4096), (1500, 3000), 0.9), &settings);
        after["spec"]["initContainers"].as_array().unwrap().len() == 1
    };
    assert!(refuses(|pod| pod["metadata"]["annotations"]["plimsoll/agent"] = json!("off")));
    assert!(refuses(|pod| pod["spec"]["shareProcessNamespace"] = json!(false)));
    assert!(refuses(|pod| pod["spec"]["hostPID"] = json!(true)));
    assert!(refuses(|pod| pod["spec"]["os"] = json!({ "name": "windows" })));
    assert!(refuses(|pod| pod["spec"]["nodeSelector"]["kubernetes.io/os"] = json!("windows")));
    // its user is hidden in its image: as root the agent would be refused, as another it would see nothing
    assert!(refuses(|pod| pod["spec"]["securityContext"] = json!({ "runAsNonRoot": true })));
    assert!(refuses(|pod| pod["spec"]["volumes"][0]["name"] = json!("plimsoll")));
}
