//! The reasons, in words, and how far a prediction can be trusted.

use std::fmt::Write as _;

use plimsoll_proto::reasons::{self, SizeKind};

use super::{memory::Sizes, pool::Pool};
use crate::domain::{Bytes, Key, Rung};

/// What a share on a rung is worth: exactly this key is worth all of it, the fleet little.
fn worth(rung: Rung) -> f64 {
    match rung {
        Rung::Exact => 1.0,
        Rung::NoVersion => 0.85,
        Rung::NoCompiler => 0.7,
        Rung::Package => 0.5,
        Rung::BuildSystem => 0.2,
        Rung::Fleet => 0.1,
        Rung::Default => 0.0,
    }
}

/// How far the needs of one build lie apart, in medians, as long as they do not tell themselves. One attempt has no spread of its own, and
/// must not look surer than two that differ.
const USUAL_WIDTH: f64 = 0.5;

/// Sum of share times worth over the rungs, less the more the expected needs differ: at a spread of one median, half. `width` counts by
/// the attempts that tell it, all of `told` but the first, and [`USUAL_WIDTH`] as one.
pub(super) fn confidence(shares: &[(Rung, f64)], told: usize, width: f64) -> f64 {
    // not `sum`, which of nothing is -0
    let known = shares.iter().fold(0.0, |known, (rung, share)| known + share * worth(*rung));
    let tell = f64::from(u32::try_from(told.saturating_sub(1)).unwrap_or(u32::MAX));
    let width = (USUAL_WIDTH + tell * width.max(0.0)) / (1.0 + tell);
    (known / (1.0 + width)).clamp(0.0, 1.0)
}

/// One sentence for a CI engineer.
pub(super) fn reason(pool: &Pool<'_>, key: &Key, sizes: &Sizes, jobs: (u64, f64)) -> String {
    let mut text = who(pool, key);
    let (jobs, slope) = jobs;
    if pool.used.is_empty() {
        return text;
    }
    let _written = write!(text, " at -j{jobs}");
    if slope > 0.0 {
        let _written = write!(text, " (each job counts {})", Bytes::from_f64(slope));
    }
    let basis = &sizes.limit.basis;
    let share = (basis.quantile, basis.margin);
    let limit = reasons::because(SizeKind::MemoryLimit, sizes.limit.value, share, &basis.bound);
    if !limit.is_empty() {
        let _written = write!(text, "; memory limit: {limit}");
    }
    let stopped = pool.used.iter().filter(|used| used.fact.censored).count();
    if stopped > 0 {
        let counts = if stopped == 1 {
            "1 attempt that memory stopped counts as more than it had".to_owned()
        } else {
            format!("{stopped} attempts that memory stopped count as more than they had")
        };
        let _written = write!(text, "; {counts}");
    }
    text
}

/// Who said what: the attempts of the rung that weighs most.
fn who(pool: &Pool<'_>, key: &Key) -> String {
    let rung = pool.main_rung();
    if rung == Rung::Default {
        return format!("nothing is known about {} yet, so this is the configured default", key.describe());
    }
    let here = || pool.used.iter().filter(|used| used.rung == rung);
    let mut needs: Vec<u64> =
        here().filter(|used| !used.fact.censored).map(|used| Bytes::from_f64(used.need.exp2()).0).collect();
    needs.sort_unstable();
    let count = here().count();
    let attempts = if count == 1 { "attempt" } else { "attempts" };
    let first = format!("{count} {attempts} of {}", rung.describe());
    let (Some(least), Some(most), Some(median)) = (needs.first(), needs.last(), needs.get(needs.len() / 2))
    else {
        return format!("{first} did not fit");
    };
    let (least, most, median) = (Bytes(*least).to_string(), Bytes(*most).to_string(), Bytes(*median));
    if least == most {
        return format!("{first} needed {least}");
    }
    format!("{first} needed {least} to {most} (median {median})")
}
