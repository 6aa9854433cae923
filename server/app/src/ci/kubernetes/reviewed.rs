//! Log lines and metrics of reviewed pods.

use k8s_openapi::api::core::v1::Pod;
use kube_core::{DynamicObject, admission::AdmissionRequest};

use super::{AdmissionMode, Plan, SkipReason, job_id};
use crate::runtime::metrics::{KindLabel, Metrics};

/// Most characters of a name in the log: the longest Kubernetes name. The job's author may choose
/// the name.
const NAME_CHARS: usize = 253;

/// Identifies the pod in the log.
#[derive(Debug, Clone, Default)]
pub(super) struct PodName {
    namespace: String,
    pod: String,
    job: String,
    uid: String,
}

impl PodName {
    /// The name in the request. If the API server generates the name, only its start is known.
    pub(super) fn of(asked: &AdmissionRequest<DynamicObject>) -> Self {
        let about = asked.object.as_ref().map(|object| &object.metadata);
        let generated = about.and_then(|about| about.generate_name.as_ref()).map(|start| format!("{start}*"));
        let named = about.and_then(|about| about.name.clone()).or(generated).unwrap_or_default();
        Self {
            namespace: shortened(asked.namespace.as_deref().unwrap_or_default()),
            pod: shortened(if asked.name.is_empty() { &named } else { &asked.name }),
            job: String::new(),
            uid: shortened(&asked.uid),
        }
    }

    /// Adds the number of the pod's job.
    pub(super) fn with_job(self, pod: &Pod) -> Self {
        Self { job: shortened(&job_id(pod).unwrap_or_default()), ..self }
    }
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !plimsoll_proto::shown::is_hidden(*c)).take(NAME_CHARS).collect()
}

/// Records a pod that is not changed. Pods without a job are frequent, so they are logged only at
/// the level debug.
pub(super) fn note_skipped(metrics: &Metrics, pod: &PodName, why: SkipReason) {
    let PodName { namespace, pod, job, uid } = pod;
    count_review(metrics, why.as_str());
    if why.is_unsized() {
        count_unsized(metrics, why);
        tracing::info!(namespace, pod, job, uid, why = why.words(), "left a pod as it is");
    } else {
        tracing::debug!(namespace, pod, job, uid, why = why.words(), "left a pod as it is");
    }
}

/// Records a pod that is changed, or in the mode dry-run would be changed.
pub(super) fn note_planned(metrics: &Metrics, mode: AdmissionMode, pod: &PodName, plan: &Plan) {
    let PodName { namespace, pod, job, uid } = pod;
    let done = plan.lines.join("; ");
    // set if the sizes stay, even if something else is changed
    let unsized_for = plan.skip_reason.filter(|why| why.is_unsized());
    let would = if mode == AdmissionMode::DryRun { "would be set" } else { "set" };
    let sizes = unsized_for.map_or(would, SkipReason::words);
    plan.skipped.note(metrics, "pod", &format!("{namespace}/{pod} of job {job}"));
    if let Some(why) = unsized_for {
        count_unsized(metrics, why);
    }
    if mode == AdmissionMode::DryRun {
        tracing::info!(namespace, pod, job, uid, done, sizes, "would change a pod; admit_mode is dry-run");
        return count_review(metrics, "dry_run");
    }
    tracing::info!(namespace, pod, job, uid, done, sizes, "changed a pod");
    let kind = match (plan.sized, plan.placed) {
        (true, _) => "sized",
        (false, true) => "placed",
        (false, false) if plan.lines.is_empty() => "noted",
        (false, false) => "agent",
    };
    count_review(metrics, kind);
}

/// Records a pod in shadow mode, with the changes that would be made.
pub(super) fn note_withheld(pod: &PodName, would: &Plan) {
    let PodName { namespace, pod, job, uid } = pod;
    let would = would.lines.join("; ");
    tracing::info!(namespace, pod, job, uid, would, "would change a pod; shadow mode is on");
}

fn count_review(metrics: &Metrics, kind: &'static str) {
    metrics.admissions.get_or_create(&KindLabel::of(kind)).inc();
}

fn count_unsized(metrics: &Metrics, why: SkipReason) {
    metrics.admissions_unsized.get_or_create(&KindLabel::of(why.as_str())).inc();
}

/// Creates all counters with the value 0, so that the first increase of each is visible.
pub(crate) fn begin_counts(metrics: &Metrics) {
    for skip_reason in SkipReason::ALL.into_iter().filter(|skip_reason| skip_reason.is_unsized()) {
        drop(metrics.admissions_unsized.get_or_create(&KindLabel::of(skip_reason.as_str())));
    }
}
