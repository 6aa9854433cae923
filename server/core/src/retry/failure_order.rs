//! A log with both a fault outside the build and a failure of the build itself: which of them ended it.
//!
//! | in one log | the fault |
//! |---|---|
//! | no other failure, or one that may follow from a failed download | is the cause |
//! | the fault, then another failure of the build itself | was overcome: the build went on, and its own failure counts |
//! | a failure of the build, then the fault | came last and is the cause |
//! | a failure of the build, a tool's report that it failed, then the fault | came after the end: the build's own failure counts |
//!
//! "Another failure" is recognized by its form. Errors in the sources never follow from a download (`own` in `rules/*.toml`). A failed
//! test does not, if tests began after the fault. A missing file may follow from the fault, unless a later line shows that the download
//! succeeded. A line that names the fault itself is not another failure. If the tool only reports that it retries, the fault was overcome
//! as soon as the build went on: something was fetched, or a failure came that no download explains.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::rule::Rule;
use crate::domain::{Cause, LogOrder};

/// GitLab's runner writes this when the job was taken from the build: that ends it, whatever failed before.
const JOB_TAKEN_LINE: &str = "ERROR: Job failed (system failure)";

/// A download succeeded.
static FETCHED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i-u:\b(downloaded|fetched|retrieved|cloned|saved|unpacked|extracted)\b|pull complete|objects: +100%",
        r"|\[100%\] +[0-9.]+ ?[kmg]?i?b\b|\b200 OK\b",
        r"|\b(attempt|retry|retried|try|mirror|download|fetch|connection)\b.*\b(succeeded|successful|success|ok|done|complete|completed|restored|established)\b",
        r"|\b(succeeded|successfully|recovered)\b.*\b(attempt|retry|try|mirror|download|fetch|connection)\b)"
    ))
    .ok()
});
/// The same words in a line that means the opposite.
static DENIED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i-u:\b(not|no|never|nothing|fail|fails|failed|failure|error|cannot|unable|would|should|0)\b|n't\b)").ok()
});
/// Tests begin.
static TESTS_BEGIN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i-u:test session starts|^\s*collected [0-9]+ items?|^\s*running [0-9]+ tests?\b|^Test project /",
        r"|^\s*Start +[0-9]+: |\[==========\] Running|^Running tests?\b|\bmake\S* (check|test)\b|^Testsuite: )"
    ))
    .ok()
});
/// Possible consequences of a failed download: something is missing, or a tool gives up without a reason of its own.
static MAY_FOLLOW: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i-u:no such|not found|could not find|can't find|cannot find (-l|package|module|crate)|cannot (open|stat)|can't open",
        r"|no module named|no rule to make|does not exist|missing|unable to locate|unmet|installation candidate|unresolved import|undeclared crate|unlinked crate",
        r"|linker command failed|final link failed|download|fetch|network|resolve host|connect)"
    ))
    .ok()
});

fn says(form: &LazyLock<Option<Regex>>, line: &str) -> bool {
    form.as_ref().is_some_and(|form| form.is_match(line.as_bytes()))
}

/// A fault outside the build that it may overcome, in a log that is read backwards.
#[derive(Debug)]
struct Trouble {
    /// Index of its rule.
    rule: usize,
    order: LogOrder,
    /// Whether a tool reported failure before the first line of the fault read so far.
    tool_failed: bool,
    /// Whether the fault is the runner's own report that the job is over.
    is_taken: bool,
    /// Whether the lines before it in the log were considered.
    weighed: bool,
    /// State of its lines.
    lines: TroubleLines,
}

/// What the lines of a fault read so far have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TroubleLines {
    /// All of them are retries of a tool, and the build went on.
    Overcome,
    /// One of them reports more, or the build did not go on.
    Open,
}

/// What follows the current line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Afterwards {
    #[default]
    Unknown,
    /// The build went on: something was fetched, or it failed in a way that no download explains.
    WentOn,
}

/// Reads a log backwards, and determines for each fault outside the build its order relative to the build's own failures.
#[derive(Debug, Default)]
pub(super) struct OrderReader {
    troubles: Vec<Trouble>,
    /// Whether the build has a failure that no earlier fault explains.
    other: bool,
    /// Whether there is a failure that a fault explains, unless tests began in between.
    unless_tests: bool,
    /// Whether there is a failure that a fault explains, unless a download succeeded in between.
    unless_fetched: bool,
    afterwards: Afterwards,
}

impl OrderReader {
    /// Reads the line before those read so far, with its matching rules and their indexes, and whether the tool only retries.
    pub(super) fn read(&mut self, line: &str, rules: &[(usize, &Rule)], tries_again: bool) {
        let mut outside = rules.iter().filter(|(_, rule)| is_outside(rule)).peekable();
        if outside.peek().is_some() {
            outside.for_each(|(place, _)| self.trouble(*place, line, tries_again));
            return;
        }
        let fails = |weak: bool| {
            rules.iter().any(|(_, rule)| {
                let is_own = rule.cause == Cause::Deterministic || (weak && rule.cause == Cause::Unknown);
                is_own && rule.weak == weak && !rule.place
            })
        };
        if fails(false) {
            self.own_failure(line, rules.iter().any(|(_, rule)| rule.own));
        } else if fails(true) {
            self.troubles.iter_mut().for_each(|trouble| trouble.tool_failed = true);
        } else if says(&FETCHED, line) && !says(&DENIED, line) {
            self.other |= self.unless_fetched;
            self.afterwards = Afterwards::WentOn;
        } else if says(&TESTS_BEGIN, line) {
            self.other |= self.unless_tests;
        }
    }

    fn trouble(&mut self, rule: usize, line: &str, tries_again: bool) {
        if let Some(known) = self.troubles.iter_mut().find(|trouble| trouble.rule == rule) {
            known.tool_failed = false;
            if !tries_again {
                known.lines = TroubleLines::Open;
            }
            return;
        }
        let order = if self.other { LogOrder::Overcome } else { LogOrder::Alone };
        let is_taken = line.starts_with(JOB_TAKEN_LINE);
        let is_over = tries_again && self.afterwards == Afterwards::WentOn;
        let lines = if is_over { TroubleLines::Overcome } else { TroubleLines::Open };
        self.troubles.push(Trouble { rule, order, tool_failed: false, is_taken, weighed: self.other, lines });
    }

    /// `own`: the failure is in the sources.
    fn own_failure(&mut self, line: &str, own: bool) {
        let may_follow = says(&MAY_FOLLOW, line);
        self.unless_fetched = true;
        self.unless_tests |= !may_follow;
        if !may_follow {
            self.afterwards = Afterwards::WentOn;
        }
        self.other |= own && !may_follow;
        for trouble in self.troubles.iter_mut().filter(|trouble| !trouble.weighed) {
            trouble.weighed = true;
            let ended_before = trouble.tool_failed && !trouble.is_taken && !may_follow;
            trouble.order = if ended_before { LogOrder::Overcome } else { LogOrder::Last };
        }
    }

    /// The order of the lines of the rule with this index.
    pub(super) fn of(&self, rule: usize) -> LogOrder {
        let found = self.troubles.iter().find(|trouble| trouble.rule == rule);
        found.map_or(LogOrder::Alone, |found| {
            if found.lines == TroubleLines::Overcome { LogOrder::Overcome } else { found.order }
        })
    }
}

/// A fault that a build may overcome, or hit after it failed: not one of the machine, after which everything fails.
fn is_outside(rule: &Rule) -> bool {
    matches!(rule.cause, Cause::Infra | Cause::Contention) && !rule.weak && !rule.place
}
