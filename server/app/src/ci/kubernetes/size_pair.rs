//! Request and limit of the build's container together: neither contradicts the other, the class of the pod, or a `LimitRange`.

use k8s_openapi::api::core::v1::Pod;
use plimsoll_base::quantity;
use plimsoll_core::domain::FieldViolation;

use super::{
    LimitRanges, PodJob, PodSize, Settings,
    own_sizes::{annotation_of, is_memory, is_valid, path, quantity_text, set_size, size_of, size_text},
    pod::annotation,
};

/// A whole core, in thousandths.
const CORE: u64 = 1000;

/// A request or limit that may be set: bytes, or thousandths of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChosenSize {
    pub(super) value: u64,
    /// Whether a person set the value, or it is the pod's own: then it is not adjusted to fit
    /// another size.
    pub(super) fixed: bool,
    /// Whether the value differs from the pod's.
    pub(super) new: bool,
    pub(super) reason: SizeReason,
}

/// Source of a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SizeReason {
    /// The size in the prediction or the verdict.
    Predicted,
    /// The size in an annotation of the pod.
    Annotation,
    /// The operator's maximum, because the prediction is above it.
    Most,
    /// The smallest that the operator or a `LimitRange` allows, because the prediction is below it.
    Least,
    /// As much of the limit as the ratio in a `LimitRange` demands.
    Ratio,
    /// A step above this size, which is the pod's own.
    AboveOwn(u64),
    /// Adjusted to the other of request and limit.
    Beside,
    /// Equal to the other of request and limit, so that the pod stays in the class Guaranteed.
    Guaranteed,
}

/// A request and its limit, each with what is chosen for it.
pub(super) type SizePair = [(PodSize, Option<ChosenSize>); 2];

/// Sets a request and its limit, and returns those that changed, each with a line about the change.
/// Errors: the pod would break a rule of a `LimitRange` that it does not break as it is, so both stay.
pub(super) fn set_pair(
    pod: &mut Pod,
    job: &PodJob,
    pair: SizePair,
    ranges: &LimitRanges,
) -> Result<Vec<(PodSize, ChosenSize, String)>, FieldViolation> {
    let (before, mut done) = (pod.clone(), Vec::new());
    for (size, chosen) in pair {
        let Some(chosen) = chosen.filter(|chosen| chosen.new) else { continue };
        let text = quantity_text(size, chosen.value);
        let was = set_size(pod, job, size, &text);
        if was.as_ref() != Some(&text) {
            let line = format!("{} {} -> {text}", size.as_str(), was.as_deref().unwrap_or("none"));
            done.push((size, chosen, line));
        }
    }
    let Some(rule) = ranges.newly_broken(&before, pod) else { return Ok(done) };
    *pod = before;
    let lines = done.into_iter().map(|(_, _, line)| line).collect::<Vec<_>>().join(", ");
    Err(FieldViolation::new(path(pair[0].0), format!("{lines} {rule}: request and limit stay as they are")))
}

/// One size for request and limit: the one in an annotation of the pod, else the larger one. CPU stays whole if it is whole, because
/// Kubernetes pins only whole processors. A pod whose annotations name both says itself what it wants.
pub(super) fn equal_pair(pod: &Pod, job: &PodJob, pair: SizePair, settings: &Settings) -> SizePair {
    let [(request, Some(asked)), (limit, Some(most))] = pair else { return pair };
    let Some(own) = size_of(pod, job, limit) else { return pair };
    let by_hand = [request, limit].map(|size| annotation(pod, &annotation_of(size)).is_some());
    let value = match by_hand {
        [true, true] => return pair,
        [true, false] => asked.value,
        [false, true] => most.value,
        [false, false] if is_memory(limit) || !own.is_multiple_of(CORE) => asked.value.max(most.value),
        [false, false] => {
            let whole = asked.value.max(most.value).div_ceil(CORE) * CORE;
            if whole > maximum_size(limit, settings) { own } else { whole }
        }
    };
    pair.map(|(size, chosen)| {
        let reason = chosen.filter(|chosen| chosen.value == value).map(|chosen| chosen.reason);
        let reason = reason.unwrap_or(SizeReason::Guaranteed);
        (size, Some(ChosenSize { value, fixed: true, new: value != own, reason }))
    })
}

/// Raises a request to what the `LimitRange`s demand for its limit.
pub(super) fn within_ratio([(request, asked), (limit, most)]: SizePair, ranges: &LimitRanges) -> SizePair {
    let resource = if is_memory(limit) { "memory" } else { "cpu" };
    let least = most.map_or(0, |most| ranges.least_request(resource, most.value));
    let raised = |asked: ChosenSize| match asked {
        ChosenSize { fixed: false, value, .. } if value < least => {
            ChosenSize { value: least, new: true, reason: SizeReason::Ratio, ..asked }
        }
        _ => asked,
    };
    [(request, asked.map(raised)), (limit, most)]
}

/// Adjusts a request and its limit so that the request does not exceed the limit: Kubernetes
/// refuses other pods, even if the limit is 0, which means unlimited at run time.
/// Errors: the two cannot be adjusted, so both must stay as in the pod; the error has the reason.
pub(super) fn consistent_pair(
    pod: &Pod,
    job: &PodJob,
    [(request, asked), (limit, most)]: SizePair,
) -> Result<SizePair, FieldViolation> {
    let text = |size, chosen: Option<ChosenSize>| match chosen.filter(|chosen| chosen.new) {
        Some(new) => Some(quantity_text(size, new.value)),
        None => size_text(pod, job, size).map(ToOwned::to_owned),
    };
    let is_changed = |chosen: &Option<ChosenSize>| chosen.is_some_and(|chosen| chosen.new);
    let fault = |asked, most| {
        let [asked, most] = [text(request, asked), text(limit, most)].map(Option::unwrap_or_default);
        let description = format!("{asked} does not go with {} {most}: both stay as they are", path(limit));
        FieldViolation::new(path(request), description)
    };
    let pair = reconcile(asked, most).ok_or_else(|| fault(asked, most))?;
    let is_fit = is_valid(text(request, pair.0).as_deref(), text(limit, pair.1).as_deref());
    if is_fit || !(is_changed(&pair.0) || is_changed(&pair.1)) {
        Ok([(request, pair.0), (limit, pair.1)])
    } else {
        Err(fault(pair.0, pair.1))
    }
}

/// A request and its limit, one of them adjusted to the other if that is allowed; `None` if neither may change.
fn reconcile(
    request: Option<ChosenSize>,
    limit: Option<ChosenSize>,
) -> Option<(Option<ChosenSize>, Option<ChosenSize>)> {
    let (Some(asked), Some(most)) = (request, limit) else { return Some((request, limit)) };
    if asked.value <= most.value {
        return Some((request, limit));
    }
    if !most.fixed && asked.fixed {
        return Some((request, Some(ChosenSize { value: asked.value, reason: SizeReason::Beside, ..most })));
    }
    let lowered = ChosenSize { value: most.value, reason: SizeReason::Beside, ..asked };
    (!asked.fixed).then_some((Some(lowered), limit))
}

/// The operator's maximum for a size: bytes, or thousandths of a core.
pub(super) fn maximum_size(size: PodSize, settings: &Settings) -> u64 {
    if is_memory(size) {
        settings.max_memory.map_or(u64::MAX, |most| most.0)
    } else {
        settings.max_cpu.map_or(u64::MAX, |most| quantity::rounded_millicores(most.0))
    }
}
