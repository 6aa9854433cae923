//! Describes the next size: whether it is unchanged, what replaced it if not, and why.

use std::fmt::Write as _;

use plimsoll_proto::{
    limits,
    reasons::{self, SizeBound, SizeKind},
};

use super::next::{SizingInputs, sizes_had};
use crate::domain::{Bytes, Prediction, Quantity, Summary};

const SAME_SIZE: &str = "with the same size";

/// Describes how the next sizes compare with those of the last attempt, as the end of "retry ...". They are the same, unless the attempt
/// had no usable sizes.
pub(super) fn how_it_was(next: &Prediction, measured: Option<&Summary>) -> String {
    let Some(had) = measured.map(|summary| summary.resources) else { return SAME_SIZE.to_owned() };
    let sizes = [(had.memory_request, &next.memory_request), (had.memory_limit, &next.memory_limit)];
    let is_size = |size: &Bytes| (1..=limits::MEMORY_BYTES).contains(&size.0);
    for (size, next) in sizes.iter().filter_map(|(size, next)| Some((size.filter(is_size)?, next))) {
        let now = Bytes(next.value);
        match &next.basis.bound {
            SizeBound::Floor(_) if size < now => {
                return format!(
                    "with {now} of memory, because the {size} that it had is below the least size"
                );
            }
            SizeBound::Cap(_) if size > now => {
                return format!("with {now} of memory, the most there is, in the place of {size}");
            }
            _ => {}
        }
    }
    let asked = had.memory_request.filter(|asked| asked.0 > limits::MEMORY_BYTES);
    if let Some(asked) = asked.filter(|_| sizes_had(&had).request.is_none()) {
        return format!("without its memory request of {asked}, which no machine has");
    }
    let had_none = sizes_had(&had).request.is_none();
    if had_none && !next.memory_request.basis.is_unchanged_default() {
        return "with the predicted size, because it had none of its own".to_owned();
    }
    SAME_SIZE.to_owned()
}

/// Sets the reason to why the next memory sizes differ from `predicted`, and why they are below the prediction for a first attempt, if they
/// are.
///
/// Statements about the history are in the past tense, because a verdict is also read after later attempts.
pub(super) fn explain(next: &mut Prediction, predicted: &Prediction, sizing: SizingInputs<'_>) {
    let pairs = [
        (SizeKind::MemoryRequest, &next.memory_request, &predicted.memory_request),
        (SizeKind::MemoryLimit, &next.memory_limit, &predicted.memory_limit),
    ];
    if pairs.iter().all(|(_, next, predicted)| next == predicted) {
        return;
    }
    let mut parts: Vec<String> = Vec::with_capacity(pairs.len());
    for (kind, size, _) in pairs.into_iter().filter(|(_, size, _)| !size.basis.is_unchanged_default()) {
        let basis = &size.basis;
        let why = reasons::reason_of_size(kind, size.value, basis.quantile, basis.margin, &basis.bound);
        if !why.is_empty() {
            parts.push(format!("{} {}: {why}", kind.as_str(), kind.shown(size.value)));
        }
    }
    next.reason = parts.join("; ");
    if let Some((kind, default)) = default_above(next, sizing.first) {
        let which = if sizing.untrusted_succeeded() { "trusted build of this package" } else { "such build" };
        let _written = write!(
            next.reason,
            "; when this was judged, no {which} had succeeded, and the default {kind} of {default} is no measurement of one, so it does not \
             count"
        );
    }
}

/// Name and value of a default that is larger than the next size; `None` if there is none, or if the next size did not grow from that of
/// the last attempt.
fn default_above(next: &Prediction, first: &Prediction) -> Option<(&'static str, Bytes)> {
    let sizes = [
        ("limit", &next.memory_limit, &first.memory_limit),
        ("request", &next.memory_request, &first.memory_request),
    ];
    let grew = |size: &Quantity| {
        matches!(
            size.basis.bound,
            SizeBound::Stopped(_)
                | SizeBound::MayHaveHad(_)
                | SizeBound::NeededAbove(_)
                | SizeBound::Grown(_)
                | SizeBound::VerdictBefore
        )
    };
    let is_less = |size: &Quantity, first: &Quantity| {
        // a cap may have lowered the next size below the default
        first.basis.is_default() && first.value > size.value && !size.basis.bound.is_cut()
    };
    let has_grown = sizes.iter().any(|(_, size, _)| grew(size));
    let less = sizes.into_iter().find(|(_, size, first)| has_grown && is_less(size, first));
    less.map(|(kind, _, first)| (kind, Bytes(first.value)))
}
