//! Trouble outside the build beside failures of its own in one log: which of them ended it.
//!
//! | in one log | the trouble |
//! |---|---|
//! | no other failure, or what may follow from a download that failed | is the cause |
//! | trouble, then a failure of the build itself that is another | was overcome: the build went on, and its own failure counts |
//! | failure of the build, then the trouble | came last and is the cause |
//! | failure of the build, the word of a tool that it failed, then the trouble | came after the end: the build's own failure counts |
//!
//! "Another failure" is judged by form. Errors in the sources never follow from a download (`own` in `rules/*.toml`). A failed test does not if tests
//! began after the trouble. What says that something is missing may follow from it, unless a later line says that the download succeeded.
//! A line that names the trouble itself is no other failure. Trouble after which the tool only says that it tries again was overcome if the
//! build went on in any way: something was fetched, or a failure came that no download explains.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::rule::Rule;
use crate::domain::{Cause, LogOrder};

/// What GitLab's runner says when the job was taken from the build: that ends it, whatever failed before.
const TAKEN: &str = "ERROR: Job failed (system failure)";

/// Something was fetched after all.
static FETCHED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i-u:\b(downloaded|fetched|retrieved|cloned|saved|unpacked|extracted)\b|pull complete|objects: +100%",
        r"|\[100%\] +[0-9.]+ ?[kmg]?i?b\b|\b200 OK\b",
        r"|\b(attempt|retry|retried|try|mirror|download|fetch|connection)\b.*\b(succeeded|successful|success|ok|done|complete|completed|restored|established)\b",
        r"|\b(succeeded|successfully|recovered)\b.*\b(attempt|retry|try|mirror|download|fetch|connection)\b)"
    ))
    .ok()
});
/// The same words in a line that says the opposite.
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
/// What a download that failed leaves behind: something is missing, or a tool gives up without a reason of its own.
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

/// Trouble outside the build that it may overcome, in a log that is read from its end.
#[derive(Debug)]
struct Trouble {
    /// Place of its rule.
    rule: usize,
    order: LogOrder,
    /// A tool said that it failed, before the first line of the trouble that was read so far.
    tool_failed: bool,
    /// The trouble is the runner's own word that the job is over.
    is_taken: bool,
    /// What stands before it in the log was weighed.
    weighed: bool,
    /// Every line of it that was read so far only says that the tool tries again, and the build went on after the last of them.
    lines: TroubleLines,
}

/// What the lines of a trouble that were read so far say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TroubleLines {
    /// A tool tries again, and the build went on.
    Overcome,
    /// One of them says more, or the build did not go on.
    Open,
}

/// What stands behind the line that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Afterwards {
    #[default]
    Unknown,
    /// The build went on: something was fetched, or it failed in a way that no download explains.
    WentOn,
}

/// Reads a log from its end, and says of each rule for trouble outside the build how it stands to the build's own failures.
#[derive(Debug, Default)]
pub(super) struct OrderReader {
    troubles: Vec<Trouble>,
    /// A failure of the build that no trouble before it explains.
    other: bool,
    /// One that trouble explains, unless tests began in between.
    unless_tests: bool,
    /// One that trouble explains, unless a download succeeded in between.
    unless_fetched: bool,
    afterwards: Afterwards,
}

impl OrderReader {
    /// The line before those that were read so far, with the rules that match it and their places; and whether it says that the tool tries
    /// again.
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
        let is_taken = line.starts_with(TAKEN);
        let is_over = tries_again && self.afterwards == Afterwards::WentOn;
        let lines = if is_over { TroubleLines::Overcome } else { TroubleLines::Open };
        self.troubles.push(Trouble { rule, order, tool_failed: false, is_taken, weighed: self.other, lines });
    }

    /// `own`: it is about the sources.
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

    /// How the lines of the rule at this place stand.
    pub(super) fn of(&self, rule: usize) -> LogOrder {
        let found = self.troubles.iter().find(|trouble| trouble.rule == rule);
        found.map_or(LogOrder::Alone, |found| {
            if found.lines == TroubleLines::Overcome { LogOrder::Overcome } else { found.order }
        })
    }
}

/// Trouble that a build may overcome, or meet once it has failed: not a place that failed, which fails everything after it.
fn is_outside(rule: &Rule) -> bool {
    matches!(rule.cause, Cause::Infra | Cause::Contention) && !rule.weak && !rule.place
}
