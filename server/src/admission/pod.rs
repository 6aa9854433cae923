//! Which job a pod is of.
//!
//! GitLab's runner writes the job's variables into the environment of the container `build`, and ids into annotations; the
//! runners of Spack's CI copy the spec into annotations and labels. The environment counts first.

use k8s_openapi::api::core::v1::{Container, Pod};
use plimsoll_proto::{job, v1};

use super::Settings;

/// The container that GitLab's runner builds in.
pub(super) const BUILD: &str = "build";
/// `off` leaves the pod alone.
const ADMIT: &str = "plimsoll/admit";
/// What was done to the pod, for people; a pod that has it is done.
pub(super) const DONE: &str = "plimsoll/sized";
/// The word that opts out.
pub(super) const OFF: &str = "off";

/// Annotations and labels in which a variable of the job may stand.
const COPIES: [(&str, &[&str]); 15] = [
    ("CI_JOB_ID", &["job.runner.gitlab.com/id", "gitlab/ci_job_id"]),
    ("CI_JOB_NAME", &["job.runner.gitlab.com/name"]),
    ("CI_JOB_STAGE", &["metrics/gitlab_ci_job_stage"]),
    ("CI_COMMIT_REF_NAME", &["job.runner.gitlab.com/ref", "metrics/gitlab_ci_commit_ref_name"]),
    ("CI_COMMIT_SHA", &["job.runner.gitlab.com/sha"]),
    ("CI_PIPELINE_ID", &["metrics/gitlab_ci_pipeline_id"]),
    ("SPACK_CI_STACK_NAME", &["metrics/spack_ci_stack_name"]),
    ("SPACK_BUILD_JOBS", &["metrics/spack_job_build_jobs"]),
    ("SPACK_JOB_SPEC_PKG_NAME", &["metrics/spack_job_spec_pkg_name"]),
    ("SPACK_JOB_SPEC_PKG_VERSION", &["metrics/spack_job_spec_pkg_version"]),
    ("SPACK_JOB_SPEC_COMPILER_NAME", &["metrics/spack_job_spec_compiler_name"]),
    ("SPACK_JOB_SPEC_COMPILER_VERSION", &["metrics/spack_job_spec_compiler_version"]),
    ("SPACK_JOB_SPEC_ARCH", &["metrics/spack_job_spec_arch"]),
    (job::VARIANTS, &["metrics/spack_job_spec_variants"]),
    ("CI_RUNNER_EXECUTABLE_ARCH", &[]),
];

/// Namespace and name of the project, where the path is not said.
const PROJECT: [[&str; 2]; 2] = [
    ["project.runner.gitlab.com/namespace", "project.runner.gitlab.com/name"],
    ["metrics/gitlab_ci_project_namespace", "metrics/gitlab_ci_project_name"],
];

/// A CI job, as its pod tells of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Job {
    /// What is built.
    pub(crate) key: v1::Key,
    /// The variables that say so.
    pub(super) variables: Vec<(&'static str, String)>,
    /// Index of the container that builds.
    pub(super) container: usize,
}

/// Why a pod is left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// It is in a namespace that is not ours.
    Namespace,
    /// It has no job's variables, or no container that builds.
    NotAJob,
    /// It, or whoever runs it, says that it wants to be left alone.
    OptedOut,
    /// It was looked at before.
    Done,
    /// It has sizes for the whole pod, with which those of a container might not go together.
    PodSizes,
}

impl Left {
    /// The word in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "other_namespace",
            Self::NotAJob => "no_job",
            Self::OptedOut => "opted_out",
            Self::Done => "done_before",
            Self::PodSizes => "pod_sizes",
        }
    }
}

/// The job of a pod.
///
/// # Errors
/// Why the pod is left alone.
pub(crate) fn job(pod: &Pod, namespace: &str, settings: &Settings) -> Result<Job, Left> {
    if !settings.namespaces.is_empty() && !settings.namespaces.iter().any(|ours| ours == namespace) {
        return Err(Left::Namespace);
    }
    let spec = pod.spec.as_ref().ok_or(Left::NotAJob)?;
    let container =
        spec.containers.iter().position(|container| container.name == BUILD).ok_or(Left::NotAJob)?;
    let build = spec.containers.get(container).ok_or(Left::NotAJob)?;
    let look = |name: &str| variable(pod, build, name);
    if look("CI_JOB_ID").is_none() {
        return Err(Left::NotAJob);
    }
    match (annotation(pod, ADMIT), annotation(pod, DONE)) {
        (Some(OFF), _) => return Err(Left::OptedOut),
        (_, Some(_)) => return Err(Left::Done),
        _ => {}
    }
    if spec.resources.is_some() {
        return Err(Left::PodSizes);
    }
    let mut key = job::key(look);
    if key.package.is_empty() {
        return Err(Left::NotAJob);
    }
    if key.arch.is_empty() {
        key.arch = arch(pod, build).unwrap_or_default();
    }
    let names = job::VARIABLES.into_iter().chain([job::VARIANTS]);
    let variables = names.filter_map(|name| Some((name, look(name)?))).collect();
    Ok(Job { key, variables, container })
}

/// An annotation of the pod.
pub(super) fn annotation<'p>(pod: &'p Pod, name: &str) -> Option<&'p str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// A variable of the job: what the container's environment says, else an annotation or a label.
fn variable(pod: &Pod, build: &Container, name: &str) -> Option<String> {
    let label = |name: &str| pod.metadata.labels.as_ref()?.get(name).map(String::as_str);
    let copy = |name: &str| annotation(pod, name).or_else(|| label(name)).filter(|text| !text.is_empty());
    if let Some(said) = literal(build, name) {
        return Some(said);
    }
    if name == "CI_PROJECT_PATH" {
        let both = |[namespace, name]: [&str; 2]| Some(format!("{}/{}", copy(namespace)?, copy(name)?));
        return PROJECT.into_iter().find_map(both);
    }
    let (_, copies) = COPIES.into_iter().find(|(variable, _)| *variable == name)?;
    copies.iter().find_map(|name| copy(name)).map(ToOwned::to_owned)
}

/// A variable whose value stands in the pod. The kubelet expands `$(NAME)`, which nobody can foresee here.
fn literal(container: &Container, name: &str) -> Option<String> {
    let mut all = container.env.iter().flatten();
    let value = all.rfind(|variable| variable.name == name)?.value.clone();
    value.filter(|value| !value.is_empty() && !value.contains("$("))
}

/// The architecture as `uname -m` says it inside: where the pod may run, else where its runner does.
fn arch(pod: &Pod, build: &Container) -> Option<String> {
    let selector = pod.spec.as_ref()?.node_selector.as_ref();
    let chosen = selector.and_then(|labels| labels.get("kubernetes.io/arch")).cloned();
    let said = chosen.or_else(|| variable(pod, build, "CI_RUNNER_EXECUTABLE_ARCH"))?;
    let name = said.rsplit('/').next().unwrap_or_default();
    Some(match name {
        "amd64" => "x86_64".to_owned(),
        "arm64" => "aarch64".to_owned(),
        other => other.to_owned(),
    })
}
