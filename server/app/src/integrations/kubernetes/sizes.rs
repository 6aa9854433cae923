//! Requests and limits of the container that builds.

use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::domain::{self, Bytes, FieldViolation, Prediction, Resources};
use plimsoll_proto::quantity;

use super::{
    Job, Left, Settings, Size, SizeSource,
    own_sizes::{annotation_of, by_annotation, has, is_memory, is_valid, path, raw, set, written},
    pod::{DONE, OFF, annotation},
};
use crate::runtime::skipped_facts::SkippedFacts;

/// A request or limit while it is chosen: bytes, or thousandths of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chosen {
    value: u64,
    /// A person chose it, or it was there and stays: it does not move to make room for another.
    fixed: bool,
    /// It is not what the pod has.
    new: bool,
}

/// Sets the sizes that enough is known of, and writes into the pod what was done. Gives a line for each size that changes, why there is
/// none, and what could not be used.
pub(super) fn apply(
    pod: &mut Pod,
    job: &Job,
    (prediction, from): (&Prediction, SizeSource),
    settings: &Settings,
) -> (Vec<String>, Left, SkippedFacts) {
    let mut skipped = SkippedFacts::default();
    let choices =
        Size::ALL.map(|size| (size, choose(pod, job, size, (prediction, from), (settings, &mut skipped))));
    let get = |size| choices.iter().find(|(known, _)| *known == size).and_then(|(_, choice)| choice.chosen);
    let mut lines = Vec::new();
    for (request, limit) in [(Size::MemoryRequest, Size::MemoryLimit), (Size::CpuRequest, Size::CpuLimit)] {
        let pair = checked(pod, job, [(request, get(request)), (limit, get(limit))]);
        let Some((asked, most)) = skipped.keep(pair) else { continue };
        for (size, chosen) in [(request, asked), (limit, most)] {
            let Some(chosen) = chosen.filter(|chosen| chosen.new) else { continue };
            let text = written(size, chosen.value);
            let was = set(pod, job, size, &text);
            if was.as_ref() != Some(&text) {
                lines.push(format!("{} {} -> {text}", size.as_str(), was.as_deref().unwrap_or("none")));
            }
        }
    }
    let unsure = choices.iter().filter(|(_, choice)| choice.unsure).map(|(size, _)| size.as_str());
    let unsure = unsure.collect::<Vec<_>>().join(", ");
    let left = if unsure.is_empty() { Left::Fits } else { Left::Unsure };
    if !lines.is_empty() {
        let was_short = choices.iter().any(|(_, choice)| choice.was_short);
        let why = match from {
            SizeSource::ByHistory => match prediction.lower_bound.filter(|_| was_short) {
                Some(bound) => format!(
                    "{}; its own memory was not above {}, where memory stopped builds of this package",
                    prediction.reason, bound.above
                ),
                None => prediction.reason.clone(),
            },
            SizeSource::ByVerdict { .. } => {
                format!("the last attempt ran out of memory; {}", prediction.reason)
            }
        };
        let kept = if unsure.is_empty() { unsure } else { format!("; too little is known to set {unsure}") };
        let done = format!("{}; {why}{kept}", lines.join(", "));
        pod.metadata.annotations.get_or_insert_default().insert(DONE.to_owned(), done);
    }
    (lines, left, skipped)
}

/// What becomes of one size.
struct Choice {
    /// What it shall be; `None` if it is not set and stays so.
    chosen: Option<Chosen>,
    /// It stays as it is because too little is known of it.
    unsure: bool,
    /// What the pod had is known to be too little.
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
    let there = own.map(|value| Chosen { value, fixed: true, new: false });
    match annotation(pod, &annotation_of(size)) {
        Some(OFF) => return sure(there),
        // what is not a size is no reason to break the pod
        Some(text) => {
            let value = skipped.keep(by_annotation(size, text));
            let value = value.map(|value| value.min(most(size, settings)));
            return sure(value.map(|value| Chosen { value, fixed: true, new: true }).or(there));
        }
        None => {}
    }
    if !settings.sizes.contains(&size) {
        return sure(there);
    }
    let quantity = predicted(prediction, size);
    // a default is no knowledge, whatever the rest of the prediction rests on
    if prediction.is_known(quantity, settings.confidence) {
        let value = quantity.value.min(most(size, settings));
        // the same in other words would only look like a change
        return sure(Some(Chosen { value, fixed: false, new: own != Some(value) }));
    }
    match (from, own) {
        (SizeSource::ByVerdict { had }, Some(own)) if is_memory(size) => {
            sure(Some(above_own((own, had), size, prediction, settings)))
        }
        (SizeSource::ByHistory, Some(own)) if is_memory(size) && is_too_little(own, prediction) => {
            let chosen = above_kills(own, size, prediction, settings);
            Choice { chosen: Some(chosen), unsure: false, was_short: chosen.new }
        }
        _ => Choice { chosen: there, unsure: true, was_short: false },
    }
}

/// Memory stopped builds of the package at no less than what the pod has, and none of the package fitted.
fn is_too_little(own: u64, prediction: &Prediction) -> bool {
    // a need is kept as a logarithm, so the same size may be a byte smaller
    prediction.lower_bound.is_some_and(|bound| own < bound.above.0.saturating_add(Bytes::MIB.0))
}

/// A step above where builds of the package were stopped, or what is predicted if that is more. What a cap or a pool cut is not raised again.
fn above_kills(own: u64, size: Size, prediction: &Prediction, settings: &Settings) -> Chosen {
    let guess = predicted(prediction, size);
    let bound = prediction.lower_bound.filter(|_| !guess.basis.bound.is_cut());
    let step = bound.map_or(Bytes(0), |bound| bound.least);
    larger(own, guess.value.max(step.0).min(most(size, settings)))
}

/// A size in the place of the pod's own, which stays unless it grows.
fn larger(own: u64, value: u64) -> Chosen {
    if value > own {
        Chosen { value, fixed: false, new: true }
    } else {
        Chosen { value: own, fixed: true, new: false }
    }
}

fn predicted(prediction: &Prediction, size: Size) -> &domain::Quantity {
    match size {
        Size::MemoryRequest => &prediction.memory_request,
        Size::MemoryLimit => &prediction.memory_limit,
        Size::CpuRequest => &prediction.cpu_request,
        Size::CpuLimit => &prediction.cpu_limit,
    }
}

/// The most that the operator allows: bytes, or thousandths of a core.
fn most(size: Size, settings: &Settings) -> u64 {
    if is_memory(size) {
        settings.max_memory.map_or(u64::MAX, |most| most.0)
    } else {
        settings.max_cpu.map_or(u64::MAX, |most| quantity::millicores(most.0))
    }
}

/// After an end by memory of a job about which little is known, so that its pod had its own memory: that was too small, whatever others
/// need. It grows as far as the verdict's size is above the one that was thought to be too small: from what the last attempt's pod `had`,
/// which may have grown before, else from what this one asks for.
fn above_own(
    (own, had): (u64, Option<Resources>),
    size: Size,
    prediction: &Prediction,
    settings: &Settings,
) -> Chosen {
    let guess = predicted(prediction, size);
    let factor = Some(guess.basis.margin).filter(|factor| factor.is_finite()).unwrap_or(1.0);
    let had =
        had.and_then(|had| if size == Size::MemoryLimit { had.memory_limit } else { had.memory_request });
    let grown = Bytes::from_f64(had.unwrap_or(Bytes(own)).as_f64() * factor.max(1.0)).ceil_mib();
    // what was not seen is thought to have had the size that is predicted
    let least = if had.is_some() { 0 } else { guess.value };
    larger(own, grown.0.max(least).min(most(size, settings)))
}

/// A request and its limit, such that the request is not above: Kubernetes refuses such a pod, also where the limit is 0, which limits
/// nothing where the pod runs.
///
/// # Errors
/// Both stay as the pod has them: what keeps them from going together.
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

/// A request and its limit, one of them moved to make room for the other if it may. `None` if neither may.
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
