//! A retry with more CPU: recognizes a build that its CPU limit throttled until its time was over, and computes the next CPU size.

use plimsoll_proto::{figures, reasons::SizeBound};

use super::{Draft, Remedy, RemedyCase};
use crate::{
    domain::{Action, Cause, Cores, EvidenceSource, Millis, Prediction, Quantity, Summary},
    predict::Settings,
    retry::cause::{clues::make_clue, finding::Clue},
};

/// Share of the CPU time that a build could have used, lost at its limit, above which it counts as throttled. This is a judgement: a build
/// that lost a quarter would have finished after three quarters of its time at best.
const THROTTLED_SHARE: f64 = 0.25;
/// Share of the CPU limit that the build used on average; below it, something else made the build slow.
const BUSY_SHARE: f64 = 0.5;
/// Highest next CPU limit, as a multiple of the limit that was too small. Throttled time overestimates what is missing: it counts every CPU
/// that waited, also one that would have been idle a moment later.
const MAX_GROWTH: f64 = 2.0;

/// The clue that a CPU limit throttled the build. Only for a build that exceeded its time, because others did not fail for lack of CPU.
pub(in crate::retry) fn throttled_clue(summary: &Summary) -> Option<Clue> {
    let lost = summary.throttled?;
    let share = lost.as_f64() / (lost.as_f64() + summary.cpu.as_f64()).max(1.0);
    let used = summary.cpu.cores_over(summary.wall);
    // a build without a limit of its own was throttled by a parent's limit: then the lost time itself must be large enough
    let (busy, limit) = match summary.resources.cpu_limit {
        Some(limit) => (used.0 >= BUSY_SHARE * limit.0, format!("its limit of {limit} cores")),
        None => {
            (lost.as_f64() / 1000.0 >= THROTTLED_SHARE * summary.wall.as_f64(), "a limit above it".to_owned())
        }
    };
    if share < THROTTLED_SHARE || !busy {
        return None;
    }
    let text = format!(
        "held back at {limit} for {lost} of CPU time ({:.0} % of what it could have used)",
        share * 100.0
    );
    Some(make_clue(EvidenceSource::Kernel, Cause::Contention, 0.8, text))
}

/// A retry with more CPU for a build that its limit throttled, else one without a change after a wait.
pub(super) fn remedy(case: RemedyCase<'_>, mut draft: Draft) -> Remedy {
    let measured = case.measured();
    let grown = measured.and_then(|summary| grow_cpu(&mut draft.next, summary, case.known.settings));
    let Some(cores) = grown else {
        let advice = format!("retry later, {}", draft.how);
        return draft.retry(Action::AsIs, advice);
    };
    let had = measured.and_then(|summary| summary.resources.cpu_limit);
    let from = had.map_or(String::new(), |had| format!("{} -> ", figures::cores_named(had.0)));
    let cores = figures::cores_named(cores.0);
    draft.retry(Action::Bigger, format!("retry with more CPU (limit {from}{cores})"))
}

/// Raises the CPU sizes of a build that its limit throttled to what the build would have used: at most twice its limit, and never above the
/// cap. `None` if it had no limit, or the cap is reached.
fn grow_cpu(next: &mut Prediction, summary: &Summary, settings: &Settings) -> Option<Cores> {
    throttled_clue(summary)?;
    let had = summary.resources.cpu_limit.filter(|limit| limit.0 > 0.0)?;
    let wall = (summary.wall.as_f64() * 1000.0).max(1.0);
    let wanted = (summary.cpu.as_f64() + summary.throttled?.as_f64()) / wall;
    let grown = wanted.max(had.0 / (1.0 - THROTTLED_SHARE)).min(had.0 * MAX_GROWTH);
    let (grown, bound) = match settings.cpu_cap {
        Some(cap) if cap.0 < grown => (cap.0, SizeBound::Cap(figures::cores_named(cap.0))),
        _ => (grown, SizeBound::HeldBack(figures::cores(had.0))),
    };
    if grown <= had.0 {
        return None;
    }
    set_cores(&mut next.cpu_limit, grown, &bound);
    // a build with a request equal to its limit has guaranteed CPU; the next attempt keeps the two equal
    if summary.resources.cpu_request.is_some_and(|request| request.0 >= had.0) {
        set_cores(&mut next.cpu_request, grown, &bound);
    }
    Some(Cores(grown))
}

fn set_cores(quantity: &mut Quantity, cores: f64, bound: &SizeBound) {
    // `cores * 1000.0` is a count of millicores: `Millis` only converts it
    quantity.value = Millis::from_f64(cores * 1000.0).0.max(1);
    quantity.basis.bound = bound.clone();
    quantity.basis.confidence = Some(1.0);
}
