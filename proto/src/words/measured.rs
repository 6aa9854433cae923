//! What one attempt requested and used. There is one function for each number, so that the terminal, the page, the report and JSON show the
//! same for the same message.
//!
//! A number that was not measured is `None` here, and [`figures::NOT_KNOWN`] in words. A 0 counts as not measured if every build uses more
//! than 0.

mod asked;
mod source;

use crate::{
    figures::{self, float},
    limits,
    shown::clean,
    v1::{
        ActsNow, Cause, CurveKnown, JobsCurve, JobsPoint, OomOrigin, Outcome, Phase, Predicted, Rescue,
        Running, Source, Summary,
    },
};
pub use asked::{MIN_ASK_BYTES, RequestedMemory, is_valid_memory, memory_asked, memory_asked_words};
pub use source::{
    BY_PROCESSES, IncompleteNeed, MARK_NOTE, PartlyMeasured, attempts_note, mark, marked_need_cell,
    need_note, offloaded_note, offloaded_sentence, source_words, unseen_note,
};

/// Shortest time over which a mean CPU use is shown, milliseconds. A wall time has whole milliseconds, and CPU time begins before it, with the
/// start of the process: over 1 ms that looks like several cores.
pub const MIN_MEAN_MS: u64 = 50;

/// Words for an attempt that an untrusted caller made.
pub const NOT_TRUSTED: &str = "not trusted: it never lowers predictions for others";

/// When the attempt ended, milliseconds since 1970; for a running attempt, up to when it was measured.
pub fn ended_unix_ms(summary: &Summary) -> u64 {
    summary.started_unix_ms.saturating_add(summary.wall_ms)
}

/// Highest need, bytes; a lower bound for an attempt that memory stopped.
pub fn need(summary: &Summary) -> Option<u64> {
    above_zero(summary.need_peak_bytes)
}

/// The need that the attempt proves, bytes: its highest need or, if memory stopped it, the size that was too small ([`stopped_at`]).
pub fn proven_need(summary: &Summary) -> Option<u64> {
    let limit = summary.resources.and_then(|resources| resources.memory_limit_bytes);
    let limit = limit.filter(|_| summary.censored);
    let is_above = summary.oom_origin() == OomOrigin::LimitAbove;
    above_zero(Some(stopped_at(need(summary).unwrap_or(0), limit, is_above)))
}

/// Words for the need: `114 MiB`, `more than 114 MiB`, `not known`.
pub fn need_words(summary: &Summary) -> String {
    figures::known_bound(proven_need(summary).map(figures::bytes), summary.censored)
}

/// [`need_words`] with the [`need_note`], if there is one: `114 MiB, measured by processes`.
pub fn noted_need_words(summary: &Summary) -> String {
    let note = need_note(summary).map(|note| format!(", {note}")).unwrap_or_default();
    need_words(summary) + &note
}

/// The need for a cell of a table: `114 MiB`, `> 114 MiB`, a dash.
pub fn need_cell(summary: &Summary) -> String {
    figures::cell_bound(proven_need(summary).map(figures::bytes), summary.censored)
}

/// Words for the largest process: `cc1plus big.cc, 3.10 GiB`; `None` if no process was seen.
pub fn largest_process(summary: &Summary) -> Option<String> {
    let process = summary.largest_process.as_ref()?;
    Some(process_words(&process.program, &process.file, process.memory_bytes))
}

/// Words for a process by its program, the file that it worked on, which may be empty, and its memory in bytes.
pub fn process_words(program: &str, file: &str, memory: u64) -> String {
    let space = if file.is_empty() { "" } else { " " };
    format!("{}{space}{}, {}", clean(program), clean(file), figures::bytes(memory))
}

/// Whether rescue paused processes of a build, or ended it: then its need may be higher than what was measured.
pub fn was_rescued(rescue: Option<&Rescue>) -> bool {
    rescue.is_some_and(|rescue| rescue.pauses > 0 || rescue.paused_ms > 0 || rescue.ended_ms.is_some())
}

/// Mean of the need over time, bytes.
pub fn mean_need(summary: &Summary) -> Option<u64> {
    above_zero(summary.need_mean_bytes)
}

/// High-water mark of memory with page cache, bytes: at least the highest need. `None` if the mark was not measured, even if the need is
/// known.
pub fn memory_peak(summary: &Summary) -> Option<u64> {
    above_zero(summary.memory_peak_bytes).map(|mark| mark.max(need(summary).unwrap_or(0)))
}

/// One sentence that says why the need is below the kernel's high-water mark; `None` if the difference is at most a tenth.
pub fn need_below_mark(summary: &Summary) -> Option<&'static str> {
    let (need, mark) = (proven_need(summary)?, memory_peak(summary)?);
    (mark > need.saturating_add(need / 10)).then_some(
        "The kernel's mark counts the page cache too; the need is sampled without it, so a peak between two samples may be missing.",
    )
}

/// [`proven_need`] as a share of the requested memory; `None` if either is not known, or nothing was requested.
pub fn need_of_ask(summary: &Summary) -> Option<f64> {
    let asked = memory_asked(summary.resources.as_ref())?;
    proven_need(summary).map(|need| float(need) / float(asked.bytes))
}

/// The need as a share of the requested memory, for a cell of a table: `28 %`, `> 95 %`, `over 100 ×`, a dash.
pub fn need_of_ask_cell(summary: &Summary) -> String {
    match need_of_ask(summary) {
        Some(share) if share > figures::MAX_SHOWN_FACTOR => figures::times_asked(share),
        share => figures::cell_bound(share.map(figures::percent), summary.censored),
    }
}

/// Words for the need as a share of the requested memory: `28 % of it needed`, `more than 95 % of it needed`, `needed more than asked: 2.5
/// ×`. `None` as for [`need_of_ask`].
pub fn need_of_ask_words(summary: &Summary) -> Option<String> {
    let share = need_of_ask(summary)?;
    Some(match (share > 1.0, summary.censored) {
        (true, lower) => format!("needed more than asked: {}", figures::times_asked_or_more(share, lower)),
        (false, lower) => format!("{} of it needed", figures::bound(&figures::percent(share), lower)),
    })
}

/// CPU time used, microseconds.
pub fn cpu_usec(summary: &Summary) -> Option<u64> {
    above_zero(summary.cpu_usec)
}

/// Mean CPU use, cores.
pub fn mean_cores(summary: &Summary) -> Option<f64> {
    cores_over(cpu_usec(summary)?, summary.wall_ms)
}

/// Highest CPU use over half a second or more, cores: never below the mean.
pub fn peak_cores(summary: &Summary) -> Option<f64> {
    let is_long = summary.wall_ms == 0 || summary.wall_ms >= MIN_MEAN_MS;
    let peak = summary.cpu_peak_cores.filter(|cores| *cores > 0.0 && is_long)?;
    Some(peak.max(mean_cores(summary).unwrap_or(0.0)))
}

/// Words for the CPU use: `0.38 cores on average, 0.97 at most`, `too short for a mean`, `not known`.
pub fn cpu_words(summary: &Summary) -> String {
    let Some(mean) = mean_cores(summary) else {
        let is_short = cpu_usec(summary).is_some() && summary.wall_ms < MIN_MEAN_MS;
        return if is_short { "too short for a mean".to_owned() } else { figures::NOT_KNOWN.to_owned() };
    };
    let peak = peak_cores(summary).map(|peak| format!(", {} at most", figures::cores(peak)));
    format!("{} on average{}", figures::cores_named(mean), peak.unwrap_or_default())
}

/// A sentence that says why a series of `rows` rows is not drawn; `None` if it is drawn. `total`: number of samples that were kept.
pub fn no_curve_reason(summary: &Summary, rows: usize, total: u64) -> Option<String> {
    let taken = summary.samples.max(total);
    Some(match (rows, taken) {
        (2.., _) => return None,
        _ if summary.outcome() == Outcome::Running => "No samples yet.".to_owned(),
        (1, _) => "1 sample, which is no curve: the attempt was short.".to_owned(),
        (_, 0) if summary.source() == Source::Unspecified => {
            "There are no samples of this attempt: it was imported.".to_owned()
        }
        (_, 0) => "There are no samples of this attempt: it was too short.".to_owned(),
        (_, samples) => {
            format!("{} were taken: the server no longer keeps them.", figures::counted(samples, "sample"))
        }
    })
}

/// Whether the attempt was canceled, or the reader of its output closed it: then it is not a failure.
pub fn is_canceled(summary: &Summary) -> bool {
    summary.outcome() == Outcome::Failed && summary.cause() == Cause::Canceled
}

/// Mean number of cores for `cpu_usec` of CPU time over `wall_ms`; `None` if the time is less than [`MIN_MEAN_MS`].
pub fn cores_over(cpu_usec: u64, wall_ms: u64) -> Option<f64> {
    (wall_ms >= MIN_MEAN_MS).then(|| float(cpu_usec) / (float(wall_ms) * 1000.0))
}

/// Memory of a running attempt with page cache, bytes: at least its need, which may have been read later.
pub fn running_memory(running: &Running) -> u64 {
    running.memory_bytes.max(running.need_bytes)
}

/// What an agent has done about the memory limit so far, as words; `None` if nothing.
pub fn acts_words(acts: &ActsNow) -> Option<String> {
    let times = |number: u32| figures::counted_as(number.into(), "time", "times");
    let now = (acts.paused > 0).then(|| {
        let processes = figures::counted_as(acts.paused.into(), "process is", "processes are");
        format!("{processes} paused now")
    });
    let pauses = (acts.pauses > 0)
        .then(|| format!("paused {} so far, {} in all", times(acts.pauses), figures::millis(acts.paused_ms)));
    let raises = (acts.raises > 0).then(|| format!("limit raised {}", times(acts.raises)));
    let all: Vec<String> = [now, pauses, raises].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Mean number of cores that a running attempt has used so far.
pub fn running_cores(running: &Running) -> Option<f64> {
    cores_over(running.cpu_usec, running.elapsed_ms)
}

/// The prediction at the start of the attempt; `None` if it was only the default, because no earlier attempts were known.
pub fn predicted(summary: &Summary) -> Option<Predicted> {
    summary.predicted.filter(|predicted| !predicted.is_default)
}

/// The predicted memory limit, bytes; `None` as for [`predicted`], and if no limit was predicted.
pub fn predicted_limit(summary: &Summary) -> Option<u64> {
    above_zero(predicted(summary).map(|predicted| predicted.memory_limit_bytes))
}

/// The size that an attempt stopped by memory proves to be too small, in bytes: the limit in force, or the measured need if that is more.
///
/// The last reading misses what the build allocated before the kill, so a reading far below the limit does not rule the limit out. Only a
/// kill at the limit of a cgroup above the build's (`is_above`) may be due to others in that cgroup: there the limit counts if the build
/// used at least half of it.
pub fn stopped_at(need: u64, limit: Option<u64>, is_above: bool) -> u64 {
    let held = limit.filter(|limit| *limit <= limits::MEMORY_BYTES && (!is_above || need >= limit / 2));
    need.max(held.unwrap_or(0))
}

/// Whether a need was at most `size`. `None` if that is not known, because memory stopped the attempt (`censored`) below `size`. For such
/// an attempt, `need` is the result of [`stopped_at`].
pub fn need_fits(need: u64, censored: bool, size: u64) -> Option<bool> {
    match (censored, need >= size) {
        (true, reached) => reached.then_some(false),
        (false, _) => Some(need <= size),
    }
}

/// Whether the predicted limit was enough. `None` if that is not known: nothing was predicted, the need was not measured, or the
/// attempt was stopped below that limit.
pub fn limit_sufficed(summary: &Summary) -> Option<bool> {
    need_fits(proven_need(summary)?, summary.censored, predicted_limit(summary)?)
}

/// Whether the points over build jobs form a curve that can be drawn. If no line could be fitted, they are only a list of what was tried.
pub fn is_curve(curve: &JobsCurve) -> bool {
    matches!(curve.known(), CurveKnown::Line | CurveKnown::Flat) && curve.points.len() > 1
}

/// Words for where a point of the curve comes from: attempts at this number of jobs, or the fitted line.
pub fn point_words(point: &JobsPoint) -> String {
    match (point.attempts, point.stopped) {
        (0, _) => "worked out".to_owned(),
        (attempts, 0) => figures::counted(attempts.into(), "attempt"),
        (attempts, stopped) => {
            format!(
                "{} ({} stopped by memory)",
                figures::counted(attempts.into(), "attempt"),
                figures::count(stopped.into())
            )
        }
    }
}

/// The median wall time at a number of build jobs, milliseconds; `None` if it is not known.
pub fn point_wall_ms(point: &JobsPoint) -> Option<u64> {
    above_zero(Some(point.wall_p50_ms))
}

/// One phase for each name, in the order in which the names appear: the sum of the times and the highest need of all phases with that name.
pub fn phases_by_name(phases: &[Phase]) -> Vec<Phase> {
    let mut sums: Vec<Phase> = Vec::new();
    for phase in phases {
        match sums.iter_mut().find(|sum| sum.name == phase.name) {
            Some(sum) => add_phase(sum, phase),
            None => sums.push(phase.clone()),
        }
    }
    sums
}

/// The highest need of a phase; a dash if it was not measured.
pub fn phase_need_cell(phase: &Phase) -> String {
    figures::cell(above_zero(Some(phase.need_peak_bytes)), figures::bytes)
}

/// Adds the times of `more` to `sum`, whose need becomes the higher of both.
pub fn add_phase(sum: &mut Phase, more: &Phase) {
    sum.wall_ms = sum.wall_ms.saturating_add(more.wall_ms);
    sum.need_peak_bytes = sum.need_peak_bytes.max(more.need_peak_bytes);
    sum.cpu_usec = sum.cpu_usec.saturating_add(more.cpu_usec);
}

/// The number, if it is above 0.
pub fn above_zero(number: Option<u64>) -> Option<u64> {
    number.filter(|number| *number > 0)
}

#[cfg(test)]
mod tests;
