//! A retry with fewer build jobs, where there is no more memory.

use plimsoll_proto::reasons::SizeBound;

use super::{Draft, Remedy, RemedyCase, memory::needed_words, sizes::set_kept};
use crate::domain::{Action, Bytes, Prediction, Quantity, Rung, Summary};

/// Halves the build jobs of an attempt that memory stopped at the cap, and sets memory to the cap: the size of the largest pool. No retry
/// if it ran one job, or an unknown number.
pub(super) fn at_cap(case: RemedyCase<'_>, mut draft: Draft, cap: Bytes, needed: Option<Bytes>) -> Remedy {
    let needed = needed_words(needed);
    match build_jobs(case) {
        Some(jobs) if jobs > 1 => {
            let fewer = jobs / 2;
            let next = &mut draft.next;
            set_kept(&mut next.build_jobs, fewer, SizeBound::HalfOf(jobs, cap.to_string()));
            for quantity in [&mut next.memory_request, &mut next.memory_limit] {
                set_kept(quantity, cap.0.max(1), SizeBound::Cap(cap.to_string()));
            }
            draft.retry(Action::FewerJobs, format!("retry with -j{fewer} instead of -j{jobs}"))
        }
        Some(_one) => {
            draft.no(format!("with only one build job, a retry would fail in the same way{needed}"))
        }
        None => draft.no(format!("run it with fewer build jobs (how many it ran is not known){needed}")),
    }
}

/// Build jobs of the attempt: the recorded number, else that of other attempts of the same build. `None` if neither is known.
fn build_jobs(case: RemedyCase<'_>) -> Option<u64> {
    let recorded = case.key().hints.build_jobs.map(u64::from).filter(|jobs| *jobs > 0);
    let of_this_build = |jobs: &&Quantity| matches!(jobs.basis.rung, Rung::Exact | Rung::NoVersion);
    let usual =
        Some(&case.predicted.build_jobs).filter(of_this_build).filter(|jobs| !jobs.basis.is_default());
    recorded.or_else(|| usual.map(|jobs| jobs.value))
}

/// Sets the build jobs to as many as fit in the cap, in proportion, and returns that number and how many the attempt had: used if the cap
/// leaves no real step above the size at which memory stopped the attempt, or is below the `needed` size. `None` if the size suffices, if
/// the number of jobs is unknown, or if not even one job fits.
pub(super) fn that_fit(
    case: RemedyCase<'_>,
    next: &mut Prediction,
    needed: Option<Bytes>,
) -> Option<(u64, u64)> {
    let cap = case.known.settings.memory_cap.filter(|cap| next.memory_limit.value >= cap.0)?;
    let stopped = case.measured().map(Summary::stopped_at)?;
    let step = stopped.as_f64() * case.known.policy.grow_factor.max(1.0);
    let wanted = needed.map_or(step, |needed| needed.as_f64().max(step));
    let jobs = u64::from(case.key().hints.build_jobs.filter(|jobs| *jobs > 1)?);
    // `jobs` is a count, not bytes: `Bytes` only converts it
    let fit = Bytes::from_f64((Bytes(jobs).as_f64() * cap.as_f64() / wanted.max(1.0)).floor()).0;
    let fit = Some(fit).filter(|fit| *fit < jobs && (*fit > 0 || needed.is_none()))?.max(1);
    let most = Bytes(next.memory_limit.value).to_string();
    set_kept(&mut next.build_jobs, fit, SizeBound::RoomIn(most));
    Some((fit, jobs))
}
