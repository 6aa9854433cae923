//! A retry with more time.

use plimsoll_proto::reasons::SizeBound;

use super::{Draft, Remedy, RemedyCase, sizes::set_kept};
use crate::domain::{Action, Millis, Summary};

/// Mean CPU use, in cores, below which the build did nothing: a twentieth of a core.
const STANDSTILL_CORES: f64 = 0.05;

pub(super) fn used_almost_no_cpu(summary: &Summary) -> bool {
    summary.cpu.cores_over(summary.wall).0 < STANDSTILL_CORES
}

/// Raises the wall times for an attempt that used all of its time.
pub(super) fn remedy(case: RemedyCase<'_>, mut draft: Draft) -> Remedy {
    let measured = case.measured();
    if let Some(wall) = measured.map(|summary| summary.wall).filter(|wall| wall.0 > 0) {
        let factor = case.known.policy.grow_factor;
        let factor = if factor.is_finite() { factor.max(1.0) } else { 1.0 };
        let longer = Millis::from_f64(wall.as_f64() * factor);
        for (quantity, time) in [(&mut draft.next.wall_p50, wall), (&mut draft.next.wall_p95, longer)] {
            if quantity.value < time.0 {
                set_kept(quantity, time.0, SizeBound::TooShort(wall.to_string()));
            }
        }
    }
    let working = if measured.is_some() { "it was still working, so " } else { "" };
    let longest = &draft.next.wall_p95;
    let times = match &longest.basis.bound {
        SizeBound::TooShort(had) => format!(" ({had} -> {})", Millis(longest.value)),
        _ => String::new(),
    };
    draft.retry(Action::Longer, format!("{working}retry with more time{times}"))
}
