//! Finds the failure rate from which on predicted sizes have less surplus than the sizes that the builds
//! requested.
//!
//! Fewer failures need larger sizes. If very few failures are allowed, the predictor reserves more memory than
//! people who know their builds. The failure rate at which it begins to reserve less is found by changing the
//! predictor's setting, the price of a failure, from the highest value down.

use plimsoll_core::predict::Settings;

use super::{
    kind::PolicyKind,
    tally::{PolicyCost, PolicyResults, PolicyTally},
    tape::ReplayTape,
    walk::{PolicySetting, walk},
};

/// How many settings are tried over the whole range.
const KNOB_STEPS: u32 = 13;
/// How often the range is halved, between the last setting with more surplus and the first with less.
const BISECTION_STEPS: u32 = 6;

/// The failure rates just before and from which predicted sizes have less surplus than the requested ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GainThreshold {
    /// Failure rate at which the predictor has more surplus than the requested sizes: the share of builds with
    /// a first try that was too small, 0 to 1.
    pub(crate) failure_share: f64,
    /// Lowest failure rate at which the predictor has less surplus than the requested sizes; `None` if there is
    /// none.
    pub(crate) gains_from: Option<f64>,
}

/// Searches for the lowest failure rate at which `plimsoll` has less surplus than `preset`. `None` if one of
/// the two is not among the results, or if `plimsoll` has less surplus without any change.
pub fn threshold(
    tape: &ReplayTape,
    results: &PolicyResults,
    settings: &Settings,
    warmup: f64,
    mut on_progress: impl FnMut(f64),
) -> Option<GainThreshold> {
    let of = |kind| results.iter().find(|(of, _)| *of == kind).map(|(_, tally)| &tally.all_builds);
    let (ours, preset) = (of(PolicyKind::Plimsoll)?, of(PolicyKind::Preset)?);
    if ours.surplus_gib_hours < preset.surplus_gib_hours {
        return None;
    }
    let (low, high) = PolicyKind::Plimsoll.knob()?;
    let mut at = |knob: f64| {
        let setting = PolicySetting { kind: PolicyKind::Plimsoll, knob: Some(knob.exp()) };
        walk(tape, setting, settings, warmup, &mut on_progress)
    };
    let gains = |tally: &PolicyTally| tally.all_builds.surplus_gib_hours < preset.surplus_gib_hours;
    let (low, mut above) = (low.ln(), high.ln());
    let step = (above - low) / f64::from(KNOB_STEPS - 1);
    let mut first = None;
    for number in 0..KNOB_STEPS {
        let knob = high.ln() - step * f64::from(number);
        let tally = at(knob);
        if gains(&tally) {
            first = Some((knob, tally.all_builds));
            break;
        }
        above = knob;
    }
    if let Some((mut below, mut best)) = first {
        for _ in 0..BISECTION_STEPS {
            let middle = f64::midpoint(below, above);
            let tally = at(middle);
            if gains(&tally) {
                (below, best) = (middle, tally.all_builds);
            } else {
                above = middle;
            }
        }
        first = Some((below, best));
    }
    let rate = PolicyCost::first_failed_rate;
    Some(GainThreshold { failure_share: rate(ours), gains_from: first.map(|(_, cost)| rate(&cost)) })
}

impl GainThreshold {
    /// The result as one line of text.
    pub(crate) fn words(self) -> String {
        let lost = format!(
            "plimsoll has more surplus than preset where {} of the first tries fail",
            percent(self.failure_share)
        );
        match self.gains_from {
            Some(rate) => format!(
                "{lost}: fewer failures need larger sizes. It has less from {} on (--match-failures {}).\n",
                percent(rate),
                percent(rate).replace(' ', "")
            ),
            None => {
                format!("{lost}, and at any other failure rate: what the builds ask for fits their needs.\n")
            }
        }
    }
}

/// A share as percent, rounded up to a tenth.
fn percent(share: f64) -> String {
    format!("{:.1} %", (share * 1000.0).ceil() / 10.0)
}
