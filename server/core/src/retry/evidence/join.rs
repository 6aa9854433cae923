//! Merges the evidence of several questions as a set: the result does not depend on the order or the number of the questions.
//!
//! | evidence | if several questions differ |
//! |---|---|
//! | reasons of container, pod and CI system | all are kept, the four strongest of each kind; the strongest comes first and decides |
//! | lines of the log | one for each rule, the strongest 16; see below |
//! | exit | a signal before a code, a failure before a success, the larger number before the smaller |
//! | time limit | the shortest: it ended the attempt |
//! | number of the attempt, earlier runs | the largest |
//! | key | not evidence, but what was built: the newest is used, and empty fields are filled from the earlier one |
//!
//! Kernel counters come before reasons, reasons before the exit, the exit before the log: the order of [`classify`](mod@crate::retry::cause::classify).
//! Lines of the log are equally strong; among them the one decides that explains the others:
//!
//! 1. the machine (a full disk, a lost node): tools report errors of their own after it;
//! 2. memory, then a limit of a tool: a killed process reports nothing, and those that waited for it do;
//! 3. a fault outside the build, then a lock held by others: a failed download becomes a missing file a moment later;
//! 4. an error of the build itself, then everything else.
//!
//! The position of a line in its log matters for one thing: whether a fault outside the build was overcome
//! ([`failure_order`](mod@crate::retry::log::failure_order)). This is determined once, in a log that has both lines, and stored with the line. If two
//! logs differ, "the fault came last" wins over "it was overcome", and either wins over an unknown order. If no log has both lines, the
//! fault explains the failure, whatever the order of the questions.

use crate::domain::{Exit, Key, MatchedLine, ReportedEvidence, Verdict, VerdictBasis};
use crate::retry::{
    cause::{
        finding::Clue,
        reasons::{OutOfMemory, ci_clue, clue_rank, container_clue, pod_clue},
    },
    known::signature,
};

/// Most reasons kept of each kind (container, pod, CI system).
const MAX_REASONS: usize = 4;
/// Most log lines kept, each matched by another rule.
const MAX_LINES: usize = 16;

/// All reports in these verdicts, oldest first, joined. For a question of a `trusted` caller, what an untrusted job reported about itself
/// counts only as far as it may report that.
pub fn join_reports(verdicts: &[Verdict], trusted: bool) -> ReportedEvidence {
    let mut all = ReportedEvidence::default();
    for VerdictBasis { reported, by_untrusted, .. } in verdicts.iter().map(|verdict| &verdict.basis) {
        if trusted && *by_untrusted {
            join(&mut all, &reported.reportable_by_job());
        } else {
            join(&mut all, reported);
        }
    }
    all
}

/// Adds the evidence of another question to the known evidence.
pub fn join(known: &mut ReportedEvidence, new: &ReportedEvidence) {
    if known.project.is_empty() {
        known.project.clone_from(&new.project);
    }
    known.key = match (known.key.take(), &new.key) {
        (Some(before), Some(new)) => Some(Box::new(with_gaps_filled(new, &before))),
        (before, new) => new.clone().or(before),
    };
    known.number = known.number.max(new.number);
    known.exit = [known.exit, new.exit].into_iter().flatten().max_by_key(|exit| exit_rank(*exit));
    add_reasons(&mut known.container_reasons, &new.container_reasons, container_clue);
    add_reasons(&mut known.pod_reasons, &new.pod_reasons, pod_clue);
    add_reasons(&mut known.ci_reasons, &new.ci_reasons, |reason| ci_clue(reason, OutOfMemory::Unknown));
    add_lines(&mut known.log, &new.log);
    known.last_words = merge_words(known.last_words.take(), new.last_words.as_ref());
    known.first_words = merge_words(known.first_words.take(), new.first_words.as_ref());
    known.runner_says_oom |= new.runner_says_oom;
    if new.runner_oom_container > known.runner_oom_container {
        known.runner_oom_container.clone_from(&new.runner_oom_container);
    }
    known.log_read |= new.log_read;
    known.runs_before = known.runs_before.max(new.runs_before);
    known.time_limit = [known.time_limit, new.time_limit].into_iter().flatten().min();
}

/// The rank of an exit, for choosing one of two; shells report a signal as code 128 + signal.
fn exit_rank(exit: Exit) -> (u8, i32) {
    match exit {
        Exit::Code(0) => (0, 0),
        Exit::Code(code @ 129..=165) => (2, code - 128),
        Exit::Code(code) => (1, code),
        Exit::Signal(signal) => (3, signal),
    }
}

/// Adds reasons, and keeps the [`MAX_REASONS`] with the strongest clues, strongest first, each once.
fn add_reasons(known: &mut Vec<String>, new: &[String], clue: fn(&str) -> Option<Clue>) {
    let strength = |reason: &str| clue_rank(clue(reason).as_ref());
    known.extend(new.iter().cloned());
    known.sort_by(|one, other| strength(other).cmp(&strength(one)).then_with(|| one.cmp(other)));
    known.dedup();
    known.truncate(MAX_REASONS);
}

/// Adds log lines, and keeps one for each rule, in an order that does not depend on how they were merged.
fn add_lines(known: &mut Vec<MatchedLine>, new: &[MatchedLine]) {
    for line in new {
        match known.iter_mut().find(|other| other.rule == line.rule) {
            Some(same) => merge_lines(same, line),
            None => known.push(line.clone()),
        }
    }
    known.sort_by(|one, other| {
        let rank = |line: &MatchedLine| line.cause.traits().log_rank;
        rank(one).cmp(&rank(other)).then_with(|| one.rule.cmp(&other.rule))
    });
    known.truncate(MAX_LINES);
}

/// Merges two lines of one rule.
fn merge_lines(known: &mut MatchedLine, new: &MatchedLine) {
    known.order = known.order.max(new.order);
    if new.cause.traits().log_rank < known.cause.traits().log_rank {
        known.cause = new.cause;
    }
    // an empty text was removed for its age: the new one is taken again
    let better =
        |known: &str, new: &str| known.is_empty() || (!new.is_empty() && signature::names_better(new, known));
    if better(&known.line, &new.line) {
        known.line.clone_from(&new.line);
    }
    if better(&known.first, &new.first) {
        known.first.clone_from(&new.first);
        known.root.clone_from(&new.root);
    } else if known.first == new.first {
        // the same line in two logs: one of its positions is kept, independent of the order of the logs
        known.root = known.root.take().max(new.root.clone());
    }
}

/// Chooses one of two lines that no rule matches; the choice does not depend on their order.
fn merge_words(known: Option<String>, new: Option<&String>) -> Option<String> {
    match (known, new) {
        (Some(known), Some(new)) if signature::names_better(new, &known) => Some(new.clone()),
        (known, new) => known.or_else(|| new.cloned()),
    }
}

/// The newest key, with its empty fields filled from the earlier key.
fn with_gaps_filled(new: &Key, known: &Key) -> Key {
    let mut labels = known.labels.clone();
    labels.extend(new.labels.clone());
    let mut key = Key { labels, hints: new.hints, ..Key::default() };
    key.hints.build_jobs = key.hints.build_jobs.or(known.hints.build_jobs);
    key.hints.input_bytes = key.hints.input_bytes.or(known.hints.input_bytes);
    for ((to, new), known) in key.texts_mut().into_iter().zip(new.texts()).zip(known.texts()) {
        if new.is_empty() { known } else { new }.clone_into(to);
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Cause, LogOrder};

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
    fn merging_keeps_all_evidence_and_is_idempotent() {
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
    fn overflow_drops_the_weakest_evidence() {
        let mut parts: Vec<ReportedEvidence> = (0..100).map(|n| container(&n.to_string())).collect();
        parts.push(container("OOMKilled"));
        let all = joined(&parts);
        assert_eq!((all.container_reasons.len(), &*all.container_reasons[0]), (MAX_REASONS, "OOMKilled"));
        parts.reverse();
        assert_eq!(joined(&parts), all);
        let lines = |n: u32| ReportedEvidence { log: vec![line(&n.to_string(), "x")], ..Default::default() };
        let logs: Vec<ReportedEvidence> = (0..40).map(lines).collect();
        let back: Vec<ReportedEvidence> = (0..40).rev().map(lines).collect();
        assert_eq!((joined(&logs).log.len(), joined(&logs)), (MAX_LINES, joined(&back)));
    }

    #[test]
    fn an_expired_log_line_can_be_reported_again() {
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
