//! Runs policies, as they are or tuned to a failure rate, so that their waste can be compared.

use super::{policy::Kind, tally::Tally, tape::Tape, walk::walk};
use crate::predict::Settings;

/// Halvings of the knob's range, on a logarithmic scale: 14 leave steps under 0.1 %.
const HALVINGS: u32 = 14;

/// What the failure rate of the first tries shall be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Aim {
    /// As each policy is.
    AsItIs,
    /// At most this; a policy that is below stays as it is.
    AtMost(f64),
    /// As near to this as its knob comes.
    Match(f64),
}

/// What a policy costs over the tape; `None` for a preset that the file does not name.
pub(crate) fn run(
    tape: &Tape,
    kind: Kind,
    settings: &Settings,
    (aim, warmup): (Aim, f64),
    mut tell: impl FnMut(f64),
) -> Option<Tally> {
    if kind == Kind::Preset && !tape.has_presets {
        return None;
    }
    let as_it_is = walk(tape, (kind, None), settings, warmup, &mut tell);
    let rate = as_it_is.all.first_failed_rate();
    let (wanted, knob) = match (aim, kind.knob()) {
        (Aim::AtMost(most), Some(knob)) if rate > most => (most, knob),
        (Aim::Match(wanted), Some(knob)) => (wanted, knob),
        _ => return Some(as_it_is),
    };
    let (mut low, mut high) = (knob.0.ln(), knob.1.ln());
    let mut best: Option<Tally> = None;
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        let tally = walk(tape, (kind, Some(middle.exp())), settings, warmup, &mut tell);
        let rate = tally.all.first_failed_rate();
        // a larger knob fails less
        *(if rate > wanted { &mut low } else { &mut high }) = middle;
        let allowed = !matches!(aim, Aim::AtMost(most) if rate > most);
        let nearer = |best: &Tally| miss(rate, wanted) <= miss(best.all.first_failed_rate(), wanted);
        if allowed && best.as_ref().is_none_or(nearer) {
            best = Some(tally);
        }
    }
    best.or(Some(as_it_is))
}

fn miss(rate: f64, wanted: f64) -> f64 {
    (rate - wanted).abs()
}
