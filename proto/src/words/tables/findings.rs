//! Findings of statistics, and what is behind a prediction.

use super::{
    FactCell::{Attempt, Ended, Failures, LogLine, Long, Number, Package, Packages, Painted, Text},
    FactTable, Paint, table_of,
};
use crate::{
    evidence::cause_words,
    figures::{self, amount, bytes, cell, cell_bound, count, millis, part_of, percent, share_of},
    measured::{self, IncompleteNeed},
    reasons::{failure_line, rung_scope},
    sums::{more_packages, moved_over_words, moved_since_words},
    v1::{
        ChangeKind, FailureGroup, Flaky, GetStatsResponse, JobsCurve, JobsPoint, Prediction, Regression,
        SilencedRule, UsedAttempt, Variable, WrongVerdicts,
    },
};

/// The findings of statistics, the most important kind first: a heading, what to know about it (may be empty), and the table.
pub fn findings(stats: &GetStatsResponse) -> [(&'static str, &'static str, FactTable); 6] {
    let moved = "by 30 % or more, and it stayed there; the most expensive first";
    [
        ("builds whose need has moved", moved, regressions(&stats.regressions)),
        ("packages whose need varies most", "", variable_packages(&stats.variable)),
        (FAILING_LINES, "the most frequent first", failing_lines(&stats.failures)),
        ("failures that were retried as they were", "over all attempts", flaky_failures(&stats.flaky)),
        ("causes that people corrected", "", wrong_rules(&stats.wrong)),
        ("rules that do not count here", "", silenced_rules(&stats.silenced)),
    ]
}

/// The heading of [`failing_lines`].
pub const FAILING_LINES: &str = "failures by the line that they are known by";

/// Builds with a changed need.
fn regressions(moved: &[Regression]) -> FactTable {
    let columns = ["build", "when", "factor", "before", "now", "changed with it", "extra GiB·h"];
    table_of(columns, moved, |one| {
        [
            Text(one.key.clone()),
            Attempt(moved_since_words(one), one.attempt.clone(), moved_over_words(one)),
            Painted(if one.factor > 1.0 { Paint::Bad } else { Paint::Good }, figures::times(one.factor)),
            Number(bytes(one.before_bytes)),
            Number(bytes(one.now_bytes)),
            Long(match (one.changed.as_str(), one.kind()) {
                ("", ChangeKind::Drift) => String::new(),
                ("", _) => "nothing in the key".to_owned(),
                (changed, _) => changed.to_owned(),
            }),
            Number(figures::signed(one.extra_gib_hours)),
        ]
    })
}

/// Packages whose need varies between attempts of one build.
fn variable_packages(packages: &[Variable]) -> FactTable {
    table_of(["package", "varies by", "need from", "to", "attempts"], packages, |one| {
        [
            Package(one.package.clone()),
            Number(percent(one.variation)),
            Number(bytes(one.need_min_bytes)),
            Number(bytes(one.need_max_bytes)),
            Number(count(one.attempts.into())),
        ]
    })
}

/// Failures that were retried as they were.
fn flaky_failures(failures: &[Flaky]) -> FactTable {
    table_of(["what", "passed on retry", "failure"], failures, |one| {
        let (passed, retried) = (one.passed.into(), one.retried.into());
        [
            Text(one.key.clone()),
            Number(format!("{} ({})", part_of(passed, retried), share_of(passed, retried))),
            LogLine(failure_line(&one.failure_line, &one.signature_line).to_owned(), String::new()),
        ]
    })
}

/// Groups of failures that are known by the same line of their log.
pub fn failing_lines(groups: &[FailureGroup]) -> FactTable {
    let columns =
        ["failing line", "cause", "failures", "packages", "retried", "passed", "retries, GiB·h", "last"];
    table_of(columns, groups, |group| {
        let line = failure_line(&group.failure_line, &group.signature_line).to_owned();
        [
            LogLine(line, group.project.clone()),
            Long(cause_words(group.cause()).to_owned()),
            Failures(group.attempts, group.cause(), group.project.clone(), group.signature.clone()),
            Packages(group.packages.clone(), more_packages(group)),
            Number(count(group.retried)),
            Number(share_of(group.passed, group.retried)),
            Number(amount(group.retries_gib_hours)),
            Ended(group.newest_attempt.clone(), group.ended_unix_ms),
        ]
    })
}

/// Rules with verdicts that people corrected.
fn wrong_rules(wrong: &[WrongVerdicts]) -> FactTable {
    table_of(["rule", "attempts", "cause found", "corrected to"], wrong, |one| {
        let [found, cause] = [one.found(), one.cause()].map(|cause| Text(cause_words(cause).to_owned()));
        [Text(one.rule.clone()), Number(count(one.attempts)), found, cause]
    })
}

/// Rules and the projects in which they have lost their say.
fn silenced_rules(silenced: &[SilencedRule]) -> FactTable {
    table_of(["rule", "wrong", "project"], silenced, |one| {
        let project = if one.project.is_empty() { "all without cases of their own" } else { &one.project };
        [Text(one.rule.clone()), Number(part_of(one.wrong, one.cases)), Text(project.to_owned())]
    })
}

/// The attempts behind a prediction: the heaviest ones, at most `most`, and those that were left out. The weight is the share of the memory
/// sizes that an attempt decides; what it counts as is its need at the build jobs, the input and the parts of the key asked for.
pub fn used_attempts(attempts: &[UsedAttempt], most: usize) -> FactTable {
    let columns = ["attempt", "which is of", "weight", "measured", "counts as", "-j", "time"];
    let is_stopped = attempts.iter().any(|used| used.censored);
    let is_left_out = |used: &&UsedAttempt| used.weight <= 0.0;
    let shown = attempts.iter().take(most).chain(attempts.iter().skip(most).filter(is_left_out));
    table_of(columns, shown, |used| {
        let source = IncompleteNeed::of(used.incomplete());
        let incomplete = if used.paused { Some(IncompleteNeed::Paused) } else { source };
        let note = incomplete.map_or_else(String::new, |need| need.note().to_owned());
        let size = |size: u64| Number(cell_bound(Some(bytes(size)), used.censored));
        let weight = used.weight * 100.0;
        [
            Attempt("", used.attempt.clone(), note),
            Text(rung_scope(used.rung()).to_owned()),
            Number(match weight {
                ..=0.0 => "left out".to_owned(),
                ..9.95 => format!("{weight:.1} %"),
                _ => format!("{weight:.0} %"),
            }),
            size(used.measured_bytes),
            size(used.need_bytes),
            Number(cell(used.build_jobs, |jobs| jobs.to_string())),
            Number(millis(used.wall_ms)),
        ]
    })
    .noted(if is_stopped {
        "> is an attempt that memory stopped: it needed more than that."
    } else {
        ""
    })
}

/// What parts of the key add to the need; no rows if nothing is known.
pub fn part_effects(prediction: &Prediction) -> FactTable {
    table_of(["with", "it needs"], &prediction.parts, |effect| {
        let more = if effect.needs_more { "more" } else { "less" };
        [Text(effect.part.clone()), Number(format!("{} {more}", bytes(effect.change_bytes)))]
    })
}

/// The need at each number of build jobs.
pub fn jobs_curve(curve: &JobsCurve) -> FactTable {
    let columns = ["jobs", "need, half", "need, 95 %", "time, half", "memory x time", "rests on"];
    table_of(columns, &curve.points, |point| {
        let wall_ms = measured::point_wall_ms(point);
        [
            Number(format!("-j{}", point.jobs)),
            Number(bytes(point.need_p50_bytes)),
            Number(bytes(point.need_p95_bytes)),
            Number(cell(wall_ms, millis)),
            Number(cell(wall_ms, |_| figures::gib_hours(point.held_gib_hours))),
            Text(measured::point_words(point) + &jobs_mark(curve, point.jobs)),
        ]
    })
}

fn jobs_mark(curve: &JobsCurve, jobs: u32) -> String {
    let cheapest = || format!("the cheapest{}", cheapest_range(curve, jobs));
    match (curve.most_that_fit == Some(jobs), curve.cheapest == Some(jobs)) {
        (true, true) => format!(", the largest that fits, and {}", cheapest()),
        (true, false) => ", the largest that fits".to_owned(),
        (false, true) => format!(", {}", cheapest()),
        (false, false) => String::new(),
    }
}

/// A note for the cheapest number of jobs, which says up to which number it is known to be the cheapest. The
/// note is needed if a higher number seems to use less memory, but was never tried, so that its time is a
/// guess.
fn cheapest_range(curve: &JobsCurve, jobs: u32) -> String {
    let tried = curve.points.iter().filter(|point| point.attempts > 0).map(|point| point.jobs).max();
    let least = curve.points.iter().find(|point| point.jobs == jobs).map(|point| point.held_gib_hours);
    let guessed = |point: &&JobsPoint| Some(point.jobs) > tried && measured::point_wall_ms(point).is_some();
    let mut guesses = curve.points.iter().filter(guessed).map(|point| Some(point.held_gib_hours));
    match tried {
        Some(tried) if guesses.any(|guess| guess < least) => {
            format!(" up to -j{tried}, the largest that was tried")
        }
        _ => String::new(),
    }
}
