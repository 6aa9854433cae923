//! Runs policies, as they are or tuned to a failure rate, so that their surplus can be compared.

use plimsoll_core::predict::Settings;

use super::{
    kind::PolicyKind,
    tally::PolicyTally,
    tape::ReplayTape,
    walk::{PolicySetting, walk},
};

/// Halvings of the knob's range, on a logarithmic scale: 14 leave steps under 0.1 %.
const BISECTION_STEPS: u32 = 14;

/// The failure rate of the first tries to aim for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FailureTarget {
    /// Each policy with its own settings.
    AsItIs,
    /// At most this value; a policy that is below stays as it is.
    AtMost(f64),
    /// Each policy tuned as close to this value as possible.
    Match(f64),
}

/// What a policy is tuned to, and what counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TuneGoal {
    /// The failure rate.
    pub target: FailureTarget,
    /// Share of the rows that are learnt first and not counted.
    pub warmup: f64,
}

/// Runs a policy over the tape and returns its costs; `None` for a preset that the file does not name.
pub fn run(
    tape: &ReplayTape,
    kind: PolicyKind,
    settings: &Settings,
    goal: TuneGoal,
    mut tell: impl FnMut(f64),
) -> Option<PolicyTally> {
    let TuneGoal { target, warmup } = goal;
    if kind == PolicyKind::Preset && !tape.has_presets {
        return None;
    }
    let as_it_is = walk(tape, PolicySetting { kind, knob: None }, settings, warmup, &mut tell);
    let rate = as_it_is.all.first_failed_rate();
    let (wanted, knob) = match (target, kind.knob()) {
        (FailureTarget::AtMost(most), Some(knob)) if rate > most => (most, knob),
        (FailureTarget::Match(wanted), Some(knob)) => (wanted, knob),
        _ => return Some(as_it_is),
    };
    let (mut low, mut high) = (knob.0.ln(), knob.1.ln());
    let mut best: Option<PolicyTally> = None;
    for _ in 0..BISECTION_STEPS {
        let middle = f64::midpoint(low, high);
        let setting = PolicySetting { kind, knob: Some(middle.exp()) };
        let tally = walk(tape, setting, settings, warmup, &mut tell);
        let rate = tally.all.first_failed_rate();
        // a larger knob fails less
        *(if rate > wanted { &mut low } else { &mut high }) = middle;
        let allowed = !matches!(target, FailureTarget::AtMost(most) if rate > most);
        let nearer = |best: &PolicyTally| miss(rate, wanted) <= miss(best.all.first_failed_rate(), wanted);
        if allowed && best.as_ref().is_none_or(nearer) {
            best = Some(tally);
        }
    }
    best.or(Some(as_it_is))
}

fn miss(rate: f64, wanted: f64) -> f64 {
    (rate - wanted).abs()
}
