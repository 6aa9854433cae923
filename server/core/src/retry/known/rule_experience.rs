//! How often each rule was right in this installation, and whether it may still name a cause.
//!
//! | case | the rule was right if |
//! |---|---|
//! | an unchanged retry passed, or soon after a build of the same commit in any pipeline | it named a fault outside the build |
//! | all of them failed | it named a fault of the build itself |
//! | a person corrected the cause or confirmed it: counts instead of the retries | it named that cause |
//!
//! After a cause of memory, time or a full disk only corrections count: a retry says little about these. The failures of one build at one
//! commit (else in one job) are one case, so that many retries of one failure are no more than one.
//!
//! A project has its own records: its newest [`OWN_CASES`] count, and of each other project at most [`FOREIGN_CASES`]. So no single project
//! can take the say of a rule in another one, whatever it retries, and each project can take it in its own.
//!
//! Nothing is stored but which rules spoke (`MatchedRule`): the records follow from verdicts, corrections and summaries, in whatever
//! order they arrived. They are bounded with the known failures: each is listed under at most `MAX_MATCHED_RULES` rules.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use crate::domain::{Cause, History, Key, Outcome, Rung};
use crate::retry::{
    cause::corrections::Corrections,
    known::known_failures::{FailedAttempt, KnownFailures},
    known::rule_cases::{FailureId, FailurePosition, RuleCase},
    known::rule_records::RuleRecord,
};

/// Most cases of a project in its own record, the newest: a rule that was wrong long ago may name causes again.
const OWN_CASES: usize = 32;
/// Most cases of one project in the record of another, the newest. One project cannot turn a rule elsewhere with fewer than 6.
const FOREIGN_CASES: usize = 3;
/// Most other projects in a record, those with the newest cases.
const FOREIGN_PROJECTS: usize = 64;
/// Failures that are examined for each case that may count, the newest: several may be one case. A verdict waits for them.
const EXAMINED_FOR_CASE: usize = 8;

/// Attempts of a build after a failure among which one at the same commit is looked for: other pipelines run soon after.
const NEXT_ATTEMPTS: usize = 64;

/// A rule that may no longer name a cause, because it was wrong too often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilencedRule {
    /// Id of the rule.
    pub rule: String,
    /// The project in which it has lost its say; empty: in each project that has no cases of its own.
    pub project: String,
    /// How often it was right there.
    pub record: RuleRecord,
}

/// What the records of rules follow from.
#[derive(Debug, Clone, Copy)]
pub struct RuleExperience<'k> {
    /// Failures that earlier verdicts recorded.
    pub seen: &'k KnownFailures,
    /// Ended attempts.
    pub history: &'k History,
    /// Corrections in force.
    pub corrections: &'k Corrections,
}

impl RuleExperience<'_> {
    /// The record of a rule in a project.
    pub fn record(&self, rule: &str, project: &str) -> RuleRecord {
        let Some(by_project) = self.seen.rule_cases.0.get(rule) else { return RuleRecord::default() };
        let few = |project: &str, most| {
            let failures = by_project.get(project);
            failures.map_or_else(RuleRecord::default, |failures| {
                RuleRecord::of(&self.cases(rule, failures, most), most)
            })
        };
        record_with(by_project, project, few)
    }

    /// The projects in which a rule is silenced.
    pub fn silenced(&self, rule: &str) -> Vec<SilencedRule> {
        let Some(by_project) = self.seen.rule_cases.0.get(rule) else { return Vec::new() };
        let cases = |most: usize| -> BTreeMap<&str, RuleRecord> {
            let all = by_project.iter();
            let all = all.map(|(project, failures)| (project.as_str(), self.cases(rule, failures, most)));
            all.filter(|(_, cases)| !cases.is_empty())
                .map(|(project, cases)| (project, RuleRecord::of(&cases, most)))
                .collect()
        };
        let (own, as_foreign) = (cases(OWN_CASES), cases(FOREIGN_CASES));
        let few = |project: &str, most| {
            let records = if most == OWN_CASES { &own } else { &as_foreign };
            records.get(project).copied().unwrap_or_default()
        };
        let projects: BTreeSet<&str> = own.keys().copied().chain([""]).collect();
        let records = projects.into_iter().map(|project| (project, record_with(by_project, project, few)));
        let silenced = records.filter(|(_, record)| !record.is_reliable());
        let silenced = silenced.map(|(project, record)| SilencedRule {
            rule: rule.to_owned(),
            project: project.to_owned(),
            record,
        });
        silenced.collect()
    }

    /// Whether the rule was right in each of the newest cases of a project, at most `most`, newest first.
    fn cases(&self, rule: &str, failures: &BTreeSet<RuleCase>, most: usize) -> Vec<bool> {
        let mut groups: Vec<Vec<(&Key, &FailedAttempt)>> = Vec::new();
        let mut at: HashMap<(&FailureId, &str), usize> = HashMap::new();
        for (position, name) in failures.iter().rev().take(most * EXAMINED_FOR_CASE) {
            let Some((key, failed)) = self.seen.failure(position, name) else { continue };
            let scope = failed.repeat_scope.as_deref().unwrap_or(position.1.as_str());
            let group = *at.entry((name, scope)).or_insert(groups.len());
            groups.resize_with(groups.len().max(group + 1), Vec::new);
            groups.get_mut(group).into_iter().for_each(|group| group.push((key, failed)));
        }
        groups.iter().filter_map(|group| self.was_right(rule, group)).take(most).collect()
    }

    /// Whether the rule was right in one case: a correction decides, else one retry that passed, else those that failed. `None` if there
    /// is none of these.
    fn was_right(&self, rule: &str, group: &[(&Key, &FailedAttempt)]) -> Option<bool> {
        let named = |failed: &FailedAttempt| {
            failed.spoken.iter().find(|spoken| spoken.rule == rule).map(|spoken| spoken.cause)
        };
        let corrected = group.iter().filter_map(|(key, failed)| {
            let correction = self.corrections.of(&failed.position.1, &key.project)?;
            Some((correction.at_unix_ms, &failed.position.1, correction.cause == named(failed)?))
        });
        if let Some((.., is_right)) = corrected.max() {
            return Some(is_right);
        }
        let passed = group.iter().filter_map(|(key, failed)| has_passed(key, failed, self.history)).max()?;
        named(group.first()?.1).and_then(|cause| is_right(cause, passed))
    }
}

/// The record of a project: its own cases and a few of other projects. `few` gives those of a project.
fn record_with(
    by_project: &BTreeMap<String, BTreeSet<RuleCase>>,
    project: &str,
    few: impl Fn(&str, usize) -> RuleRecord,
) -> RuleRecord {
    let foreign = foreign(by_project, project).into_iter();
    foreign.fold(few(project, OWN_CASES), |sum, other| sum.add(few(other, FOREIGN_CASES)))
}

/// The other projects in the record of a project.
fn foreign<'p>(by_project: &'p BTreeMap<String, BTreeSet<RuleCase>>, own: &str) -> Vec<&'p str> {
    let mut others: Vec<(Reverse<Option<&FailurePosition>>, &str)> = by_project
        .iter()
        .filter(|(project, _)| *project != own)
        .map(|(project, cases)| (Reverse(cases.last().map(|(position, _)| position)), project.as_str()))
        .collect();
    others.sort_unstable();
    others.into_iter().take(FOREIGN_PROJECTS).map(|(_, project)| project).collect()
}

/// Whether an unchanged retry of the failure passed, or the same build at the same commit soon after; `None` if neither was tried, or
/// something else ended the retry.
fn has_passed(key: &Key, failed: &FailedAttempt, history: &History) -> Option<bool> {
    failed.retry_after?;
    let by_retry = history.retried_by(&failed.position.1, key).and_then(|retry| {
        let ended_by_other =
            |cause: Cause| cause.is_taken_away() || cause.is_memory() || cause == Cause::Canceled;
        let says_nothing = retry.outcome.is_unknown() || retry.proven_cause().is_some_and(ended_by_other);
        (!says_nothing).then_some(retry.outcome == Outcome::Succeeded)
    });
    let has_passed = by_retry == Some(true) || has_commit_passed(key, failed, history);
    has_passed.then_some(true).or(by_retry)
}

/// Whether one of the next [`NEXT_ATTEMPTS`] of the same build passed at the same commit.
fn has_commit_passed(key: &Key, failed: &FailedAttempt, history: &History) -> bool {
    let (at_unix_ms, attempt) = &failed.position;
    let ended = history.get(attempt).map_or(*at_unix_ms, |brief| brief.ended_unix_ms());
    let builds = || history.on_rung(Rung::Exact, key).rev().map(|observation| &observation.brief);
    let mut next = builds().skip_while(|brief| brief.ended_unix_ms() <= ended).take(NEXT_ATTEMPTS);
    failed.commit.is_some()
        && next.any(|brief| brief.outcome == Outcome::Succeeded && brief.commit == failed.commit)
}

/// Whether a rule that named this cause was right, if a retry passed or none did; `None` if that says nothing about the cause.
fn is_right(cause: Cause, passed: bool) -> Option<bool> {
    match cause {
        Cause::Deterministic | Cause::Configuration | Cause::ToolOom => Some(!passed),
        Cause::Infra | Cause::Undecided | Cause::Contention | Cause::Flaky => Some(passed),
        _ => None,
    }
}
