//! Finds the CI job of a pod.
//!
//! GitLab's runner writes the job's number, name, ref and commit into annotations. The job's
//! variables are in the environment of the container `build`, and Spack's runners copy some into
//! annotations and labels; the job's author can choose their values.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, Pod, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use plimsoll_base::quantity;
use plimsoll_core::{
    domain::{Bytes, Cores, JobPod, Key, Resources},
    placement::{OperatingSystem, PRIORITY_LABELS},
};
use plimsoll_proto::{
    job,
    job_pod::{JOB_URL_ANNOTATION, PROJECT_PATH_PARTS, RUNNER_VARIABLES, VARIABLE_COPIES, host_and_project},
};

use super::{Settings, SkipReason, system};

/// The container in which GitLab's runner builds.
pub(super) const BUILD_CONTAINER: &str = "build";
/// Annotation: `off` leaves the pod unchanged.
const ADMIT_ANNOTATION: &str = "plimsoll/admit";
/// Annotation that lists the changes. A pod that has it is not reviewed again.
pub(super) const DONE_ANNOTATION: &str = "plimsoll/sized";
/// Annotation value that opts out of a change.
pub(super) const OPT_OUT: &str = "off";
/// Variable with the architecture of the runner, as Go names it.
const RUNNER_ARCH: &str = "CI_RUNNER_EXECUTABLE_ARCH";

/// A CI job, from its pod.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PodJob {
    /// The variables that identify the build.
    pub(super) variables: Vec<(&'static str, String)>,
    /// The project in the address of the job's page, which the runner got from GitLab. If GitLab
    /// runs under a path, that path is in front of the project.
    pub(super) project: Option<String>,
    /// Architecture of the pod's node as `uname -m` names it, if the pod shows it.
    pub(crate) arch: Option<String>,
    /// Operating system that the pod requests, if any.
    pub(crate) os: Option<OperatingSystem>,
    /// Index of the container that builds.
    pub(super) container: usize,
}

impl PodJob {
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }
}

impl PodJob {
    /// The key without the fields and labels by which the job's author could get a better pool or
    /// priority. Unchanged if the operator trusts the job's variables.
    pub(crate) fn trusted_key(&self, key: &Key, settings: &Settings) -> Key {
        let mut key = key.clone();
        if !settings.trust_variables {
            key.project = self.project.clone().unwrap_or_default();
            key.owner.clear();
            key.labels.retain(|name, _| !PRIORITY_LABELS.contains(&name.as_str()));
        }
        key
    }
}

/// The job of a pod.
/// Errors: the reason why the pod is left unchanged.
pub(crate) fn job_of_pod(pod: &Pod, namespace: &str, settings: &Settings) -> Result<PodJob, SkipReason> {
    if !settings.covers(namespace) {
        return Err(SkipReason::Namespace);
    }
    let spec = pod.spec.as_ref().ok_or(SkipReason::NotAJob)?;
    let container = spec
        .containers
        .iter()
        .position(|container| container.name == BUILD_CONTAINER)
        .ok_or(SkipReason::NotAJob)?;
    let build = spec.containers.get(container).ok_or(SkipReason::NotAJob)?;
    if variable(pod, build, "CI_JOB_ID").is_none() {
        return Err(SkipReason::NotAJob);
    }
    match (annotation(pod, ADMIT_ANNOTATION), annotation(pod, DONE_ANNOTATION)) {
        (Some(OPT_OUT), _) => return Err(SkipReason::OptedOut),
        (_, Some(_)) => return Err(SkipReason::Done),
        _ => {}
    }
    if spec.resources.as_ref().is_some_and(has_sizes) {
        return Err(SkipReason::PodSizes);
    }
    let names = job::CI_VARIABLES.into_iter().chain([job::VARIANTS]);
    let variables = names.filter_map(|name| Some((name, variable(pod, build, name)?))).collect();
    Ok(PodJob {
        variables,
        project: project(pod).map(ToOwned::to_owned),
        arch: arch(spec, build),
        os: system::system_of(spec),
        container,
    })
}

/// Whether any size is set: GitLab's runner (since 18.10) sends an empty object if there is none.
fn has_sizes(sizes: &ResourceRequirements) -> bool {
    let ResourceRequirements { claims, limits, requests } = sizes;
    let has_claims = claims.as_ref().is_some_and(|claims| !claims.is_empty());
    has_claims || [limits, requests].into_iter().flatten().any(|sizes| !sizes.is_empty())
}

/// The number of the pod's job, even if other values are missing.
pub(crate) fn job_id(pod: &Pod) -> Option<String> {
    let build = pod.spec.as_ref()?.containers.iter().find(|container| container.name == BUILD_CONTAINER)?;
    variable(pod, build, "CI_JOB_ID")
}

/// The job of a pod, with the present sizes of its build. `None` if the pod has no job, or its
/// namespace is excluded.
pub(crate) fn job_pod(pod: &Pod, namespace: &str, settings: &Settings) -> Option<JobPod> {
    if !settings.covers(namespace) {
        return None;
    }
    let build = pod.spec.as_ref()?.containers.iter().find(|container| container.name == BUILD_CONTAINER)?;
    let known = |name| variable(pod, build, name);
    let of = |list: Option<&BTreeMap<String, Quantity>>, name: &str| Some(list?.get(name)?.0.clone());
    let sizes = build.resources.as_ref();
    let (requests, limits) =
        (sizes.and_then(|sizes| sizes.requests.as_ref()), sizes.and_then(|sizes| sizes.limits.as_ref()));
    // a size of 0 means that none is set
    let bytes = |text: Option<String>| quantity::bytes(&text?).ok().filter(|bytes| *bytes > 0).map(Bytes);
    let cores =
        |text: Option<String>| quantity::parse_cores(&text?).ok().filter(|cores| *cores > 0.0).map(Cores);
    let sizes = Resources {
        memory_request: bytes(of(requests, "memory")),
        memory_limit: bytes(of(limits, "memory")),
        cpu_request: cores(of(requests, "cpu")),
        cpu_limit: cores(of(limits, "cpu")),
    };
    let (host, project) = (known("CI_SERVER_HOST"), known("CI_PROJECT_PATH"));
    let (host, project) = (host.unwrap_or_default(), project.unwrap_or_default());
    let namespace = namespace.to_owned();
    Some(JobPod { job: known("CI_JOB_ID")?, host, project, namespace, sizes, seen_unix_ms: 0 })
}

pub(super) fn annotation<'p>(pod: &'p Pod, name: &str) -> Option<&'p str> {
    text_of(pod.metadata.annotations.as_ref(), name)
}

fn text_of<'m>(map: Option<&'m BTreeMap<String, String>>, name: &str) -> Option<&'m str> {
    map?.get(name).map(String::as_str).filter(|text| !text.is_empty())
}

/// A variable of the job. A value with `$(` counts as unknown, because the kubelet would expand it.
fn variable(pod: &Pod, build: &Container, name: &str) -> Option<String> {
    let copy = |place: &str| annotation(pod, place).or_else(|| text_of(pod.metadata.labels.as_ref(), place));
    let place = |places: &[(&str, &'static str)]| {
        places.iter().find(|(variable, _)| *variable == name).and_then(|(_, place)| copy(place))
    };
    let by_copies = || {
        let both = |[namespace, name]: [&str; 2]| Some(format!("{}/{}", copy(namespace)?, copy(name)?));
        PROJECT_PATH_PARTS.into_iter().find_map(both).filter(|_| name == "CI_PROJECT_PATH")
    };
    let found = place(&RUNNER_VARIABLES).map(ToOwned::to_owned);
    let found = found.or_else(|| {
        let known = project(pod).filter(|_| name == "CI_PROJECT_PATH");
        let found = environment(build, name);
        found
            .filter(|found| known.is_none_or(|known| is_path_of_project(known, found)))
            .or_else(|| known.map(ToOwned::to_owned))
    });
    let found = found.or_else(by_copies);
    let found = found.or_else(|| place(&VARIABLE_COPIES).map(ToOwned::to_owned));
    found.filter(|value| !value.contains("$("))
}

/// The project in the address of the job's page.
fn project(pod: &Pod) -> Option<&str> {
    host_and_project(annotation(pod, JOB_URL_ANNOTATION)?).map(|(_host, project)| project)
}

/// Whether a path on GitLab's host is the path of this project, possibly after the path under which
/// GitLab runs.
fn is_path_of_project(path: &str, project: &str) -> bool {
    path.strip_suffix(project).is_some_and(|front| front.is_empty() || front.ends_with('/'))
}

/// A variable with a literal value in the pod.
fn environment(container: &Container, name: &str) -> Option<String> {
    let mut all = container.env.iter().flatten();
    all.rfind(|variable| variable.name == name)?.value.clone().filter(|value| !value.is_empty())
}

/// Architecture that the pod requires, else the architecture of its runner.
fn arch(spec: &PodSpec, build: &Container) -> Option<String> {
    let chosen = text_of(spec.node_selector.as_ref(), "kubernetes.io/arch").map(ToOwned::to_owned);
    let found = chosen.or_else(|| environment(build, RUNNER_ARCH))?;
    Some(match found.rsplit('/').next().unwrap_or_default() {
        "amd64" => "x86_64".to_owned(),
        "arm64" => "aarch64".to_owned(),
        other => other.to_owned(),
    })
}
