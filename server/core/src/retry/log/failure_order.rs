//! Decides what ended a build if its log shows both a fault outside the build and a failure of the build itself.
//!
//! | in one log | the fault |
//! |---|---|
//! | no other failure, or one that may follow from a failed download | is the cause |
//! | the fault, then another failure of the build itself | was overcome: the build went on, and its own failure counts |
//! | the fault, then an answer of the other side | was overcome: the other side was reached |
//! | a failure of the build, then the fault | came last and is the cause |
//! | a failure of the build, a tool's report that it failed, then the fault | came after the end: the build's own failure counts |
//! | the fault, then rpmbuild begins a phase, then a failure of any kind | was overcome: rpmbuild ends at the first phase that fails |
//!
//! "Another failure" is recognized by its rule. Errors in the sources and findings of linters (`own` in `rules/*.toml`) never follow from a
//! download, and once the other side has answered (`answered`) it was reached. Failed tests (`test`) do not follow from a fault before the
//! first test. Everything else, a tool's report that it failed included, may follow from the fault, unless a later line shows that the
//! download succeeded. A line that names the fault itself is not another failure. If the tool only warns, or reports that it retries, the
//! fault counts as overcome once the build went on: something was fetched, or a failure came that no download explains.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::domain::{Cause, LogOrder};
use crate::retry::{
    log::mentioned_failures::{goes_on, tries_again},
    matching::rule::Rule,
};

/// GitLab's runner writes this line when it takes the job from the build. That ends the job, whatever failed before.
const JOB_TAKEN_LINE: &str = "ERROR: Job failed (system failure)";

/// Matches a line which reports that a download succeeded, or what was made with it.
static DOWNLOAD_SUCCEEDED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i-u:^done [0-9]|\b(downloaded|fetched|retrieved|cloned|saved|unpacked|extracted|installed|restored)\b|pull complete|objects: +100%",
        r"|\.100%$|\b100 ?%( ?[\[(|#=]| +[0-9.]+ ?[kmg]?i?b\b)|\[100%\] +[0-9.]+ ?[kmg]?i?b\b|\b200 OK\b|\bdone in [0-9]|^complete!$|\bHEAD is now at\b|: checked out '",
        r"|\b(added|resolved|prepared|audited|updated|linked|locked|synced|reused|built) [0-9]+(,[0-9]+)* (new |direct )?[a-z]+\b",
        r"|\bsuccessfully (installed|built|added|updated|resolved|pulled|synced)\b|^setting up \S+ \(|^compiling \S+ v[0-9]",
        r"|\b(attempt|retry|retried|try|mirror|download|fetch|connection|install|installation|restore|checkout|clone|pull|sync|build)\b.*\b(succeeded|successful|success|ok|done|complete|completed|restored|established)\b",
        r"|\b(succeeded|successfully|recovered)\b.*\b(attempt|retry|try|mirror|download|fetch|connection)\b)"
    ))
    .ok()
});
/// Matches a line with the words of `DOWNLOAD_SUCCEEDED` that reports the opposite.
static DOWNLOAD_DENIED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i-u:\b(not|no|never|nothing|fail|fails|failed|failure|failures|error|errors|cannot|unable|would|should|0 ?(of|/|bytes?|b|files?|packages?|objects))\b|n't\b)").ok()
});
/// Matches a line which reports that tests begin.
static TESTS_BEGIN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i-u:test session starts|^\s*collected [0-9]+ items?|^\s*running [0-9]+ tests?\b|^Test project /|\bT E S T S\b|^Randomized with seed\b",
        r"|^\s*Start +[0-9]+: |\[==========\] Running|^(run|running|starting|executing|discovering)( \S+){0,3} tests?\b|\bmake\S* (check|test)\b|^Testsuite: )"
    ))
    .ok()
});
/// How many lines after a fault a tool may say that it retries.
const RETRY_LINES: u8 = 4;
/// Matches a line with which a CI runner goes on after the script of a job has ended. What succeeds from then on says nothing about the script.
static SCRIPT_ENDED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?-u)^(Running after_script|Uploading artifacts for failed job|Post job cleanup|Cleaning up project directory)\b|\bProcess completed with exit code [1-9]").ok()
});
/// Matches a line with which rpmbuild begins a phase.
static PHASE_BEGINS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?-u)^Executing\(%[a-z_]{1,40}\): ").ok());
/// Matches a failure that may follow from a failed download: something is missing, or a tool gives up without a reason of its own.
static DOWNLOAD_CONSEQUENCES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i-u:no such|not found|could not find|can't find|cannot find (-l|package|module|crate)|cannot (open|stat)|can't open",
        r"|no (module|package|library) (named|called)|no rule to make|does not exist|missing|unable to locate|unmet|installation candidate|unresolved import|undeclared crate|unlinked crate",
        r"|linker command failed|final link failed|skipped due to earlier|is not in (std|GOROOT)|unable to select packages|download|fetch|network|resolve host|connect)"
    ))
    .ok()
});

fn matches_form(form: &LazyLock<Option<Regex>>, line: &str) -> bool {
    form.as_ref().is_some_and(|form| form.is_match(line.as_bytes()))
}

/// A fault outside the build, which the build may have overcome. The log is read backwards.
#[derive(Debug)]
struct OutsideFault {
    /// Index of the rule that matches the fault.
    rule: usize,
    /// Decided by a failure of the build before or after the fault; `None` until one is read.
    log_order: Option<LogOrder>,
    /// Whether, after the fault in the log, a tool reported that it failed.
    tool_failed: bool,
    /// Whether the fault is the runner's own report that the job is over.
    is_runner_report: bool,
    /// Whether tests that failed are among the lines after the fault, and no line before it shows a test.
    is_before_tests: bool,
    /// What the lines of the fault read so far report.
    lines: FaultLines,
}

/// What is known of a line of a fault when it is read.
#[derive(Debug, Clone, Copy)]
struct FaultOrder {
    /// The line may show a fault or not: a failure of the build after it is no sign that it came last.
    is_vague: bool,
    /// The build went on after the line.
    is_overcome: bool,
    /// The line comes from the CI runner, not from the build.
    is_runner_report: bool,
}

/// What the lines of a fault that were read so far report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultLines {
    /// Every line only reports that a tool retries, and the build went on afterwards.
    Overcome,
    /// A line reports more than a retry, or the build did not go on.
    Open,
}

/// What is known about the lines after the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum FollowingLine {
    #[default]
    Unknown,
    /// The build went on: something was fetched, or it failed in a way that no download explains.
    WentOn,
}

/// Reads a log backwards, and determines for each fault outside the build its order relative to the build's own failures.
#[derive(Debug, Default)]
pub(in crate::retry) struct OrderReader {
    faults: Vec<OutsideFault>,
    /// Whether the lines read so far have a failure of the build that no earlier fault explains.
    has_own_failure: bool,
    explained: ExplainedFailure,
    /// Whether the lines read so far have a test that passed.
    has_passed_test: bool,
    afterwards: FollowingLine,
    /// For how many lines before the current one it holds that a tool reported soon after them that it retries, and no failure in between.
    retries_within: u8,
    phase: ReadPhase,
}

/// Whether the lines read so far have a failure that an earlier fault explains, unless something happened in between.
#[derive(Debug, Default)]
struct ExplainedFailure {
    /// Tests began.
    unless_tests: bool,
    /// A download succeeded.
    unless_fetched: bool,
}

/// The phase of rpmbuild from which lines are being read. The log is read from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ReadPhase {
    /// No failure was read yet.
    #[default]
    Unknown,
    /// Lines of the phase that failed are read.
    Failed,
    /// Lines of a phase before the failed one are read.
    Earlier,
}

impl OrderReader {
    /// Reads the line before those read so far. `rules`: the rules that match it, with their indexes.
    pub(in crate::retry) fn read(&mut self, line: &str, rules: &[(usize, &Rule)]) {
        let tries_again = self.goes_on_after(line, !rules.is_empty());
        let vague = |rule: &Rule| FaultOrder {
            is_vague: true,
            is_overcome: self.phase == ReadPhase::Earlier
                || (self.has_own_failure && rule.cause != Cause::Configuration),
            is_runner_report: false,
        };
        let clear = FaultOrder {
            is_vague: false,
            is_overcome: self.has_own_failure,
            is_runner_report: line.starts_with(JOB_TAKEN_LINE),
        };
        let vague: Vec<(usize, bool, FaultOrder)> = rules
            .iter()
            .filter(|(_, rule)| is_vague(rule))
            // a machine that is set up wrongly stays so, whatever a tool calls it
            .map(|(place, rule)| (*place, tries_again && rule.cause != Cause::Configuration, vague(rule)))
            .collect();
        for (place, tries_again, order) in vague {
            self.note_fault(place, tries_again, order);
        }
        let mut outside = rules.iter().filter(|(_, rule)| may_be_overcome(rule)).peekable();
        if outside.peek().is_some() {
            outside.for_each(|(place, _)| self.note_fault(*place, tries_again, clear));
            return;
        }
        let own = rules.iter().map(|(_, rule)| *rule).filter(|rule| is_own_failure(rule));
        let (strong, weak): (Vec<&Rule>, Vec<&Rule>) = own.partition(|rule| !rule.weak);
        if self.phase == ReadPhase::Unknown && !(strong.is_empty() && weak.is_empty()) {
            self.phase = ReadPhase::Failed;
        }
        let says_why = |rule: &&&Rule| rule.own || rule.test;
        if let Some(rule) = strong.first().or_else(|| weak.iter().find(says_why)) {
            let all = || strong.iter().chain(&weak);
            let own = all().any(|rule| rule.own || (rule.answered && !rule.weak));
            self.note_own_failure(line, own, all().any(|rule| rule.answered));
            if all().any(|rule| rule.test) {
                // a test failed before the fault, so tests had begun
                self.faults.iter_mut().for_each(|fault| fault.is_before_tests = false);
            }
            if rule.weak {
                self.faults.iter_mut().for_each(|fault| fault.tool_failed = true);
            }
        } else if let Some(rule) = weak.first() {
            self.faults.iter_mut().for_each(|fault| fault.tool_failed = true);
            let may_follow = may_follow(line);
            self.explained.unless_fetched |= !may_follow;
            if !may_follow && rule.cause == Cause::Deterministic && !rule.summary {
                self.afterwards = FollowingLine::WentOn;
            }
        } else if self.phase == ReadPhase::Failed && matches_form(&PHASE_BEGINS, line) {
            self.has_own_failure = true;
            self.phase = ReadPhase::Earlier;
        } else {
            self.read_success(line);
        }
    }

    /// Whether a tool reports in the line, or in one of the next lines, that it goes on after the fault in it.
    fn goes_on_after(&mut self, line: &str, has_fault: bool) -> bool {
        if matches_form(&SCRIPT_ENDED, line) {
            *self = Self { faults: std::mem::take(&mut self.faults), ..Self::default() };
        }
        if has_fault {
            return std::mem::take(&mut self.retries_within) > 0 || goes_on(line);
        }
        let before = self.retries_within.saturating_sub(1);
        self.retries_within = if tries_again(line) { RETRY_LINES } else { before };
        false
    }

    /// Reads a line which reports that a check passed.
    pub(in crate::retry) fn read_passed(&mut self, line: &str) {
        if !self.read_success(line) && !line.starts_with("checking ") {
            self.has_passed_test = true;
            self.faults.iter_mut().for_each(|fault| fault.is_before_tests = false);
        }
    }

    /// Reads a line that may report a download that succeeded, or that tests begin. Returns whether it does.
    fn read_success(&mut self, line: &str) -> bool {
        if matches_form(&DOWNLOAD_SUCCEEDED, line) && !matches_form(&DOWNLOAD_DENIED, line) {
            self.has_own_failure |= self.explained.unless_fetched;
            self.afterwards = FollowingLine::WentOn;
        } else if matches_form(&TESTS_BEGIN, line) {
            self.has_own_failure |= self.explained.unless_tests;
            self.faults.iter_mut().for_each(|fault| fault.is_before_tests = false);
        } else {
            return false;
        }
        true
    }

    /// Records a line that may show a fault outside the build. What a tool only reports that it retries was overcome once the build went on.
    fn note_fault(&mut self, rule: usize, tries_again: bool, order: FaultOrder) {
        if let Some(known) = self.faults.iter_mut().find(|fault| fault.rule == rule) {
            known.tool_failed &= order.is_vague;
            if !tries_again {
                known.lines = FaultLines::Open;
            }
            return;
        }
        let is_over = tries_again && self.afterwards == FollowingLine::WentOn;
        self.faults.push(OutsideFault {
            rule,
            log_order: match order {
                FaultOrder { is_overcome: true, .. } => Some(LogOrder::Overcome),
                FaultOrder { is_vague, .. } => is_vague.then_some(LogOrder::Alone),
            },
            tool_failed: false,
            is_runner_report: order.is_runner_report,
            is_before_tests: self.has_passed_test && self.explained.unless_tests,
            lines: if is_over { FaultLines::Overcome } else { FaultLines::Open },
        });
    }

    /// Records a line that shows a failure of the build itself. `own`: an error in the sources, or an answer; `answered`: no failed
    /// connection explains it.
    fn note_own_failure(&mut self, line: &str, own: bool, answered: bool) {
        let may_follow = !answered && may_follow(line);
        self.explained.unless_fetched = true;
        self.explained.unless_tests |= !may_follow;
        if !may_follow {
            self.afterwards = FollowingLine::WentOn;
        }
        self.has_own_failure |= own && !may_follow;
        for trouble in self.faults.iter_mut().filter(|trouble| trouble.log_order.is_none()) {
            let ended_before = trouble.tool_failed && !trouble.is_runner_report && !may_follow;
            trouble.log_order = Some(if ended_before { LogOrder::Overcome } else { LogOrder::Last });
        }
    }

    /// Whether the fault that the rule with this index matches was the only failure, was overcome, or came last.
    pub(in crate::retry) fn order_of(&self, rule: usize) -> LogOrder {
        let found = self.faults.iter().find(|trouble| trouble.rule == rule);
        found.map_or(LogOrder::Alone, |found| {
            let is_overcome = found.lines == FaultLines::Overcome || found.is_before_tests;
            if is_overcome { LogOrder::Overcome } else { found.log_order.unwrap_or(LogOrder::Alone) }
        })
    }
}

/// Whether the line may follow from a download that failed before it.
pub(in crate::retry) fn may_follow(line: &str) -> bool {
    matches_form(&DOWNLOAD_CONSEQUENCES, line)
}

/// Whether a rule matches a fault that a build may overcome, or meet only after it failed, such as a refused connection. False for a fault
/// of the machine: everything fails after it.
pub(in crate::retry) fn may_be_overcome(rule: &Rule) -> bool {
    matches!(rule.cause, Cause::Infra | Cause::Contention) && !rule.weak && !rule.place
}

/// Whether the rule shows that the build itself failed, or reports that something did.
fn is_own_failure(rule: &Rule) -> bool {
    let is_own = rule.cause == Cause::Deterministic || (rule.weak && rule.cause == Cause::Unknown);
    (is_own && !rule.place) || (rule.answered && !rule.weak)
}

/// Whether a match of the rule may be a fault outside the build: the rule is weak, or it names a configuration, such as that of a mirror
/// that lacks a file.
fn is_vague(rule: &Rule) -> bool {
    let names_outside = matches!(rule.cause, Cause::Infra | Cause::Contention) && rule.weak;
    names_outside || rule.cause == Cause::Configuration
}
