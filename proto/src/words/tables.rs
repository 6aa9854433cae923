//! Findings of the statistics as tables. A table is made once from the messages; the terminal and the page draw it, and make its text
//! safe to show.

use crate::{
    evidence::cause_words,
    figures::{self, NOT_KNOWN, amount, bytes, cell, cell_bound, count, millis, part_of, percent, share_of},
    measured::{self, IncompleteNeed},
    reasons::{failure_line, rung_scope},
    shown::clean,
    sums::{more_packages, moved_over_words, moved_since_words},
    times,
    v1::{
        Cause, ChangeKind, FailureGroup, Flaky, JobsCurve, JobsPoint, MixedNeed, Regression, SilencedRule,
        UsedAttempt, Variable, WrongVerdicts,
    },
};

/// A table of facts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FactTable {
    /// The heading of each column, in lower case.
    pub columns: Vec<&'static str>,
    /// The rows, each with a cell for each column. The first cell names the row.
    pub rows: Vec<Vec<FactCell>>,
}

/// A cell of a [`FactTable`]. All cells of a column are of one kind.
#[derive(Debug, Clone, PartialEq)]
pub enum FactCell {
    /// Text.
    Text(String),
    /// Text that a terminal shows below its row, behind the heading of its column.
    Long(String),
    /// A sentence; names between backquotes are marked, where that is possible.
    Marked(String),
    /// A number with its unit.
    Number(String),
    /// The name of a package, which has a page.
    Package(String),
    /// A number of failures, with their cause, project and signature: they have a page. An empty text is any.
    Failures(u64, Cause, String, String),
    /// The key of a build, and the name of its package.
    Build(String, String),
    /// The id of an attempt, which has a page, with words before it and a note behind it.
    Attempt(&'static str, String, String),
    /// Names of packages, and how many more there are: ` and 3 more`.
    Packages(Vec<String>, String),
    /// The id of an attempt, which has a page, and when it ended, milliseconds since 1970.
    Ended(String, u64),
    /// A line of a log, and the project that it is of, if that is shown.
    LogLine(String, String),
    /// A text that is not known.
    Unknown,
}

impl FactCell {
    /// The text of the cell in one line.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text)
            | Self::Long(text)
            | Self::Marked(text)
            | Self::Number(text)
            | Self::Package(text)
            | Self::Build(text, _)
            | Self::LogLine(text, _) => text.clone(),
            Self::Failures(number, ..) => count(*number),
            Self::Packages(names, more) => names.join(", ") + more,
            Self::Ended(_, unix_ms) => times::date_time(*unix_ms),
            Self::Unknown => NOT_KNOWN.to_owned(),
            Self::Attempt(words, id, note) => {
                let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
                format!("{words} {id}{note}").trim_start().to_owned()
            }
        }
    }

    /// Whether the cell is aligned as a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_) | Self::Failures(..))
    }
}

impl FactTable {
    /// The table as lines, texts aligned left and numbers right, for output whose width does not matter.
    pub fn lines(&self) -> String {
        let heads = self.columns.iter().map(|head| (*head).to_owned()).collect();
        let texts = |row: &Vec<FactCell>| row.iter().map(|cell| clean(&cell.text())).collect();
        let lines: Vec<Vec<String>> = std::iter::once(heads).chain(self.rows.iter().map(texts)).collect();
        let width =
            |nth: usize| lines.iter().filter_map(|line| line.get(nth)).map(|text| text.chars().count()).max();
        let column = |nth: usize| {
            let is_number = self.rows.first().and_then(|row| row.get(nth)).is_some_and(FactCell::is_number);
            (width(nth).unwrap_or(0), is_number)
        };
        let columns: Vec<(usize, bool)> = (0..self.columns.len()).map(column).collect();
        let padded = |(text, (width, is_number)): (&String, &(usize, bool))| {
            if *is_number { format!("{text:>width$}") } else { format!("{text:<width$}") }
        };
        let line = |line: &Vec<String>| {
            let cells: Vec<String> = line.iter().zip(&columns).map(padded).collect();
            cells.join("  ").trim_end().to_owned() + "\n"
        };
        lines.iter().map(line).collect()
    }
}

use FactCell::{Attempt, Build, Ended, Failures, LogLine, Long, Marked, Number, Package, Packages, Text};

/// A table with a row for each of `items`.
pub fn table_of<T, const COLUMNS: usize>(
    columns: [&'static str; COLUMNS],
    items: impl IntoIterator<Item = T>,
    row: impl Fn(T) -> [FactCell; COLUMNS],
) -> FactTable {
    FactTable { columns: columns.to_vec(), rows: items.into_iter().map(|item| row(item).to_vec()).collect() }
}

/// Builds with a changed need.
pub fn regressions(moved: &[Regression]) -> FactTable {
    let columns = ["build", "when", "factor", "before", "now", "changed with it", "extra GiB·h"];
    table_of(columns, moved, |one| {
        [
            Text(one.key.clone()),
            Attempt(moved_since_words(one), one.attempt.clone(), moved_over_words(one)),
            Number(figures::times(one.factor)),
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

/// Builds that have groups of attempts with different needs.
pub fn mixed_needs(builds: &[MixedNeed]) -> FactTable {
    table_of(["build", "extra GiB·h", "groups"], builds, |one| {
        let reason = one.groups.as_ref().map(|groups| groups.reason.clone()).unwrap_or_default();
        [Build(one.key.clone(), one.package.clone()), Number(amount(one.extra_gib_hours)), Marked(reason)]
    })
}

/// Packages whose need varies between attempts of one build.
pub fn variable_packages(packages: &[Variable]) -> FactTable {
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
pub fn flaky_failures(failures: &[Flaky]) -> FactTable {
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
pub fn wrong_rules(wrong: &[WrongVerdicts]) -> FactTable {
    table_of(["rule", "attempts", "cause found", "corrected to"], wrong, |one| {
        let [found, cause] = [one.found(), one.cause()].map(|cause| Text(cause_words(cause).to_owned()));
        [Text(one.rule.clone()), Number(count(one.attempts)), found, cause]
    })
}

/// Rules and the projects in which they have lost their say.
pub fn silenced_rules(silenced: &[SilencedRule]) -> FactTable {
    table_of(["rule", "wrong", "project"], silenced, |one| {
        let project = if one.project.is_empty() { "all without cases of their own" } else { &one.project };
        [Text(one.rule.clone()), Number(part_of(one.wrong, one.cases)), Text(project.to_owned())]
    })
}

/// The attempts behind a prediction: the heaviest ones, at most `most`, and those that were left out. The weight is the share of the memory
/// sizes that an attempt decides; what it counts as is its need at the build jobs and the input asked for.
pub fn used_attempts(attempts: &[UsedAttempt], most: usize) -> FactTable {
    let columns = ["attempt", "which is of", "weight", "measured", "counts as", "-j", "time"];
    let is_left_out = |used: &&UsedAttempt| used.weight <= 0.0;
    let shown = attempts.iter().take(most).chain(attempts.iter().skip(most).filter(is_left_out));
    table_of(columns, shown, |used| {
        let note =
            IncompleteNeed::of(used.incomplete()).map_or_else(String::new, |need| need.note().to_owned());
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
}

/// The need at each number of build jobs.
pub fn jobs_curve(curve: &JobsCurve) -> FactTable {
    let columns = ["jobs", "need, half", "need, 95 %", "time, half", "memory x time", "rests on"];
    table_of(columns, &curve.points, |point| {
        let wall_ms = measured::point_wall_ms(point);
        [
            Text(format!("-j{}", point.jobs)),
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
