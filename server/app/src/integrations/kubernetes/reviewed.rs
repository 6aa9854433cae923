//! What became of each pod: its line in the log and its counter, together.

use k8s_openapi::api::core::v1::Pod;
use kube_core::{DynamicObject, admission::AdmissionRequest};

use super::{Mode, Plan, SkipReason, job_id};
use crate::{
    runtime::metrics::{Kind, Metrics},
    service::AdmissionService,
};

/// Characters of a name that the log shows: those of a Kubernetes name, and no more of what a job's author may choose.
const NAME_CHARS: usize = 253;

/// Which pod is asked about, for the log.
#[derive(Debug, Clone, Default)]
pub(super) struct PodName {
    namespace: String,
    pod: String,
    job: String,
    uid: String,
}

impl PodName {
    /// As the question names it. The API server makes the end of a generated name only later.
    pub(super) fn of(asked: &AdmissionRequest<DynamicObject>) -> Self {
        let about = asked.object.as_ref().map(|object| &object.metadata);
        let generated = about.and_then(|about| about.generate_name.as_ref()).map(|start| format!("{start}*"));
        let named = about.and_then(|about| about.name.clone()).or(generated).unwrap_or_default();
        Self {
            namespace: shown(asked.namespace.as_deref().unwrap_or_default()),
            pod: shown(if asked.name.is_empty() { &named } else { &asked.name }),
            job: String::new(),
            uid: shown(&asked.uid),
        }
    }

    /// The same with the job that the pod is of.
    pub(super) fn with_job(self, pod: &Pod) -> Self {
        Self { job: shown(&job_id(pod).unwrap_or_default()), ..self }
    }
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !plimsoll_proto::shown::is_hidden(*c)).take(NAME_CHARS).collect()
}

/// A pod that passes as it is. Those that are no job's are many, and say nothing.
pub(super) fn note_skipped(metrics: &Metrics, pod: &PodName, why: SkipReason) {
    let PodName { namespace, pod, job, uid } = pod;
    count(metrics, why.as_str());
    if why.is_unsized() {
        count_unsized(metrics, why);
        tracing::info!(namespace, pod, job, uid, why = why.words(), "left a pod as it is");
    } else {
        tracing::debug!(namespace, pod, job, uid, why = why.words(), "left a pod as it is");
    }
}

/// A pod that is changed, or would be.
pub(super) fn planned(metrics: &Metrics, mode: Mode, pod: &PodName, plan: &Plan) {
    let PodName { namespace, pod, job, uid } = pod;
    let done = plan.lines.join("; ");
    // its sizes stay, whatever else is done to it
    let unsized_for = plan.skip_reason.filter(|why| why.is_unsized());
    let would = if mode == Mode::DryRun { "would be set" } else { "set" };
    let sizes = unsized_for.map_or(would, SkipReason::words);
    plan.skipped.note(metrics, "pod", &format!("{namespace}/{pod} of job {job}"));
    if let Some(why) = unsized_for {
        count_unsized(metrics, why);
    }
    if mode == Mode::DryRun {
        tracing::info!(namespace, pod, job, uid, done, sizes, "would change a pod; admit_mode is dry-run");
        return count(metrics, "dry_run");
    }
    tracing::info!(namespace, pod, job, uid, done, sizes, "changed a pod");
    let kind = match (plan.sized, plan.placed) {
        (true, _) => "sized",
        (false, true) => "placed",
        (false, false) if plan.lines.is_empty() => "noted",
        (false, false) => "agent",
    };
    count(metrics, kind);
}

/// A pod of a job in shadow mode: what would be done to it.
pub(super) fn withheld(admission: &AdmissionService, pod: &PodName, would: &Plan) {
    let PodName { namespace, pod, job, uid } = pod;
    let would = would.lines.join("; ");
    admission.withheld();
    tracing::info!(namespace, pod, job, uid, would, "would change a pod; shadow mode is on");
}

fn count(metrics: &Metrics, kind: &'static str) {
    metrics.admissions.get_or_create(&Kind::of(kind)).inc();
}

fn count_unsized(metrics: &Metrics, why: SkipReason) {
    metrics.admissions_unsized.get_or_create(&Kind::of(why.as_str())).inc();
}

/// Reasons that came up for the first time are an increase too.
pub(crate) fn begin_counts(metrics: &Metrics) {
    for skip_reason in SkipReason::ALL.into_iter().filter(|skip_reason| skip_reason.is_unsized()) {
        drop(metrics.admissions_unsized.get_or_create(&Kind::of(skip_reason.as_str())));
    }
}
