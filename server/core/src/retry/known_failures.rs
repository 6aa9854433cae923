//! Failures seen before: for each key and signature, which attempts failed, and whether an unchanged retry passed.
//!
//! Only the newest failures of each key and signature are kept, and only the newest keys and signatures. A forgotten failure costs at most
//! one unnecessary retry.

use std::collections::{HashMap, HashSet, VecDeque};

use super::lineage;
use crate::domain::{Action, AttemptId, Cause, History, Key, Outcome, Signature, Verdict};

/// Most failures kept for one key and signature; the oldest are dropped.
const PER_SIGNATURE: usize = 32;
/// Most failures examined for statistics, newest first: this takes a few milliseconds.
const MAX_EXAMINED: usize = 1000;

/// Failures that earlier verdicts recorded.
#[derive(Debug)]
pub struct KnownFailures {
    capacity: usize,
    oldest_first: VecDeque<FailureId>,
    entries: HashMap<FailureId, FailureRecord>,
}

/// The failures of one key with one signature.
#[derive(Debug)]
pub(super) struct FailureRecord {
    pub(super) key: Key,
    pub(super) signature: Signature,
    failures: VecDeque<FailedAttempt>,
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
    pub(super) fn attempts(&self) -> impl Iterator<Item = &AttemptId> {
        self.failures.iter().map(|failure| &failure.attempt)
    }
}

type FailureId = (String, String);

/// The failure of one attempt.
#[derive(Debug, Clone)]
struct FailedAttempt {
    attempt: AttemptId,
    /// Where the failure counts as repeated: the commit, else pipeline and job.
    repeat_scope: Option<String>,
    /// Which verdict a retry would follow; `None` if a retry shows nothing about the failure, because its size changed, or because better
    /// evidence than a log proved the cause.
    retry_after: Option<RetryAfter>,
    /// Whether the verdict still has the log line that the signature was computed from.
    has_line: bool,
}

/// The verdict after which the attempt may have been retried unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetryAfter {
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
    /// An empty set for at most `capacity` pairs of key and signature (at least 1).
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), oldest_first: VecDeque::new(), entries: HashMap::new() }
    }

    /// Records a verdict on an attempt of `key`. A second verdict on the same attempt changes nothing.
    pub fn learn(&mut self, key: &Key, verdict: &Verdict) {
        let Some(signature) = &verdict.outlook.signature else { return };
        let name = name(key, signature);
        if !self.entries.contains_key(&name) {
            while self.oldest_first.len() >= self.capacity
                && let Some(oldest) = self.oldest_first.pop_front()
            {
                self.entries.remove(&oldest);
            }
            self.oldest_first.push_back(name.clone());
        }
        let entry = self.entries.entry(name).or_insert_with(|| FailureRecord {
            key: key.clone(),
            signature: signature.clone(),
            failures: VecDeque::new(),
        });
        if entry.signature.line.is_empty() {
            entry.signature.clone_from(signature);
        }
        let list = &mut entry.failures;
        if list.iter().any(|failure| failure.attempt == verdict.attempt) {
            return;
        }
        if list.len() >= PER_SIGNATURE {
            list.pop_front();
        }
        let (attempt, retry) = (verdict.attempt.clone(), RetryAfter::of(verdict));
        let has_line = !signature.line.is_empty();
        list.push_back(FailedAttempt {
            attempt,
            repeat_scope: lineage::repeat_scope(key),
            retry_after: retry,
            has_line,
        });
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
                failure.has_line &= !lost.contains(&(signature.id.as_str(), &failure.attempt));
            }
            if !failures.iter().any(|failure| failure.has_line) {
                signature.clear_lines();
            }
        }
    }

    /// Removes the failure of an attempt, if it is of this project (`None`: of any project).
    pub fn unlearn(&mut self, attempt: &AttemptId, project: Option<&str>) {
        self.entries
            .values_mut()
            .filter(|entry| project.is_none_or(|project| entry.key.project == project))
            .for_each(|entry| entry.failures.retain(|failure| failure.attempt != *attempt));
        let empty = |entry: &FailureRecord| entry.failures.is_empty();
        if self.entries.values().any(empty) {
            self.entries.retain(|_name, entry| !empty(entry));
            let Self { oldest_first: order, entries, .. } = self;
            order.retain(|name| entries.contains_key(name));
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
        let others = self.failures_of(key, signature).filter(|failure| failure.attempt != *attempt);
        let same = others.filter(|failure| {
            (place.is_some() && failure.repeat_scope == place) || earlier.contains(&failure.attempt)
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
            let Some(retry) = history.retried_by(&failure.attempt, key) else { continue };
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

    fn failures_of(&self, key: &Key, signature: &Signature) -> impl Iterator<Item = &FailedAttempt> {
        self.entries.get(&name(key, signature)).into_iter().flat_map(|entry| &entry.failures)
    }

    /// All failures, newest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = &FailureRecord> {
        self.oldest_first.iter().rev().filter_map(|name| self.entries.get(name))
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
    fn a_line_stays_as_long_as_a_verdict_has_it_and_the_failure_stays_without_it() {
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
    fn nothing_is_left_of_an_attempt_that_is_unlearnt() {
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
