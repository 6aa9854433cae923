//! Pods of CI jobs, as they come to be: what one is of, and what it should ask for.
//!
//! | module | |
//! |---|---|
//! | [`pod`] | which job a pod is of, from its container's environment and its annotations, and why a pod is not changed |
//! | [`sizes`], [`own_sizes`] | requests and limits of the build's container: what they shall be, and what they are |
//! | [`place`] | nodes, tolerations and priority of its pool |
//! | [`time`] | how long its build is predicted to run |
//! | [`sidecar`] | the agent beside the build |
//! | [`system`] | Linux or Windows |
//! | [`skip_reason`] | why a pod keeps its sizes |
//! | [`review`], [`reviewed`] | a review of the API server, its line in the log and its counter |
//!
//! Pure but for the review. A pod that is not understood in full is left as it is: a job in a pod that was not sized runs, one in a pod that was
//! broken does not. What is done to a pod is written into it, so that a second look changes nothing and people see it.

mod own_sizes;
mod place;
mod pod;
mod review;
mod reviewed;
mod sidecar;
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

pub(crate) use pod::{Job, job, job_id, of_job};
pub(crate) use review::PodReviewer;
pub(crate) use reviewed::begin_counts;
pub(crate) use skip_reason::SkipReason;

pub use crate::runtime::settings::by_module::admission::{Mode, Settings, Size};
use crate::{runtime::skipped_facts::SkippedFacts, service::admission::SizeSource};

/// What could not be used of the pod, for people.
const SKIPPED: &str = "plimsoll/skipped";

/// What shall become of a pod.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What to do to it; `None` if it is right as it is.
    pub(crate) patch: Option<Patch>,
    /// What is done, a line each, for people.
    pub(crate) lines: Vec<String>,
    /// A size is set.
    pub(crate) sized: bool,
    /// Why none is; `None` if one is.
    pub(crate) skip_reason: Option<SkipReason>,
    /// The pod as it becomes.
    pub(crate) pod: Pod,
    /// What could not be used of it.
    pub(crate) skipped: SkippedFacts,
    /// It is sent to a pool, given a priority, or says how long it runs.
    pub(crate) placed: bool,
}

/// What to do to a pod, given what its job is predicted to need; without a prediction, for a pod of another system than Linux, it keeps its
/// sizes. `aim` says where a build with such needs shall run.
///
/// # Errors
/// The patch cannot be written down.
pub(crate) fn plan(
    before: &Pod,
    job: &Job,
    prediction: Option<(&Prediction, SizeSource)>,
    settings: &Settings,
    aim: impl FnOnce(&ResourceNeeds) -> Option<PlacementTarget>,
) -> Result<Plan, FieldViolation> {
    let mut pod = before.clone();
    let (mut lines, skip_reason, skipped) = match prediction {
        Some(known) => sizes::apply(&mut pod, job, known, settings),
        None => (Vec::new(), SkipReason::OtherSystem, SkippedFacts::default()),
    };
    let sized = !lines.is_empty();
    let skip_reason = (!sized).then_some(skip_reason);
    let needs = place::needs(&pod, job, prediction.map(|(prediction, _)| prediction));
    let there = aim(&needs).map(|aim| place::apply(&mut pod, &aim)).unwrap_or_default();
    let timed =
        prediction.map(|(prediction, _)| time::apply(&mut pod, prediction, settings)).unwrap_or_default();
    let placed = !there.lines.is_empty() || !timed.is_empty();
    lines.extend(there.lines.into_iter().chain(timed));
    let agent = sidecar::apply(&mut pod, job, settings, &there.pool);
    lines.extend(agent.then(|| "the agent is put beside the build".to_owned()));
    if !skipped.is_empty() {
        pod.metadata.annotations.get_or_insert_default().insert(SKIPPED.to_owned(), skipped.words());
    }
    let is_changed = sized || placed || agent || !skipped.is_empty();
    let patch = is_changed.then(|| difference(before, &pod)).transpose()?;
    let patch = patch.filter(|patch| !patch.0.is_empty());
    Ok(Plan { patch, lines, sized, skip_reason, pod, skipped, placed })
}

/// Only what changed: whatever else the object holds, known here or not, is not spoken of.
fn difference(before: &Pod, after: &Pod) -> Result<Patch, FieldViolation> {
    let write = |pod: &Pod| {
        serde_json::to_value(pod).map_err(|error| FieldViolation::new("request.object", error.to_string()))
    };
    Ok(json_patch::diff(&write(before)?, &write(after)?))
}
