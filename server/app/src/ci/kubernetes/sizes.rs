//! Chooses requests and limits of the container that builds.

use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::{
    domain::{self, Bytes, Cause, FieldViolation, Prediction},
    predict,
};
use plimsoll_proto::{figures, quantity};

use super::{
    PodJob, PodSize, Settings, SizeSource, SkipReason,
    own_sizes::{
        annotation_of, is_memory, is_valid, parse_annotation, path, quantity_text, set_size, size_of,
        size_text,
    },
    pod::{DONE_ANNOTATION, OPT_OUT, annotation},
};
use crate::runtime::skipped_facts::SkippedFacts;

/// A request or limit that may be set: bytes, or thousandths of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChosenSize {
    value: u64,
    /// Whether a person set the value, or it is the pod's own: then it is not adjusted to fit
    /// another size.
    fixed: bool,
    /// Whether the value differs from the pod's.
    new: bool,
    reason: SizeReason,
}

/// Source of a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SizeReason {
    /// The size in the prediction or the verdict.
    Predicted,
    /// The size in an annotation of the pod.
    Annotation,
    /// The operator's maximum, because the prediction is above it.
    Most,
    /// A step above this size, which is the pod's own.
    AboveOwn(u64),
}

/// Sets the sizes that are known well enough, and records them in an annotation. Returns a line for
/// each changed size, the reason if none is changed, and values of the pod that could not be used.
pub(super) fn apply_sizes(
    pod: &mut Pod,
    job: &PodJob,
    (prediction, from): (&Prediction, SizeSource),
    settings: &Settings,
) -> (Vec<String>, SkipReason, SkippedFacts) {
    let mut skipped = SkippedFacts::default();
    let choices = PodSize::ALL
        .map(|size| (size, choose_size(pod, job, size, (prediction, from), (settings, &mut skipped))));
    let get = |size| choices.iter().find(|(known, _)| *known == size).and_then(|(_, choice)| choice.chosen);
    let (mut lines, mut reasons) = (Vec::new(), SizeReasons::default());
    for (request, limit) in
        [(PodSize::MemoryRequest, PodSize::MemoryLimit), (PodSize::CpuRequest, PodSize::CpuLimit)]
    {
        let pair = consistent_pair(pod, job, [(request, get(request)), (limit, get(limit))]);
        let Some((asked, most)) = skipped.keep(pair) else { continue };
        for (size, chosen) in [(request, asked), (limit, most)] {
            let Some(chosen) = chosen.filter(|chosen| chosen.new) else { continue };
            let text = quantity_text(size, chosen.value);
            let was = set_size(pod, job, size, &text);
            if was.as_ref() != Some(&text) {
                lines.push(format!("{} {} -> {text}", size.as_str(), was.as_deref().unwrap_or("none")));
                reasons.add(size, chosen, get(size));
            }
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
    /// Adds the reason of a size that is set. `chosen` is its value before it was adjusted to fit
    /// the request or limit.
    fn add(&mut self, size: PodSize, set: ChosenSize, chosen: Option<ChosenSize>) {
        let name = size.as_str();
        if chosen.is_some_and(|chosen| chosen.value != set.value) {
            self.own.push(format!("{name}: a request is never above its limit"));
            return;
        }
        match set.reason {
            SizeReason::Predicted => self.predicted = true,
            SizeReason::Annotation => self.own.push(format!("{name}: as the pod's annotation says")),
            SizeReason::Most => self.own.push(format!("{name}: the most that a pod may have")),
            SizeReason::AboveOwn(own) => {
                let own = figures::bytes(own);
                self.own.push(format!(
                    "{name}: a step above {own}, which the last attempt is thought to have had"
                ));
            }
        }
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
            let value = value.map(|value| value.min(maximum_size(size, settings)));
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
    if prediction.is_known(quantity, settings.confidence) {
        let (value, why) = capped_size(quantity.value, by_prediction, size, settings);
        // compared as a number: the same size may be written in another way
        return sure(Some(ChosenSize { value, fixed: false, new: own != Some(value), reason: why }));
    }
    let own = own.filter(|_| is_memory(size));
    let chosen = match (from, own) {
        (SizeSource::ByVerdict { had_unknown, .. }, Some(own)) => {
            larger_size(own, above_own((own, had_unknown), quantity), size, settings)
        }
        (SizeSource::ByHistory, Some(own)) if is_too_little(own, prediction) => {
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

/// The larger of a size, capped at the operator's maximum, and the pod's own size.
fn larger_size(own: u64, (value, why): (u64, SizeReason), size: PodSize, settings: &Settings) -> ChosenSize {
    let (value, why) = capped_size(value, why, size, settings);
    if value > own {
        ChosenSize { value, fixed: false, new: true, reason: why }
    } else {
        ChosenSize { value: own, fixed: true, new: false, reason: why }
    }
}

/// Caps a size at the operator's maximum.
fn capped_size(value: u64, why: SizeReason, size: PodSize, settings: &Settings) -> (u64, SizeReason) {
    let most = maximum_size(size, settings);
    if value > most { (most, SizeReason::Most) } else { (value, why) }
}

fn predicted_quantity(prediction: &Prediction, size: PodSize) -> &domain::Quantity {
    match size {
        PodSize::MemoryRequest => &prediction.memory_request,
        PodSize::MemoryLimit => &prediction.memory_limit,
        PodSize::CpuRequest => &prediction.cpu_request,
        PodSize::CpuLimit => &prediction.cpu_limit,
    }
}

/// The operator's maximum for a size: bytes, or thousandths of a core.
fn maximum_size(size: PodSize, settings: &Settings) -> u64 {
    if is_memory(size) {
        settings.max_memory.map_or(u64::MAX, |most| most.0)
    } else {
        settings.max_cpu.map_or(u64::MAX, |most| quantity::rounded_millicores(most.0))
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

/// Adjusts a request and its limit so that the request does not exceed the limit: Kubernetes
/// refuses other pods, even if the limit is 0, which means unlimited at run time.
/// Errors: the two cannot be adjusted, so both must stay as in the pod; the error has the reason.
fn consistent_pair(
    pod: &Pod,
    job: &PodJob,
    [(request, asked), (limit, most)]: [(PodSize, Option<ChosenSize>); 2],
) -> Result<(Option<ChosenSize>, Option<ChosenSize>), FieldViolation> {
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
        Ok(pair)
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
        return Some((request, Some(ChosenSize { value: asked.value, ..most })));
    }
    (!asked.fixed).then_some((Some(ChosenSize { value: most.value, ..asked }), limit))
}
