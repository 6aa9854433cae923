//! Pods of CI jobs at their creation: which job a pod belongs to, and its sizes and placement.
//!
//! | module | content |
//! |---|---|
//! | [`pod`] | the job of a pod, from its container's environment and its annotations, and why a pod is not changed |
//! | [`sizes`], [`size_pair`], [`own_sizes`] | requests and limits of the build's container: new, both together, and existing |
//! | [`limit_range`], [`limit_ranges`] | what a namespace's `LimitRange` allows; reads them |
//! | [`place`] | nodes, tolerations and priority of its pool |
//! | [`time`] | labels for how long its build is predicted to run |
//! | [`sidecar`] | adds the agent beside the build |
//! | [`system`] | Linux or Windows |
//! | [`skip_reason`] | why a pod keeps its sizes |
//! | [`job_sizes`] | sizes for a pod's job, from prediction and verdict |
//! | [`review`], [`reviewed`] | an admission review; its log line and metrics |
//!
//! All modules are pure except for the review. A pod that cannot be fully parsed is left unchanged:
//! a job in a pod without sizes runs, a job in a broken pod does not. All changes are recorded in
//! the pod's annotations, so that people see them and a second review changes nothing.

mod job_sizes;
mod limit_range;
mod limit_ranges;
mod own_sizes;
mod place;
mod pod;
mod review;
mod reviewed;
mod sidecar;
mod size_pair;
mod sizes;
mod skip_reason;
mod system;
#[cfg(test)]
mod tests;
mod time;

use json_patch::Patch;
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::{
    domain::{FieldViolation, Prediction},
    placement::{PlacementTarget, ResourceNeeds},
};

pub(crate) use job_sizes::SizeSource;
pub(crate) use limit_range::LimitRanges;
pub(crate) use limit_ranges::{KnownLimitRanges, SERVICE_ACCOUNT, read_limit_ranges};
pub(crate) use pod::{PodJob, job_id, job_of_pod, job_pod};
pub(crate) use review::PodReviewer;
pub(crate) use reviewed::begin_counts;
pub(crate) use skip_reason::SkipReason;

pub use crate::runtime::settings::by_module::admission::{AdmissionMode, PodSize, Settings};
use crate::runtime::skipped_facts::SkippedFacts;

/// Annotation that lists values of the pod that could not be used.
const SKIPPED: &str = "plimsoll/skipped";

/// Planned changes of a pod.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The patch; `None` if nothing changes.
    pub(crate) patch: Option<Patch>,
    /// Descriptions of the changes, for people.
    pub(crate) lines: Vec<String>,
    /// Whether a size is set.
    pub(crate) sized: bool,
    /// Why no size changes; `None` if a size changes.
    pub(crate) skip_reason: Option<SkipReason>,
    /// The pod after the changes.
    pub(crate) pod: Pod,
    /// Values of the pod that could not be used.
    pub(crate) skipped: SkippedFacts,
    /// Whether the pod's pool, priority or time label changes.
    pub(crate) placed: bool,
}

/// Plans the changes of a pod from the prediction for its job. Without a prediction (for a system
/// other than Linux) the pod keeps its sizes. `aim` returns the placement for given needs.
/// Errors: the patch cannot be serialized.
pub(crate) fn plan(
    before: &Pod,
    job: &PodJob,
    prediction: Option<(&Prediction, SizeSource)>,
    (settings, ranges): (&Settings, &LimitRanges),
    aim: impl FnOnce(&ResourceNeeds) -> Option<PlacementTarget>,
) -> Result<Plan, FieldViolation> {
    let mut pod = before.clone();
    let settings = &*ranges.narrow(settings);
    let (mut lines, skip_reason, mut skipped) = match prediction {
        Some(known) => sizes::apply_sizes(&mut pod, job, known, (settings, ranges)),
        None => (Vec::new(), SkipReason::OtherSystem, SkippedFacts::default()),
    };
    let sized = !lines.is_empty();
    let skip_reason = (!sized).then_some(skip_reason);
    let needs = place::placement_needs(&pod, job, prediction.map(|(prediction, _)| prediction));
    let there = aim(&needs).map(|aim| place::apply_placement(&mut pod, &aim)).unwrap_or_default();
    let timed = prediction
        .map(|(prediction, _)| time::add_time_labels(&mut pod, prediction, settings))
        .unwrap_or_default();
    let placed = !there.lines.is_empty() || !timed.is_empty();
    lines.extend(there.lines.into_iter().chain(timed));
    let without = pod.clone();
    let added = sidecar::add_agent(&mut pod, job, settings, &there.pool);
    let refused = ranges.newly_broken(&without, &pod).map(|rule| FieldViolation::new("the agent", rule));
    let agent = added && skipped.keep(refused.map_or(Ok(()), Err)).is_some();
    if added && !agent {
        pod = without;
    }
    lines.extend(agent.then(|| "the agent is put beside the build".to_owned()));
    if !skipped.is_empty() {
        pod.metadata.annotations.get_or_insert_default().insert(SKIPPED.to_owned(), skipped.words());
    }
    let is_changed = sized || placed || agent || !skipped.is_empty();
    let patch = is_changed.then(|| difference(before, &pod)).transpose()?;
    let patch = patch.filter(|patch| !patch.0.is_empty());
    Ok(Plan { patch, lines, sized, skip_reason, pod, skipped, placed })
}

/// A patch with only the changes: other parts of the object are not in it.
fn difference(before: &Pod, after: &Pod) -> Result<Patch, FieldViolation> {
    let write = |pod: &Pod| {
        serde_json::to_value(pod).map_err(|error| FieldViolation::new("request.object", error.to_string()))
    };
    Ok(json_patch::diff(&write(before)?, &write(after)?))
}
