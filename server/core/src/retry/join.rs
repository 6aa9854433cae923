//! What was said in several questions as one: evidence is a set. In which order it was said, and in how many questions, changes nothing
//! of what is judged.
//!
//! | what | several questions say different things |
//! |---|---|
//! | reasons of container, pod and CI system | all are kept, the four strongest of each kind; the strongest stands first and decides |
//! | lines of the log | one for each rule, the strongest 16; see below |
//! | exit | a signal counts before a code, a failure before a success, the larger number before the smaller |
//! | time limit | the shortest: that one ended it |
//! | number of the attempt, runs before it | the largest |
//! | key | it is no evidence but what was built: the newest counts, and what it leaves open stays as it was said before |
//!
//! Kernel counters count before reasons, reasons before the exit, the exit before the log: that is the order of
//! [`classify`](mod@super::classify). Of several lines of the log, which are all worth the same, the one counts that explains the others:
//!
//! 1. the place (a full disk, a lost node): tools report errors of their own after it;
//! 2. memory, then a limit of a tool: what was killed reports nothing, and what waited for it does;
//! 3. trouble outside the build, then a lock that others held: a download that failed is a file that is missing a moment later;
//! 4. an error of the build itself, and then all else.
//!
//! Where a line stands in its log counts for one thing: whether trouble outside the build was overcome ([`order`](mod@super::order)). That
//! is read once, in the log that has both, and kept with the line. Of two logs the one that says more counts: that the trouble came last,
//! before that it was overcome, before nothing. Where no log has both, the trouble explains the failure, whatever was asked first.

use super::{reasons, rules};
use crate::domain::{Cause, Exit, Key, MatchedLine, ReportedEvidence};

/// Reasons kept of each kind.
const REASONS: usize = 4;
/// Lines of the log that are kept, each of another rule.
const LINES: usize = 16;

/// Adds what was said in another question.
pub fn join(known: &mut ReportedEvidence, new: &ReportedEvidence) {
    if known.project.is_empty() {
        known.project.clone_from(&new.project);
    }
    known.key = match (known.key.take(), &new.key) {
        (Some(before), Some(new)) => Some(Box::new(completed(new, &before))),
        (before, new) => new.clone().or(before),
    };
    known.number = known.number.max(new.number);
    known.exit = [known.exit, new.exit].into_iter().flatten().max_by_key(|exit| says_most(*exit));
    add_reasons(&mut known.container_reasons, &new.container_reasons, reasons::container_strength);
    add_reasons(&mut known.pod_reasons, &new.pod_reasons, reasons::pod_strength);
    add_reasons(&mut known.ci_reasons, &new.ci_reasons, reasons::ci_strength);
    add_lines(&mut known.log, &new.log);
    known.last_words = one_of(known.last_words.take(), new.last_words.as_ref());
    known.first_words = one_of(known.first_words.take(), new.first_words.as_ref());
    known.runner_says_oom |= new.runner_says_oom;
    if new.runner_oom_container > known.runner_oom_container {
        known.runner_oom_container.clone_from(&new.runner_oom_container);
    }
    known.log_read |= new.log_read;
    known.runs_before = known.runs_before.max(new.runs_before);
    known.time_limit = [known.time_limit, new.time_limit].into_iter().flatten().min();
}

/// What an end says, as a number to compare: shells report a signal as 128 + signal.
fn says_most(exit: Exit) -> (u8, i32) {
    match exit {
        Exit::Code(0) => (0, 0),
        Exit::Code(code @ 129..=165) => (2, code - 128),
        Exit::Code(code) => (1, code),
        Exit::Signal(signal) => (3, signal),
    }
}

fn add_reasons(known: &mut Vec<String>, new: &[String], strength: fn(&str) -> u32) {
    known.extend(new.iter().cloned());
    known.sort_by(|one, other| strength(other).cmp(&strength(one)).then_with(|| one.cmp(other)));
    known.dedup();
    known.truncate(REASONS);
}

/// One line for each rule, in an order that is the same however they came together.
fn add_lines(known: &mut Vec<MatchedLine>, new: &[MatchedLine]) {
    for line in new {
        match known.iter_mut().find(|other| other.rule == line.rule) {
            Some(same) => merge(same, line),
            None => known.push(line.clone()),
        }
    }
    known.sort_by(|one, other| {
        let place = |line: &MatchedLine| explains(line.cause);
        place(one).cmp(&place(other)).then_with(|| one.rule.cmp(&other.rule))
    });
    known.truncate(LINES);
}

/// Two lines of one rule as one.
fn merge(known: &mut MatchedLine, new: &MatchedLine) {
    known.order = known.order.max(new.order);
    if explains(new.cause) < explains(known.cause) {
        known.cause = new.cause;
    }
    // lines that were removed for their age are said again
    let better =
        |known: &str, new: &str| known.is_empty() || (!new.is_empty() && rules::names_better(new, known));
    if better(&known.line, &new.line) {
        known.line.clone_from(&new.line);
    }
    if better(&known.first, &new.first) {
        known.first.clone_from(&new.first);
        known.root.clone_from(&new.root);
    } else if known.first == new.first {
        // the same line of two logs: one of its places, whichever was said first
        known.root = known.root.take().max(new.root.clone());
    }
}

/// Which of several causes that the log names explains the others: the one with the smallest number. See the module's story.
fn explains(cause: Cause) -> u8 {
    match cause {
        Cause::Oom => 0,
        Cause::Starved => 1,
        Cause::ToolOom => 2,
        Cause::DiskFull => 3,
        Cause::EphemeralStorage => 4,
        Cause::Preempted => 5,
        Cause::NodeLost => 6,
        Cause::EvictedByNode => 7,
        Cause::Timeout => 8,
        Cause::Infra | Cause::Undecided => 9,
        Cause::Contention => 10,
        Cause::Deterministic => 11,
        Cause::Configuration => 12,
        Cause::Canceled => 13,
        Cause::Flaky => 14,
        Cause::Unknown => 15,
    }
}

/// Words that no rule knows: the same one of both, whichever came first.
fn one_of(known: Option<String>, new: Option<&String>) -> Option<String> {
    match (known, new) {
        (Some(known), Some(new)) if rules::names_better(new, &known) => Some(new.clone()),
        (known, new) => known.or_else(|| new.cloned()),
    }
}

/// The key that was said last, with what it leaves open as it was said before.
fn completed(new: &Key, known: &Key) -> Key {
    let mut labels = known.labels.clone();
    labels.extend(new.labels.clone());
    let mut key = Key { labels, hints: new.hints, ..Key::default() };
    key.hints.build_jobs = key.hints.build_jobs.or(known.hints.build_jobs);
    key.hints.input_bytes = key.hints.input_bytes.or(known.hints.input_bytes);
    let either = |new: &str, known: &str| if new.is_empty() { known.to_owned() } else { new.to_owned() };
    let Key { project, stack, package, version, variants, compiler, .. } = &mut key;
    *project = either(&new.project, &known.project);
    *stack = either(&new.stack, &known.stack);
    *package = either(&new.package, &known.package);
    *version = either(&new.version, &known.version);
    *variants = either(&new.variants, &known.variants);
    *compiler = either(&new.compiler, &known.compiler);
    key.compiler_version = either(&new.compiler_version, &known.compiler_version);
    key.arch = either(&new.arch, &known.arch);
    key.build_system = either(&new.build_system, &known.build_system);
    key.git_ref = either(&new.git_ref, &known.git_ref);
    key.owner = either(&new.owner, &known.owner);
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::LogOrder;

    fn line(rule: &str, line: &str) -> MatchedLine {
        let (cause, order) = (Cause::Deterministic, LogOrder::Alone);
        MatchedLine { rule: rule.into(), cause, line: line.into(), first: line.into(), root: None, order }
    }

    fn joined(parts: &[ReportedEvidence]) -> ReportedEvidence {
        let mut all = ReportedEvidence::default();
        for part in parts {
            join(&mut all, part);
        }
        all
    }

    fn container(reason: &str) -> ReportedEvidence {
        ReportedEvidence { container_reasons: vec![reason.to_owned()], ..ReportedEvidence::default() }
    }

    #[test]
    fn no_evidence_is_lost_and_repeated_evidence_adds_nothing() {
        let log = ReportedEvidence { log: vec![line("a", "a: no")], ..ReportedEvidence::default() };
        let exit = ReportedEvidence { exit: Some(Exit::Code(1)), number: 2, ..ReportedEvidence::default() };
        let parts = [container("Error"), log, exit, container("OOMKilled"), ReportedEvidence::default()];
        let all = joined(&parts);
        assert_eq!(all.container_reasons, ["OOMKilled", "Error"]);
        assert_eq!((all.exit, all.number, all.log.len()), (Some(Exit::Code(1)), 2, 1));
        for part in &parts {
            let again = joined(&[all.clone(), part.clone()]);
            assert_eq!(again, all);
        }
    }

    #[test]
    fn what_has_no_room_is_the_weakest_and_not_the_latest() {
        let mut parts: Vec<ReportedEvidence> = (0..100).map(|n| container(&n.to_string())).collect();
        parts.push(container("OOMKilled"));
        let all = joined(&parts);
        assert_eq!((all.container_reasons.len(), &*all.container_reasons[0]), (REASONS, "OOMKilled"));
        parts.reverse();
        assert_eq!(joined(&parts), all);
        let lines = |n: u32| ReportedEvidence { log: vec![line(&n.to_string(), "x")], ..Default::default() };
        let logs: Vec<ReportedEvidence> = (0..40).map(lines).collect();
        let back: Vec<ReportedEvidence> = (0..40).rev().map(lines).collect();
        assert_eq!((joined(&logs).log.len(), joined(&logs)), (LINES, joined(&back)));
    }

    #[test]
    fn a_line_that_was_removed_for_its_age_can_be_reported_again() {
        let log = ReportedEvidence { log: vec![line("a", "1")], ..ReportedEvidence::default() };
        let mut gone = log.clone();
        assert!(gone.drop_log_lines() && !gone.drop_log_lines());
        assert_eq!((gone.log[0].rule.as_str(), gone.log[0].line.as_str()), ("a", ""));
        assert_eq!(joined(&[gone.clone(), log.clone()]), joined(&[log, gone]));
    }

    #[test]
    fn a_key_that_says_less_takes_nothing_away() {
        let key = |package: &str, version: &str| ReportedEvidence {
            key: Some(Box::new(Key { package: package.into(), version: version.into(), ..Key::default() })),
            ..ReportedEvidence::default()
        };
        let all = joined(&[key("zlib", "1"), key("zlib", ""), ReportedEvidence::default()]);
        assert_eq!(all, key("zlib", "1"));
    }
}
