//! Chooses requests and limits of the container that builds.

use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::{
    domain::{self, Bytes, Cause, FieldViolation, Prediction},
    predict,
};
use plimsoll_proto::{figures, quantity};

use super::{
    Job, Settings, Size, SizeSource, SkipReason,
    own_sizes::{annotation_of, by_annotation, has, is_memory, is_valid, path, raw, set, written},
    pod::{DONE, OFF, annotation},
};
use crate::runtime::skipped_facts::SkippedFacts;

/// A request or limit that may be set: bytes, or thousandths of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chosen {
    value: u64,
    /// Whether a person set the value, or it is the pod's own: then it is not adjusted to fit
    /// another size.
    fixed: bool,
    /// Whether the value differs from the pod's.
    new: bool,
    why: SizeReason,
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
pub(super) fn apply(
    pod: &mut Pod,
    job: &Job,
    (prediction, from): (&Prediction, SizeSource),
    settings: &Settings,
) -> (Vec<String>, SkipReason, SkippedFacts) {
    let mut skipped = SkippedFacts::default();
    let choices =
        Size::ALL.map(|size| (size, choose(pod, job, size, (prediction, from), (settings, &mut skipped))));
    let get = |size| choices.iter().find(|(known, _)| *known == size).and_then(|(_, choice)| choice.chosen);
    let (mut lines, mut reasons) = (Vec::new(), Reasons::default());
    for (request, limit) in [(Size::MemoryRequest, Size::MemoryLimit), (Size::CpuRequest, Size::CpuLimit)] {
        let pair = checked(pod, job, [(request, get(request)), (limit, get(limit))]);
        let Some((asked, most)) = skipped.keep(pair) else { continue };
        for (size, chosen) in [(request, asked), (limit, most)] {
            let Some(chosen) = chosen.filter(|chosen| chosen.new) else { continue };
            let text = written(size, chosen.value);
            let was = set(pod, job, size, &text);
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
        let why = reasons.sentence(prediction, from, was_short);
        let done = format!("{}; {why}{kept}", lines.join(", "));
        pod.metadata.annotations.get_or_insert_default().insert(DONE.to_owned(), done);
    }
    (lines, skip_reason, skipped)
}

/// Reasons of the sizes, for the annotation.
#[derive(Debug, Default)]
struct Reasons {
    /// Whether at least one size is the predicted one; then the reason of the prediction is given.
    predicted: bool,
    /// Reasons of the sizes that are not the predicted ones.
    own: Vec<String>,
}

impl Reasons {
    /// Adds the reason of a size that is set. `chosen` is its value before it was adjusted to fit
    /// the request or limit.
    fn add(&mut self, size: Size, set: Chosen, chosen: Option<Chosen>) {
        let name = size.as_str();
        if chosen.is_some_and(|chosen| chosen.value != set.value) {
            self.own.push(format!("{name}: a request is never above its limit"));
            return;
        }
        match set.why {
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

    fn sentence(self, prediction: &Prediction, from: SizeSource, was_short: bool) -> String {
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
struct Choice {
    /// The size; `None` if it stays unset.
    chosen: Option<Chosen>,
    /// Whether the pod's size is kept because too little is known.
    unsure: bool,
    /// Whether the pod's own size is known to be too small.
    was_short: bool,
}

fn choose(
    pod: &Pod,
    job: &Job,
    size: Size,
    (prediction, from): (&Prediction, SizeSource),
    (settings, skipped): (&Settings, &mut SkippedFacts),
) -> Choice {
    let sure = |chosen| Choice { chosen, unsure: false, was_short: false };
    let own = has(pod, job, size);
    let by_prediction = SizeReason::Predicted;
    let there = own.map(|value| Chosen { value, fixed: true, new: false, why: by_prediction });
    match annotation(pod, &annotation_of(size)) {
        Some(OFF) => return sure(there),
        // an invalid size in an annotation must not break the pod, so it is skipped
        Some(text) => {
            let value = skipped.keep(by_annotation(size, text));
            let value = value.map(|value| value.min(capped(size, settings)));
            let why = SizeReason::Annotation;
            return sure(value.map(|value| Chosen { value, fixed: true, new: true, why }).or(there));
        }
        None => {}
    }
    if !settings.sizes.contains(&size) {
        return sure(there);
    }
    let quantity = predicted(prediction, size);
    // a default does not count as known, even if the rest of the prediction does
    if prediction.is_known(quantity, settings.confidence) {
        let (value, why) = bounded(quantity.value, by_prediction, size, settings);
        // compared as a number: the same size may be written in another way
        return sure(Some(Chosen { value, fixed: false, new: own != Some(value), why }));
    }
    let own = own.filter(|_| is_memory(size));
    let chosen = match (from, own) {
        (SizeSource::ByVerdict { had_unknown, .. }, Some(own)) => {
            larger(own, above_own((own, had_unknown), quantity), size, settings)
        }
        (SizeSource::ByHistory, Some(own)) if is_too_little(own, prediction) => {
            larger(own, (quantity.value, by_prediction), size, settings)
        }
        _ => return Choice { chosen: there, unsure: true, was_short: false },
    };
    Choice { chosen: Some(chosen), unsure: false, was_short: chosen.new }
}

/// Whether builds of the package ran out of memory with at least the pod's size, and none succeeded
/// since.
fn is_too_little(own: u64, prediction: &Prediction) -> bool {
    // sizes are stored as logarithms, so a size may have become some bytes smaller
    prediction.lower_bound.is_some_and(|bound| own < bound.above.0.saturating_add(Bytes::MIB.0))
}

/// The larger of a size, capped at the operator's maximum, and the pod's own size.
fn larger(own: u64, (value, why): (u64, SizeReason), size: Size, settings: &Settings) -> Chosen {
    let (value, why) = bounded(value, why, size, settings);
    if value > own {
        Chosen { value, fixed: false, new: true, why }
    } else {
        Chosen { value: own, fixed: true, new: false, why }
    }
}

/// Caps a size at the operator's maximum.
fn bounded(value: u64, why: SizeReason, size: Size, settings: &Settings) -> (u64, SizeReason) {
    let most = capped(size, settings);
    if value > most { (most, SizeReason::Most) } else { (value, why) }
}

fn predicted(prediction: &Prediction, size: Size) -> &domain::Quantity {
    match size {
        Size::MemoryRequest => &prediction.memory_request,
        Size::MemoryLimit => &prediction.memory_limit,
        Size::CpuRequest => &prediction.cpu_request,
        Size::CpuLimit => &prediction.cpu_limit,
    }
}

/// The operator's maximum for a size: bytes, or thousandths of a core.
fn capped(size: Size, settings: &Settings) -> u64 {
    if is_memory(size) {
        settings.max_memory.map_or(u64::MAX, |most| most.0)
    } else {
        settings.max_cpu.map_or(u64::MAX, |most| quantity::millicores(most.0))
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
///
/// # Errors
/// The two cannot be adjusted, so both must stay as in the pod; the error has the reason.
fn checked(
    pod: &Pod,
    job: &Job,
    [(request, asked), (limit, most)]: [(Size, Option<Chosen>); 2],
) -> Result<(Option<Chosen>, Option<Chosen>), FieldViolation> {
    let text = |size, chosen: Option<Chosen>| match chosen.filter(|chosen| chosen.new) {
        Some(new) => Some(written(size, new.value)),
        None => raw(pod, job, size).map(ToOwned::to_owned),
    };
    let is_changed = |chosen: &Option<Chosen>| chosen.is_some_and(|chosen| chosen.new);
    let fault = |asked, most| {
        let [asked, most] = [text(request, asked), text(limit, most)].map(Option::unwrap_or_default);
        let description = format!("{asked} does not go with {} {most}: both stay as they are", path(limit));
        FieldViolation::new(path(request), description)
    };
    let pair = together(asked, most).ok_or_else(|| fault(asked, most))?;
    let is_fit = is_valid(text(request, pair.0).as_deref(), text(limit, pair.1).as_deref());
    if is_fit || !(is_changed(&pair.0) || is_changed(&pair.1)) {
        Ok(pair)
    } else {
        Err(fault(pair.0, pair.1))
    }
}

/// A request and its limit, one of them adjusted to the other if that is allowed; `None` if neither may change.
fn together(request: Option<Chosen>, limit: Option<Chosen>) -> Option<(Option<Chosen>, Option<Chosen>)> {
    let (Some(asked), Some(most)) = (request, limit) else { return Some((request, limit)) };
    if asked.value <= most.value {
        return Some((request, limit));
    }
    if !most.fixed && asked.fixed {
        return Some((request, Some(Chosen { value: asked.value, ..most })));
    }
    (!asked.fixed).then_some((Some(Chosen { value: most.value, ..asked }), limit))
}
