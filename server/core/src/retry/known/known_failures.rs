//! Failures seen before: for each key and signature, which attempts failed, and whether an unchanged retry passed.
//!
//! Only the newest failures are kept, of each key and signature and of all. A failure is as new as its verdict, whenever it arrives here. A
//! forgotten failure costs at most one unnecessary retry.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use crate::domain::{
    Action, AttemptId, Cause, CommitMark, History, Key, MatchedRule, Outcome, Signature, Verdict,
};
use crate::retry::{
    known::lineage,
    known::rule_cases::{FailureId, FailurePosition, RuleCases},
};

/// Most failures kept for one key and signature; the oldest are dropped.
const PER_SIGNATURE: usize = 32;
/// Most failures examined for statistics, newest first: this takes a few milliseconds.
const MAX_EXAMINED: usize = 1000;

/// Failures that earlier verdicts recorded.
#[derive(Debug)]
pub struct KnownFailures {
    capacity: usize,
    /// All failures, oldest first.
    oldest_first: BTreeSet<(FailurePosition, Arc<FailureId>)>,
    entries: HashMap<Arc<FailureId>, FailureRecord>,
    /// The failures, by the rules that matched.
    pub(in crate::retry) rule_cases: RuleCases,
}

/// The failures of one key with one signature.
#[derive(Debug)]
pub(in crate::retry) struct FailureRecord {
    pub(in crate::retry) key: Key,
    pub(in crate::retry) signature: Signature,
    /// The failures by their positions, oldest first.
    failures: Vec<FailedAttempt>,
}

/// How often an unchanged retry passed after one failure of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlakyFailure {
    /// The key as text.
    pub key: String,
    /// The signature of the failure.
    pub signature: Signature,
    /// How many retries after the failure passed.
    pub helped: RetrySuccess,
}

impl FailureRecord {
    pub(in crate::retry) fn attempts(&self) -> impl Iterator<Item = &AttemptId> {
        self.failures.iter().map(|failure| &failure.position.1)
    }

    /// Adds a failure at its position. Shows the newest line that a verdict has.
    fn add(&mut self, failure: FailedAttempt, signature: &Signature) {
        let at = self.failures.partition_point(|other| other.position < failure.position);
        if failure.has_line && !self.failures.iter().skip(at).any(|newer| newer.has_line) {
            self.signature.clone_from(signature);
        }
        self.failures.insert(at, failure);
    }

    /// Removes the failure at a position, and the line if no other verdict has one.
    fn remove(&mut self, position: &FailurePosition) {
        self.failures.retain(|failure| failure.position != *position);
        if !self.failures.iter().any(|failure| failure.has_line) {
            self.signature.clear_lines();
        }
    }
}

/// The failure of one attempt.
#[derive(Debug, Clone)]
pub(in crate::retry) struct FailedAttempt {
    pub(in crate::retry) position: FailurePosition,
    /// Where the failure counts as repeated: the commit, else pipeline and job.
    pub(in crate::retry) repeat_scope: Option<String>,
    /// The commit that was built.
    pub(in crate::retry) commit: Option<CommitMark>,
    /// Which verdict a retry would follow; `None` if a retry shows nothing about the failure, because its size changed, or because better
    /// evidence than a log proved the cause.
    pub(in crate::retry) retry_after: Option<RetryAfter>,
    /// Whether the verdict still has the log line that the signature was computed from.
    has_line: bool,
    /// The rules that matched in the verdict, if a trusted caller reported the log.
    pub(in crate::retry) spoken: Vec<MatchedRule>,
}

/// The verdict after which the attempt may have been retried unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::retry) enum RetryAfter {
    /// A verdict to retry unchanged.
    AsIs,
    /// A "no" based on the log alone: a person or the CI system may have retried all the same. Such retries count only once one of them
    /// passed, because failed ones only confirm the verdict.
    NoByLog,
}

/// How many unchanged retries after a failure passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetrySuccess {
    /// Number of retries that have ended.
    pub tried: u32,
    /// Number of ended retries that succeeded.
    pub passed: u32,
}

impl RetrySuccess {
    /// Estimated share of retries that pass (Laplace's rule of succession, so that one result does not give 0 or 1).
    pub fn rate(self) -> f64 {
        (f64::from(self.passed) + 1.0) / (f64::from(self.tried) + 2.0)
    }
}

impl KnownFailures {
    /// The rules that have a failure.
    pub fn rules_with_cases(&self) -> Vec<String> {
        self.rule_cases.0.keys().cloned().collect()
    }

    /// An empty set for at most `capacity` failures (at least 1).
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            oldest_first: BTreeSet::new(),
            entries: HashMap::new(),
            rule_cases: RuleCases::default(),
        }
    }

    /// Records a verdict on an attempt of `key`. A second verdict on the same attempt changes nothing.
    pub fn learn(&mut self, key: &Key, verdict: &Verdict) {
        let Some(signature) = &verdict.outlook.signature else { return };
        let name = Arc::new(name(key, signature));
        let entry = self.entries.entry(Arc::clone(&name)).or_insert_with(|| FailureRecord {
            key: key.clone(),
            signature: signature.clone(),
            failures: Vec::new(),
        });
        if entry.attempts().any(|attempt| *attempt == verdict.attempt) {
            return;
        }
        let position = (verdict.given_unix_ms.unwrap_or(0), verdict.attempt.clone());
        let failure = FailedAttempt {
            position: position.clone(),
            repeat_scope: lineage::repeat_scope(key),
            commit: CommitMark::of(key),
            retry_after: RetryAfter::of(verdict),
            has_line: !signature.line.is_empty(),
            spoken: if verdict.basis.by_untrusted { Vec::new() } else { verdict.basis.spoken.clone() },
        };
        self.rule_cases.add(&failure.spoken, &key.project, &(position.clone(), Arc::clone(&name)));
        entry.add(failure, signature);
        let surplus = entry.failures.first().filter(|_| entry.failures.len() > PER_SIGNATURE);
        let surplus = surplus.map(|oldest| (oldest.position.clone(), Arc::clone(&name)));
        self.oldest_first.insert((position, name));
        if let Some(oldest) = surplus {
            self.remove(&oldest);
        }
        if self.oldest_first.len() > self.capacity
            && let Some(oldest) = self.oldest_first.first().cloned()
        {
            self.remove(&oldest);
        }
    }

    /// Removes a failure, and its key and signature if it was the last of them.
    fn remove(&mut self, failure: &(FailurePosition, Arc<FailureId>)) {
        let (position, name) = failure;
        self.oldest_first.remove(failure);
        let Some(entry) = self.entries.get_mut(name) else { return };
        let failed = entry.failures.iter().find(|failure| failure.position == *position);
        self.rule_cases.remove(failed.map_or(&[], |failed| &failed.spoken), &entry.key.project, failure);
        entry.remove(position);
        if entry.failures.is_empty() {
            self.entries.remove(name);
        }
    }

    /// Notes that `verdicts` no longer have their log lines, and clears the line of each signature that no other verdict has.
    pub fn drop_lines(&mut self, verdicts: &[Verdict]) {
        let lost: HashSet<(&str, &AttemptId)> = verdicts
            .iter()
            .filter_map(|verdict| Some((verdict.outlook.signature.as_ref()?.id.as_str(), &verdict.attempt)))
            .collect();
        let ids: HashSet<&str> = lost.iter().map(|(id, _attempt)| *id).collect();
        for FailureRecord { signature, failures, .. } in self.entries.values_mut() {
            if !ids.contains(signature.id.as_str()) {
                continue;
            }
            for failure in failures.iter_mut() {
                failure.has_line &= !lost.contains(&(signature.id.as_str(), &failure.position.1));
            }
            if !failures.iter().any(|failure| failure.has_line) {
                signature.clear_lines();
            }
        }
    }

    /// Removes the failure of an attempt, if it is of this project (`None`: of any project).
    pub fn unlearn(&mut self, attempt: &AttemptId, project: Option<&str>) {
        let is_meant = |entry: &FailureRecord| project.is_none_or(|project| entry.key.project == project);
        let meant = self.entries.iter().filter(|(_, entry)| is_meant(entry));
        let failures = meant.flat_map(|(name, entry)| {
            let of_attempt = entry.failures.iter().filter(|failure| failure.position.1 == *attempt);
            of_attempt.map(|failure| (failure.position.clone(), Arc::clone(name)))
        });
        for failure in failures.collect::<Vec<_>>() {
            self.remove(&failure);
        }
    }

    /// Number of other attempts of this key with this failure, at the same commit or in the same job.
    pub fn repeats_of(
        &self,
        key: &Key,
        signature: &Signature,
        attempt: &AttemptId,
        earlier: &[AttemptId],
    ) -> u32 {
        let place = lineage::repeat_scope(key);
        let others = self.failures_of(key, signature).filter(|failure| failure.position.1 != *attempt);
        let same = others.filter(|failure| {
            (place.is_some() && failure.repeat_scope == place) || earlier.contains(&failure.position.1)
        });
        u32::try_from(same.count()).unwrap_or(u32::MAX)
    }

    /// How many unchanged retries after this failure of this key passed.
    pub fn helped(&self, key: &Key, signature: &Signature, history: &History) -> RetrySuccess {
        let (mut helped, mut against) = (RetrySuccess::default(), RetrySuccess::default());
        for failure in self.failures_of(key, signature) {
            let counted = match failure.retry_after {
                Some(RetryAfter::AsIs) => &mut helped,
                Some(RetryAfter::NoByLog) => &mut against,
                None => continue,
            };
            let Some(retry) = history.retried_by(&failure.position.1, key) else { continue };
            if retry.outcome.is_unknown() || retry.proven_cause().is_some_and(Cause::is_taken_away) {
                continue;
            }
            counted.tried += 1;
            counted.passed += u32::from(retry.outcome == Outcome::Succeeded);
        }
        if against.passed > 0 {
            helped.tried += against.tried;
            helped.passed += against.passed;
        }
        helped
    }

    /// A failure that is known, with what failed.
    pub(in crate::retry) fn failure(
        &self,
        position: &FailurePosition,
        name: &FailureId,
    ) -> Option<(&Key, &FailedAttempt)> {
        let entry = self.entries.get(name)?;
        let failed = entry.failures.iter().find(|failure| failure.position == *position)?;
        Some((&entry.key, failed))
    }

    fn failures_of(&self, key: &Key, signature: &Signature) -> impl Iterator<Item = &FailedAttempt> {
        self.entries.get(&name(key, signature)).into_iter().flat_map(|entry| &entry.failures)
    }

    /// The keys and signatures, that with the newest failure first.
    pub(in crate::retry) fn newest(&self) -> impl Iterator<Item = &FailureRecord> {
        let newest_first = self.oldest_first.iter().rev();
        newest_first.filter_map(|(position, name)| {
            let entry = self.entries.get(name)?;
            // an entry has the place of its newest failure
            entry.failures.last().is_some_and(|newest| newest.position == *position).then_some(entry)
        })
    }

    /// Failures with at least one ended retry, the most retried first, at most `most`. Only the newest retried failures are examined.
    pub fn flaky(&self, history: &History, most: usize) -> Vec<FlakyFailure> {
        let retried =
            self.newest().filter(|entry| entry.failures.iter().any(|failure| failure.retry_after.is_some()));
        let mut flaky: Vec<FlakyFailure> = retried
            .take(MAX_EXAMINED)
            .map(|entry| FlakyFailure {
                key: entry.key.describe(),
                signature: entry.signature.clone(),
                helped: self.helped(&entry.key, &entry.signature, history),
            })
            .filter(|flaky| flaky.helped.tried > 0)
            .collect();
        // the sort is stable, so that newer failures come first among those with as many retries
        flaky.sort_by_key(|flaky| std::cmp::Reverse(flaky.helped.tried));
        flaky.truncate(most);
        flaky
    }
}

impl RetryAfter {
    /// Classifies a verdict; `None` if a retry after it shows nothing about the failure.
    fn of(verdict: &Verdict) -> Option<Self> {
        match verdict.action {
            Action::AsIs => Some(Self::AsIs),
            Action::No if !verdict.outlook.proven => Some(Self::NoByLog),
            _ => None,
        }
    }
}

/// Identifies key and signature, without the branch: the same failure on another branch counts as the same.
fn name(key: &Key, signature: &Signature) -> FailureId {
    let what = Key { git_ref: String::new(), owner: String::new(), ..key.clone() };
    (format!("{}\0{}\0{}", what.project, what.stack, what.describe()), signature.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::test_verdict;

    fn failed(attempt: &str, line: &str) -> Verdict {
        let mut verdict = test_verdict(attempt, Some(line));
        verdict.outlook.signature.as_mut().unwrap().id = "0123456789abcdef".into();
        verdict
    }

    fn line(seen: &KnownFailures) -> Option<&str> {
        seen.entries.values().next().map(|entry| entry.signature.line.as_str())
    }

    #[test]
    fn a_line_lasts_while_any_verdict_keeps_it() {
        let (mut seen, key) = (KnownFailures::new(10), Key::default());
        for attempt in ["a", "b"] {
            seen.learn(&key, &failed(attempt, "make: *** Error 2"));
        }
        seen.drop_lines(&[failed("a", "")]);
        assert_eq!(line(&seen), Some("make: *** Error 2"));
        seen.drop_lines(&[failed("b", "")]);
        assert_eq!(line(&seen), Some(""));
        let signature = failed("c", "").outlook.signature.unwrap();
        assert_eq!(seen.failures_of(&key, &signature).count(), 2);
        seen.learn(&key, &failed("c", "make: *** Error 2"));
        assert_eq!(line(&seen), Some("make: *** Error 2"));
    }

    #[test]
    fn verdict_order_does_not_change_known_failures() {
        let verdict = |n: u64| {
            let mut verdict = failed(&format!("a{n}"), &format!("line {n}"));
            verdict.given_unix_ms = Some(1000 + n / 3);
            let signature = verdict.outlook.signature.as_mut().unwrap();
            signature.id =
                if n.is_multiple_of(10) { format!("seldom {}", n / 10 % 7) } else { "often".to_owned() };
            if n.is_multiple_of(4) {
                signature.clear_lines();
            }
            verdict
        };
        let key = |n: u64| Key { package: format!("p{}", n % 3), ..Key::default() };
        let seen = |step: u64| {
            let mut seen = KnownFailures::new(120);
            (0..500).map(|n| n * step % 500).for_each(|n| seen.learn(&key(n), &verdict(n)));
            let all = seen.newest().map(|record| {
                let attempts: Vec<String> = record.attempts().map(ToString::to_string).collect();
                (record.key.package.clone(), record.signature.clone(), attempts)
            });
            all.collect::<Vec<_>>()
        };
        let expected = seen(1);
        assert_eq!(expected.iter().map(|(_, _, attempts)| attempts.len()).sum::<usize>(), 120);
        assert!(expected.iter().any(|(_, _, attempts)| attempts.len() == PER_SIGNATURE));
        for step in [499, 7, 173] {
            assert_eq!(seen(step), expected, "step {step}");
        }
    }

    #[test]
    fn an_unlearnt_attempt_leaves_no_failures() {
        let (mut seen, key) = (KnownFailures::new(10), Key::default());
        let signature = failed("a", "").outlook.signature.unwrap();
        for attempt in ["a", "b"] {
            seen.learn(&key, &failed(attempt, "make: *** Error 2"));
        }
        let id = |id: &str| AttemptId::parse(id).unwrap();
        seen.unlearn(&id("a"), None);
        assert_eq!(seen.failures_of(&key, &signature).count(), 1);
        seen.unlearn(&id("b"), None);
        assert!(seen.entries.is_empty() && seen.oldest_first.is_empty());
    }
}
