//! Chooses requests and limits of the container that builds.

use k8s_openapi::api::core::v1::Pod;
use plimsoll_base::quantity;
use plimsoll_core::{
    domain::{self, Bytes, Cause, Prediction},
    predict,
};
use plimsoll_proto::{figures, reasons::SizeBound};

use super::{
    LimitRanges, PodJob, PodSize, Settings, SizeSource, SkipReason,
    limit_range::is_guaranteed,
    own_sizes::{annotation_of, is_memory, parse_annotation, size_of},
    pod::{DONE_ANNOTATION, OPT_OUT, annotation},
    size_pair::{ChosenSize, SizeReason, consistent_pair, equal_pair, maximum_size, set_pair, within_ratio},
};
use crate::runtime::skipped_facts::SkippedFacts;

/// Annotation: `off` lets a pod of the class Guaranteed become Burstable.
const GUARANTEED_ANNOTATION: &str = "plimsoll/guaranteed";

/// Sets the sizes that are known well enough, and records them in an annotation. Returns a line for
/// each changed size, the reason if none is changed, and values of the pod that could not be used.
pub(super) fn apply_sizes(
    pod: &mut Pod,
    job: &PodJob,
    (prediction, from): (&Prediction, SizeSource),
    (settings, ranges): (&Settings, &LimitRanges),
) -> (Vec<String>, SkipReason, SkippedFacts) {
    let stays_guaranteed = settings.keep_guaranteed
        && annotation(pod, GUARANTEED_ANNOTATION) != Some(OPT_OUT)
        && pod.spec.as_ref().is_some_and(is_guaranteed);
    let mut skipped = SkippedFacts::default();
    let choices = PodSize::ALL
        .map(|size| (size, choose_size(pod, job, size, (prediction, from), (settings, &mut skipped))));
    let get = |size| choices.iter().find(|(known, _)| *known == size).and_then(|(_, choice)| choice.chosen);
    let (mut lines, mut reasons) = (Vec::new(), SizeReasons::default());
    for (request, limit) in
        [(PodSize::MemoryRequest, PodSize::MemoryLimit), (PodSize::CpuRequest, PodSize::CpuLimit)]
    {
        let pair = [(request, get(request)), (limit, get(limit))];
        let pair =
            if stays_guaranteed { equal_pair(pod, job, pair, settings) } else { within_ratio(pair, ranges) };
        let pair = consistent_pair(pod, job, pair).and_then(|pair| set_pair(pod, job, pair, ranges));
        for (size, chosen, line) in skipped.keep(pair).unwrap_or_default() {
            lines.push(line);
            reasons.add(size, chosen);
        }
    }
    let unsure = choices.iter().filter(|(_, choice)| choice.unsure).map(|(size, _)| size.as_str());
    let unsure = unsure.collect::<Vec<_>>().join(", ");
    let skip_reason = if unsure.is_empty() { SkipReason::Fits } else { SkipReason::Unsure };
    if !lines.is_empty() {
        let was_short = choices.iter().any(|(_, choice)| choice.was_short);
        let kept = if unsure.is_empty() { unsure } else { format!("; too little is known to set {unsure}") };
        let why = reasons.sizes_reason(prediction, from, was_short);
        let done = format!("{}; {why}{kept}", lines.join(", "));
        pod.metadata.annotations.get_or_insert_default().insert(DONE_ANNOTATION.to_owned(), done);
    }
    (lines, skip_reason, skipped)
}

/// Reasons of the sizes, for the annotation.
#[derive(Debug, Default)]
struct SizeReasons {
    /// Whether at least one size is the predicted one; then the reason of the prediction is given.
    predicted: bool,
    /// Reasons of the sizes that are not the predicted ones.
    own: Vec<String>,
}

impl SizeReasons {
    /// Adds the reason of a size that is set.
    fn add(&mut self, size: PodSize, set: ChosenSize) {
        let why = match set.reason {
            SizeReason::Predicted => {
                self.predicted = true;
                return;
            }
            SizeReason::Annotation => "as the pod's annotation says".to_owned(),
            SizeReason::Most => "the most that a pod may have".to_owned(),
            SizeReason::Least => "the least that a pod may have".to_owned(),
            SizeReason::Ratio => "the ratio of limit to request in the namespace's LimitRange".to_owned(),
            SizeReason::Beside => "a request is never above its limit".to_owned(),
            SizeReason::Guaranteed => "request and limit are equal, so the pod stays Guaranteed".to_owned(),
            SizeReason::AboveOwn(own) => {
                let own = figures::bytes(own);
                format!("a step above {own}, which the last attempt is thought to have had")
            }
        };
        self.own.push(format!("{}: {why}", size.as_str()));
    }

    fn sizes_reason(self, prediction: &Prediction, from: SizeSource, was_short: bool) -> String {
        let mut parts = Vec::with_capacity(self.own.len() + 3);
        match from {
            SizeSource::ByHistory => {}
            SizeSource::ByVerdict { cause: Cause::EvictedByNode, .. } => {
                parts.push("its node evicted the last attempt".to_owned());
            }
            SizeSource::ByVerdict { .. } => parts.push("the last attempt ran out of memory".to_owned()),
        }
        parts.extend(self.own);
        if self.predicted {
            parts.push(prediction.reason.clone());
        }
        if let (SizeSource::ByHistory, Some(bound)) = (from, prediction.lower_bound.filter(|_| was_short)) {
            let above = bound.above;
            parts.push(format!(
                "its own memory was not above {above}, where memory stopped builds of this package"
            ));
        }
        parts.join("; ")
    }
}

/// Decision about one size.
struct SizeChoice {
    /// The size; `None` if it stays unset.
    chosen: Option<ChosenSize>,
    /// Whether the pod's size is kept because too little is known.
    unsure: bool,
    /// Whether the pod's own size is known to be too small.
    was_short: bool,
}

fn choose_size(
    pod: &Pod,
    job: &PodJob,
    size: PodSize,
    (prediction, from): (&Prediction, SizeSource),
    (settings, skipped): (&Settings, &mut SkippedFacts),
) -> SizeChoice {
    let sure = |chosen| SizeChoice { chosen, unsure: false, was_short: false };
    let own = size_of(pod, job, size);
    let by_prediction = SizeReason::Predicted;
    let there = own.map(|value| ChosenSize { value, fixed: true, new: false, reason: by_prediction });
    match annotation(pod, &annotation_of(size)) {
        Some(OPT_OUT) => return sure(there),
        // an invalid size in an annotation must not break the pod, so it is skipped
        Some(text) => {
            let value = skipped.keep(parse_annotation(size, text));
            let value = value.map(|value| bounded_size(value, SizeReason::Annotation, size, settings).0);
            let why = SizeReason::Annotation;
            return sure(
                value.map(|value| ChosenSize { value, fixed: true, new: true, reason: why }).or(there),
            );
        }
        None => {}
    }
    if !settings.sizes.contains(&size) {
        return sure(there);
    }
    let quantity = predicted_quantity(prediction, size);
    // a default does not count as known, even if the rest of the prediction does
    if prediction.is_known_for_build(quantity, settings.confidence) {
        let (value, why) = bounded_size(quantity.value, by_prediction, size, settings);
        // compared as a number: the same size may be written in another way
        return sure(Some(ChosenSize { value, fixed: false, new: own != Some(value), reason: why }));
    }
    let own = own.filter(|_| is_memory(size));
    let chosen = match (from, own) {
        (SizeSource::ByVerdict { had_unknown, .. }, Some(own)) => {
            larger_size(own, above_own((own, had_unknown), quantity), size, settings)
        }
        (SizeSource::ByHistory, Some(own))
            if is_too_little(own, prediction) || is_taken_back(prediction, quantity) =>
        {
            larger_size(own, (quantity.value, by_prediction), size, settings)
        }
        _ => return SizeChoice { chosen: there, unsure: true, was_short: false },
    };
    SizeChoice { chosen: Some(chosen), unsure: false, was_short: chosen.new }
}

/// Whether builds of the package ran out of memory with at least the pod's size, and none succeeded
/// since.
fn is_too_little(own: u64, prediction: &Prediction) -> bool {
    // sizes are stored as logarithms, so a size may have become some bytes smaller
    prediction.lower_bound.is_some_and(|bound| own < bound.above.0.saturating_add(Bytes::MIB.0))
}

/// Whether the size is one that the build had before a lowering, at most cut by a bound of the operator's.
fn is_taken_back(prediction: &Prediction, quantity: &domain::Quantity) -> bool {
    let bound = &quantity.basis.bound;
    prediction.taken_back.is_some() && (matches!(bound, SizeBound::TakenBack(_)) || bound.is_cut())
}

/// The larger of a size, within the operator's bounds, and the pod's own size.
fn larger_size(own: u64, (value, why): (u64, SizeReason), size: PodSize, settings: &Settings) -> ChosenSize {
    let (value, why) = bounded_size(value, why, size, settings);
    if value > own {
        ChosenSize { value, fixed: false, new: true, reason: why }
    } else {
        ChosenSize { value: own, fixed: true, new: false, reason: why }
    }
}

/// Brings a size within the bounds of the operator and the `LimitRange`s.
fn bounded_size(value: u64, why: SizeReason, size: PodSize, settings: &Settings) -> (u64, SizeReason) {
    let (least, most) = (minimum_size(size, settings), maximum_size(size, settings));
    match value.max(least).min(most) {
        same if same == value => (value, why),
        less if less < value => (less, SizeReason::Most),
        more => (more, SizeReason::Least),
    }
}

fn predicted_quantity(prediction: &Prediction, size: PodSize) -> &domain::Quantity {
    match size {
        PodSize::MemoryRequest => &prediction.memory_request,
        PodSize::MemoryLimit => &prediction.memory_limit,
        PodSize::CpuRequest => &prediction.cpu_request,
        PodSize::CpuLimit => &prediction.cpu_limit,
    }
}

/// The operator's minimum for a size: bytes, or thousandths of a core.
fn minimum_size(size: PodSize, settings: &Settings) -> u64 {
    if is_memory(size) {
        settings.min_memory.unwrap_or_default().0
    } else {
        quantity::rounded_millicores(settings.min_cpu.unwrap_or_default().0)
    }
}

/// The size from the verdict after an attempt that ran out of memory. If the sizes of that attempt
/// are unknown, they are assumed to be those of this pod, and the result is at least a step above
/// them. A size that a cap or a pool lowered is not raised again.
fn above_own((own, had_unknown): (u64, bool), named: &domain::Quantity) -> (u64, SizeReason) {
    let step = predict::step_above(Bytes(own)).0;
    if had_unknown && !named.basis.bound.is_cut() && step > named.value {
        (step, SizeReason::AboveOwn(own))
    } else {
        (named.value, SizeReason::Predicted)
    }
}
