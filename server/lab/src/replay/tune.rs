//! Runs a policy over the tape, with its own setting or tuned to a failure rate, so that the surplus of
//! policies can be compared.

use plimsoll_core::predict::Settings;

use super::{
    kind::PolicyKind,
    tally::PolicyTally,
    tape::ReplayTape,
    walk::{PolicySetting, walk},
};

/// How often the range of a setting is halved, on a logarithmic scale: after 14 times a step is less than 0.1
/// %.
const BISECTION_STEPS: u32 = 14;

/// Which share of first tries may fail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FailureTarget {
    /// Any share: each policy keeps its own setting.
    AsItIs,
    /// At most this share. A policy with a lower share keeps its setting.
    AtMost(f64),
    /// This share, as closely as each policy can be tuned to it.
    Match(f64),
}

/// What a policy is tuned to, and which rows count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TuneGoal {
    /// The failure rate that the policy should have.
    pub target: FailureTarget,
    /// Share of the rows, from the first on, that the policy only learns from and that do not count.
    pub warmup: f64,
}

/// Runs a policy over the tape, and returns its costs; `None` for requested sizes if the file has none.
pub fn run(
    tape: &ReplayTape,
    kind: PolicyKind,
    settings: &Settings,
    goal: TuneGoal,
    mut on_progress: impl FnMut(f64),
) -> Option<PolicyTally> {
    let TuneGoal { target, warmup } = goal;
    if kind == PolicyKind::Preset && !tape.has_presets {
        return None;
    }
    let as_it_is = walk(tape, PolicySetting { kind, knob: None }, settings, warmup, &mut on_progress);
    let rate = as_it_is.all_builds.first_failed_rate();
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
        let tally = walk(tape, setting, settings, warmup, &mut on_progress);
        let rate = tally.all_builds.first_failed_rate();
        // a larger value of the setting means fewer failures
        *(if rate > wanted { &mut low } else { &mut high }) = middle;
        let allowed = !matches!(target, FailureTarget::AtMost(most) if rate > most);
        // of settings with the same rate, the one that wastes least
        let rank = |tally: &PolicyTally| {
            let all = &tally.all_builds;
            ((all.first_failed_rate() - wanted).abs(), all.surplus_gib_hours)
        };
        let nearer = |best: &PolicyTally| rank(&tally) < rank(best);
        if allowed && best.as_ref().is_none_or(nearer) {
            best = Some(tally);
        }
    }
    best.or(Some(as_it_is))
}
