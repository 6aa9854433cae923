//! Takes back a lowering that failed: a build whose new, lower memory size was too small gets its old size back, as a floor under what is
//! predicted for it, for three months.
//!
//! Sizes are those that attempts really had, from a file in git, the webhook, an answer to Spack, or a person. The rule, over
//! the trusted attempts of one line of builds (same project, package, variants, arch, build system and build jobs; any version and
//! compiler) in the order of their ends:
//!
//! 1. **The size before**: the smallest of [`RUNS_BEFORE`] successes in a row, each larger than the new size by [`MIN_FALL`] or more. The
//!    larger size of a retry is not the size in force.
//! 2. **The new size** is on trial for its first [`TRIAL_RUNS`] runs.
//! 3. **It failed** if memory stopped one of those runs, by evidence, or if [`FAILURES_IN_A_ROW`] in a row failed at it, of two refs at
//!    least.
//! 4. The size before is a floor until [`HOLD`] after that failure, measured by the end of the package's newest attempt.
//!
//! Versions, compilers and stacks may have sizes of their own. So runs of the same ones are compared where there are any, and a failure of
//! others gives no floor to a build that succeeded below it.
//!
//! There is no state: the same attempts give the same floor, whatever the order in which they arrived. The floor only raises. What the
//! build needs beyond it, ordinary predictions add, and the operator's cap and the pool's maximum lower it as every size. The history keeps
//! the newest [`History::PER_RUNG`] attempts of a line, so a line with more builds than that in three months loses the floor earlier; a
//! lowering that then fails again is taken back again, after one failure in that many builds.

use plimsoll_proto::{lowering::taken_back, reasons::SizeBound, v1::TakenBackLowering};

use super::{
    Settings,
    next_size::size_of_need,
    similar::{is_near, nearness},
};
use crate::domain::{
    AttemptBrief, AttemptId, Bytes, Cause, History, Key, Millis, Outcome, Prediction, RetryOf, Rung,
    RungObservation,
};

/// How long a size that was given back is held: three months, which have 92 days at most.
const HOLD: Millis = Millis(92 * 24 * 3600 * 1000);
/// Least fall that is a lowering, as a share of the size before. Predictions move by a few per cent at each build. After a smaller fall
/// the next size after a kill, a third above, is the size before in any case.
const MIN_FALL: f64 = 0.25;
/// Successes in a row that prove a size before the lowering. One alone may be a retry that does not say so.
const RUNS_BEFORE: usize = 2;
/// Runs for which a new size is on trial. Limits that cover 99 % of the builds are exceeded now and then, which ordinary predictions
/// answer: in so few runs that happens by chance after one of seven lowerings at most (replayed: 0.75 % of the builds exceed their limit).
const TRIAL_RUNS: usize = 20;
/// Failures in a row that show that a new size does not work, if they are of two refs at least: one ref alone may be broken.
const FAILURES_IN_A_ROW: usize = 3;
/// Most failures of one line that are looked at, the newest first, so that a prediction takes a bounded time.
const MAX_FAILURES: usize = 16;

/// A lowering that failed, and the sizes before it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct FailedLowering {
    /// Memory request and limit before.
    before: [Bytes; 2],
    evidence: TakenBackLowering,
}

/// The memory sizes that were in force for an attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SizesInForce {
    /// The request, or the limit if the attempt had no request.
    asked: Bytes,
    /// The most memory that the attempt could rely on: its limit, or its request if it had no limit.
    most: Bytes,
}

impl SizesInForce {
    /// `None` if the attempt had no sizes, or they are not known.
    fn of(brief: &AttemptBrief) -> Option<Self> {
        let asked = brief.memory_asked()?;
        let most = brief.memory_limit().unwrap_or(asked);
        Some(Self { asked: asked.min(most), most })
    }
}

/// Raises the memory sizes to those before a lowering that failed, and says why.
pub(super) fn hold(prediction: &mut Prediction, history: &History, key: &Key, settings: &Settings) {
    let Some(found) = find(history, key, prediction.build_jobs.value) else { return };
    let Prediction { memory_request, memory_limit, .. } = prediction;
    for (size, before) in [memory_request, memory_limit].into_iter().zip(found.before) {
        let (floor, bound) = settings.bound_memory(before.ceil_mib());
        if floor.0 > size.value {
            size.value = floor.0;
            // the share that the smaller size covers stays: the larger one covers as much at least
            size.basis.margin = 1.0;
            size.basis.bound = match bound {
                SizeBound::None => SizeBound::TakenBack(floor.to_string()),
                bound => bound,
            };
        }
    }
    if prediction.memory_limit.value < prediction.memory_request.value {
        prediction.memory_limit.value = prediction.memory_request.value;
        prediction.memory_limit.basis.bound = SizeBound::Request;
    }
    prediction.reason.push_str("; ");
    prediction.reason.push_str(&taken_back(&found.evidence));
    prediction.taken_back = Some(found.evidence);
}

/// Whether the end of this attempt took a lowering back; what it was. For counting: a lowering that an older failure took back is not
/// counted again.
pub fn taken_back_by(history: &History, attempt: &AttemptId) -> Option<TakenBackLowering> {
    let brief =
        history.get(attempt).filter(|brief| !brief.untrusted && brief.outcome != Outcome::Succeeded)?;
    let line = history.on_rung(Rung::NoCompiler, &brief.key);
    let mut older = line.skip_while(|seen| seen.brief.attempt != *attempt);
    let failed = older.next()?;
    let older: Vec<&RungObservation> = older.collect();
    let found = failed_lowering(history, failed, &older)?.evidence;
    let mut failures = older.iter().enumerate().filter(|(_, seen)| is_failure(seen)).take(MAX_FAILURES);
    let is_known = failures.any(|(at, seen)| {
        let known = older.get(at + 1..).and_then(|older| failed_lowering(history, seen, older));
        known.is_some_and(|known| known.evidence.lowered_unix_ms == found.lowered_unix_ms)
    });
    (!is_known).then_some(found)
}

/// The failed lowering that holds the sizes of `key` at `jobs` build jobs: the one with the largest size before, then the newest.
fn find(history: &History, key: &Key, jobs: u64) -> Option<FailedLowering> {
    // a key without an arch is of all, as in the rest of the prediction
    let line = || history.similar_on_rung(Rung::NoCompiler, key, true);
    if !line().any(is_failure) {
        return None;
    }
    // other packages must not count: answers are cached by package
    let now = history.on_rung(Rung::Package, key).next()?.brief.ended_unix_ms();
    let input = key.hints.input_bytes.filter(|bytes| *bytes > 0);
    let is_of_key = |seen: &&RungObservation| {
        (seen.jobs == 0 || u64::from(seen.jobs) == jobs) && (input.is_none() || is_near(input, seen))
    };
    let line: Vec<&RungObservation> = line().filter(is_of_key).collect();
    let failures = line.iter().enumerate().filter(|(_, seen)| is_failure(seen)).take(MAX_FAILURES);
    let held = failures.take_while(|(_, seen)| seen.brief.ended_unix_ms().saturating_add(HOLD.0) > now);
    let lowerings = held.filter_map(|(at, seen)| {
        let found = failed_lowering(history, seen, line.get(at + 1..)?)?;
        let fits_below = |own: &&RungObservation| {
            is_same_build(&own.brief.key, key)
                && is_success(own)
                && SizesInForce::of(&own.brief).is_some_and(|had| had.most < found.before[1])
        };
        (is_same_build(&seen.brief.key, key) || !line.iter().any(fits_below)).then_some(found)
    });
    lowerings.max_by_key(|found| (found.before[1], found.evidence.failed_unix_ms))
}

/// Whether an attempt may have failed because its memory was too small.
fn is_failure(seen: &RungObservation) -> bool {
    // the observation alone shows most successes: a brief is looked up only for the others
    let [wall, ..] = seen.rates;
    wall.is_nan() && (is_stopped(seen) || is_builds_failure(seen))
}

/// Whether an attempt built what it had to and succeeded.
fn is_success(seen: &RungObservation) -> bool {
    seen.brief.outcome == Outcome::Succeeded && !seen.brief.is_not_a_measurement()
}

/// The lowering that the attempt `failed` takes back. `older`: the attempts of its line that ended before it, newest first.
fn failed_lowering(
    history: &History,
    failed: &RungObservation,
    older: &[&RungObservation],
) -> Option<FailedLowering> {
    let now = SizesInForce::of(&failed.brief)?;
    let least_before = Bytes::from_f64(now.most.as_f64() / (1.0 - MIN_FALL));
    let alike = || older.iter().copied().filter(|seen| is_alike(failed, seen));
    let is_own = |seen: &&RungObservation| {
        is_same_build(&seen.brief.key, &failed.brief.key) && SizesInForce::of(&seen.brief).is_some()
    };
    let only_own = alike().any(|seen| is_own(&seen));
    let older = || alike().filter(|seen| !only_own || is_own(seen));
    let is_at_new_size = |seen: &RungObservation| {
        SizesInForce::of(&seen.brief).is_some_and(|had| had.most < least_before)
            && !is_raised_retry(history, &seen.brief)
    };
    let is_killed = is_stopped(failed) && is_at_new_size(failed);
    if !is_killed && !ends_a_row(failed, older(), is_at_new_size) {
        return None;
    }
    let (mut runs, mut before, mut lowered) = (0, Vec::with_capacity(RUNS_BEFORE), &failed.brief);
    for seen in older() {
        let Some(had) = SizesInForce::of(&seen.brief) else { continue };
        if had.most < least_before {
            runs += usize::from(is_success(seen) || is_stopped(seen));
            (before, lowered) = (Vec::new(), &seen.brief);
        } else if is_stopped(seen) {
            // the size before was too small, too
            return None;
        } else if is_success(seen) && !is_raised_retry(history, &seen.brief) {
            before.push(had);
        }
        if runs >= TRIAL_RUNS {
            return None;
        }
        if before.len() == RUNS_BEFORE {
            let least = |of: fn(&SizesInForce) -> Bytes| before.iter().map(of).min().unwrap_or_default();
            let before = [least(|had| had.asked), least(|had| had.most)];
            let failed_unix_ms = failed.brief.ended_unix_ms();
            let evidence = TakenBackLowering {
                lowered_unix_ms: lowered.started_unix_ms,
                from_bytes: before[1].0,
                to_bytes: now.most.0,
                failed_unix_ms,
                killed_at_bytes: is_killed.then(|| size_of_need(f64::from(failed.need)).0),
                held_until_unix_ms: failed_unix_ms.saturating_add(HOLD.0),
            };
            return Some(FailedLowering { before, evidence });
        }
    }
    None
}

/// Whether the sizes of two attempts of one line can be compared: those of other numbers of jobs, other inputs or other archs differ for
/// that reason.
fn is_alike(one: &RungObservation, other: &RungObservation) -> bool {
    one.jobs == other.jobs && one.brief.key.arch == other.brief.key.arch && have_near_inputs(one, other)
}

/// Whether two attempts had about the same input, or both inputs are unknown.
fn have_near_inputs(one: &RungObservation, other: &RungObservation) -> bool {
    match (one.input.is_nan(), other.input.is_nan()) {
        (false, false) => nearness(f64::from(one.input), other) >= 0.5,
        (no_input, no_other) => no_input == no_other,
    }
}

/// Whether two builds of one line have also version, compiler and stack in common.
fn is_same_build(one: &Key, other: &Key) -> bool {
    [&one.version, &one.compiler, &one.compiler_version, &one.stack]
        == [&other.version, &other.compiler, &other.compiler_version, &other.stack]
}

/// Whether memory stopped the attempt at its own size, by evidence.
fn is_stopped(seen: &RungObservation) -> bool {
    seen.censored && !seen.need.is_nan() && !seen.brief.is_nodes_fault()
}

/// Whether an attempt is a retry with more memory than the attempt that it retries, or may be one. Its size is not the size in force.
fn is_raised_retry(history: &History, brief: &AttemptBrief) -> bool {
    match history.retry_of(&brief.into()) {
        RetryOf::Nothing => brief.number > 1,
        RetryOf::Unknown => true,
        RetryOf::Attempt(original)
            if (&original.key.project, &original.key.package) != (&brief.key.project, &brief.key.package) =>
        {
            true
        }
        RetryOf::Attempt(original) => {
            let had = |brief| SizesInForce::of(brief).map(|sizes| sizes.most);
            original.outcome != Outcome::Succeeded && had(original) < had(brief)
        }
    }
}

/// Whether the attempt and those before it failed [`FAILURES_IN_A_ROW`] times in a row at the new size, on two refs at least. Failures that
/// have nothing to do with the build do not count, and do not end a row.
fn ends_a_row<'h>(
    failed: &'h RungObservation,
    older: impl Iterator<Item = &'h RungObservation>,
    is_at_new_size: impl Fn(&RungObservation) -> bool,
) -> bool {
    let counts = |seen: &&RungObservation| is_success(seen) || is_builds_failure(seen);
    let row: Vec<_> = std::iter::once(failed).chain(older.filter(counts)).take(FAILURES_IN_A_ROW).collect();
    let mut refs = row.iter().filter_map(|seen| seen.brief.ref_mark());
    let first = refs.next();
    row.len() == FAILURES_IN_A_ROW
        && row.iter().all(|seen| is_builds_failure(seen) && is_at_new_size(seen))
        && refs.any(|other| Some(other) != first)
}

/// Whether an attempt failed in a way that too little memory can cause: compilers that are killed look like errors of the build, tools set
/// limits of their own by the limit of the build, and builds that starve take longer.
fn is_builds_failure(seen: &RungObservation) -> bool {
    let is_possible = match seen.brief.cause {
        None
        | Some(Cause::Unknown | Cause::Undecided | Cause::Deterministic | Cause::ToolOom | Cause::Timeout) => {
            true
        }
        Some(cause) => cause.is_memory(),
    };
    seen.brief.outcome == Outcome::Failed && is_possible
}
