//! Lists of attempts that ended or run, and what one of them did and was judged.

use super::{
    FactCell::{self, Attempt, Build, Ended, Long, Number, Painted, Result, Share, Text},
    FactTable, Paint, table_of,
};
use crate::{
    evidence::{NOTHING_TO_RETRY, cause_words, is_of_success, result_cell},
    figures::{self, DASH, bytes, cell, cores, millis, percent},
    measured,
    shown::clean,
    v1::{Key, Outcome, Phase, Running, Summary, Verdict},
    verdict,
};

/// Package, version and compiler of a key: `zlib@1.3 %gcc@12.2`.
pub fn build_name(key: &Key) -> String {
    let mut text = clean(&key.package);
    for (mark, part) in [("@", &key.version), (" %", &key.compiler), ("@", &key.compiler_version)] {
        if !part.is_empty() {
            text.push_str(mark);
            text.push_str(&clean(part));
        }
    }
    text
}

/// How an attempt ended, and the line of its log that says why; the line may be empty.
pub fn result(summary: &Summary, line: &str) -> FactCell {
    let paint = match summary.outcome() {
        Outcome::Succeeded => Paint::Good,
        Outcome::Failed if measured::is_canceled(summary) => Paint::Faint,
        Outcome::Failed => Paint::Bad,
        Outcome::Lost | Outcome::Ended => Paint::Warn,
        Outcome::Running | Outcome::Unspecified => Paint::Plain,
    };
    Result(paint, result_cell(summary), line.to_owned())
}

/// Attempts that have ended.
pub fn attempts(attempts: &[Summary]) -> FactTable {
    let columns = [
        "build",
        "attempt",
        "result",
        "need",
        "of ask",
        "took",
        "ended (UTC)",
        "asked for",
        "limit",
        "mean cores",
        "-j",
        "predicted limit",
        "pool",
    ];
    let table = table_of(columns, attempts, |one| {
        let key = one.key.clone().unwrap_or_default();
        let resources = one.resources.unwrap_or_default();
        let is_above = measured::need_of_ask(one).is_some_and(|share| share > 1.0);
        [
            Build(build_name(&key), key.package),
            Attempt("", one.attempt.clone(), String::new()),
            result(one, &one.failure_line),
            Number(measured::marked_need_cell(one)),
            Painted(if is_above { Paint::Warn } else { Paint::Plain }, measured::need_of_ask_cell(one)),
            Number(millis(one.wall_ms)),
            Ended(one.attempt.clone(), measured::ended_unix_ms(one)),
            Number(cell(measured::memory_asked(Some(&resources)).map(|asked| asked.bytes), bytes)),
            Number(cell(resources.memory_limit_bytes, bytes)),
            Number(cell(measured::mean_cores(one), cores)),
            Number(cell(key.hints.unwrap_or_default().build_jobs, |jobs| jobs.to_string())),
            Number(cell(measured::predicted_limit(one), bytes)),
            Text(one.pool.clone()),
        ]
    });
    let is_marked = attempts.iter().any(|one| measured::need_note(one).is_some());
    table.noted(if is_marked { measured::MARK_NOTE } else { "" })
}

/// Attempts that run, each with the cores that it uses; `cores_name` says over which time.
pub fn running<'r>(
    cores_name: &'static str,
    attempts: impl Iterator<Item = (&'r Running, Option<f64>)> + Clone,
) -> FactTable {
    let columns = [
        "build",
        "attempt",
        "of limit",
        "state",
        "need now",
        "highest need",
        "limit",
        cores_name,
        "for",
        "with page cache",
    ];
    let is_marked = attempts.clone().any(|(one, _)| !measured::mark(one.source()).is_empty());
    let table = table_of(columns, attempts, |(one, used)| {
        let key = one.key.clone().unwrap_or_default();
        let limit = measured::above_zero(one.memory_limit_bytes);
        let share = limit.map_or(0.0, |limit| figures::float(one.need_bytes) / figures::float(limit));
        let paint = match share {
            0.95.. => Paint::Bad,
            0.8.. => Paint::Warn,
            _ => Paint::Plain,
        };
        let acts = one.acts.unwrap_or_default();
        let (state, sign) = match one.starved {
            true => ("starved", Paint::Bad),
            false if acts.paused > 0 => ("paused in part", Paint::Warn),
            false => ("running", Paint::Plain),
        };
        [
            Build(build_name(&key), key.package),
            Attempt("", one.attempt.clone(), String::new()),
            Share(share, paint, cell(limit.map(|_| share), percent)),
            Result(sign, state.to_owned(), measured::acts_words(&acts).unwrap_or_default()),
            Number(bytes(one.need_bytes)),
            Number(bytes(one.need_peak_bytes) + measured::mark(one.source())),
            Number(cell(limit, bytes)),
            Number(cell(used, cores)),
            Number(millis(one.elapsed_ms)),
            Number(bytes(measured::running_memory(one))),
        ]
    });
    table.noted(if is_marked { measured::MARK_NOTE } else { "" })
}

/// Phases in the order in which they first began, those of one name added up: the `most` longest ones, and the others as one row. The phase
/// with the highest need gets the mark.
pub fn phases(summary: &Summary, most: usize, mark: &str) -> FactTable {
    let all = measured::phases_by_name(&summary.phases);
    let mut by_time: Vec<usize> = (0..all.len()).collect();
    by_time.sort_by_key(|nth| std::cmp::Reverse(all.get(*nth).map(|phase| phase.wall_ms)));
    let listed = by_time.get(..most).unwrap_or(&by_time);
    let (shown, rest): (Vec<_>, Vec<_>) = all.iter().enumerate().partition(|(nth, _)| listed.contains(nth));
    let others = rest.iter().fold(Phase::default(), |mut sum, (_, more)| {
        measured::add_phase(&mut sum, more);
        sum
    });
    let others = Phase { name: format!("({} more)", rest.len()), ..others };
    let others = (!rest.is_empty()).then_some((all.len(), &others));
    let columns = ["phase", "began at", "took", "highest need", "CPU time", "mean cores", "peak"];
    table_of(columns, shown.into_iter().chain(others), |(nth, phase)| {
        let mean = measured::cores_over(phase.cpu_usec, phase.wall_ms).filter(|cores| *cores > 0.0);
        [
            Text(phase.name.clone()),
            Number(if nth < all.len() { millis(phase.started_ms) } else { DASH.to_owned() }),
            Number(millis(phase.wall_ms)),
            Number(measured::phase_need_cell(phase)),
            Number(figures::micros(phase.cpu_usec)),
            Number(cell(mean, cores)),
            Text(if phase.name == summary.peak_phase { mark.to_owned() } else { String::new() }),
        ]
    })
}

/// Verdicts that were replaced by a later one.
pub fn earlier_verdicts(verdicts: &[Verdict]) -> FactTable {
    table_of(["given (UTC)", "verdict", "cause", "confidence", "reason"], verdicts, |one| {
        let given = measured::above_zero(Some(one.given_unix_ms));
        let is_known = !verdict::is_cause_unknown(one);
        let (answer, cause) = match is_of_success(one) {
            true => (NOTHING_TO_RETRY.to_owned(), DASH),
            false => (verdict::answer(one), cause_words(one.cause())),
        };
        [
            Text(figures::known(given, crate::times::date_time)),
            Text(answer),
            Text(cause.to_owned()),
            Number(cell(is_known.then_some(one.confidence), percent)),
            Long(one.reason.clone()),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_of_one_name_are_one_row() {
        let phase = |nth: u64| Phase {
            name: ["configure", "build", "configure", "install"][usize::try_from(nth).unwrap()].to_owned(),
            wall_ms: [5, 9, 1, 2][usize::try_from(nth).unwrap()] * 1000,
            ..Phase::default()
        };
        let phases = (0..4).map(phase).collect();
        let summary = Summary { phases, peak_phase: "build".to_owned(), ..Summary::default() };
        let rows = |most| {
            let table = super::phases(&summary, most, "<- peak").only(&["phase", "took", "peak"]);
            table
                .rows
                .iter()
                .map(|row| row.iter().map(FactCell::text).collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
        };
        assert_eq!(rows(9), ["configure 6.0 s ", "build 9.0 s <- peak", "install 2.0 s "]);
        assert_eq!(rows(1), ["build 9.0 s <- peak", "(2 more) 8.0 s "]);
    }
}
