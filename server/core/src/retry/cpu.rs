//! A build that its CPU limit throttled until its time was over: how it is recognized, and the next CPU size.

use plimsoll_proto::{figures, reasons::SizeBound};

use super::{clues::clue, finding::Clue};
use crate::{
    domain::{Cause, Cores, EvidenceSource, Millis, Prediction, Quantity, Summary},
    predict::Settings,
};

/// Share of the CPU time it could have used, above which a build counts as throttled. A judgement: a build that lost a quarter would have
/// finished after three quarters of its time at best.
const HELD_BACK: f64 = 0.25;
/// Share of its limit that it used on average; below that, something else made it slow.
const BUSY: f64 = 0.5;
/// Most that the next limit may be, as a multiple of the one that was too small: throttled time counts every CPU that waited, also those
/// that would have been idle a moment later.
const MOST: f64 = 2.0;

/// The clue that its CPU limit throttled it. Only for a build that exceeded its time: others did not fail for it.
pub(super) fn throttled(summary: &Summary) -> Option<Clue> {
    let lost = summary.throttled?;
    let share = lost.as_f64() / (lost.as_f64() + summary.cpu.as_f64()).max(1.0);
    let used = summary.cpu.cores_over(summary.wall);
    // without a limit of its own, a parent's limit throttled it: then the lost time itself must be large enough
    let (busy, limit) = match summary.resources.cpu_limit {
        Some(limit) => (used.0 >= BUSY * limit.0, format!("its limit of {limit} cores")),
        None => (lost.as_f64() / 1000.0 >= HELD_BACK * summary.wall.as_f64(), "a limit above it".to_owned()),
    };
    if share < HELD_BACK || !busy {
        return None;
    }
    let text = format!(
        "held back at {limit} for {lost} of CPU time ({:.0} % of what it could have used)",
        share * 100.0
    );
    Some(clue(EvidenceSource::Kernel, Cause::Contention, 0.8, text))
}

/// Raises CPU for a build that its limit throttled: to what it would have used, at most twice what it had, never above the cap. `None` if
/// it had no limit, or the cap is reached.
pub(super) fn grow(next: &mut Prediction, summary: &Summary, settings: &Settings) -> Option<Cores> {
    throttled(summary)?;
    let had = summary.resources.cpu_limit.filter(|limit| limit.0 > 0.0)?;
    let wall = (summary.wall.as_f64() * 1000.0).max(1.0);
    let wanted = (summary.cpu.as_f64() + summary.throttled?.as_f64()) / wall;
    let grown = wanted.max(had.0 / (1.0 - HELD_BACK)).min(had.0 * MOST);
    let (grown, bound) = match settings.cpu_cap {
        Some(cap) if cap.0 < grown => (cap.0, SizeBound::Cap(figures::cores_named(cap.0))),
        _ => (grown, SizeBound::HeldBack(figures::cores(had.0))),
    };
    if grown <= had.0 {
        return None;
    }
    set(&mut next.cpu_limit, grown, &bound);
    // a build whose request equals its limit has guaranteed CPU, and keeps that
    if summary.resources.cpu_request.is_some_and(|request| request.0 >= had.0) {
        set(&mut next.cpu_request, grown, &bound);
    }
    Some(Cores(grown))
}

fn set(quantity: &mut Quantity, cores: f64, bound: &SizeBound) {
    // a count of millicores: the type only provides the conversion
    quantity.value = Millis::from_f64(cores * 1000.0).0.max(1);
    quantity.basis.bound = bound.clone();
    quantity.basis.confidence = Some(1.0);
}
