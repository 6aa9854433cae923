//! Groups of equal failures: their signature, their number, their packages, and the cost of their retries.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use crate::domain::{AttemptBrief, AttemptId, Cause, History, Outcome, Signature};
use crate::retry::known::known_failures::{FailureRecord, KnownFailures};

/// Most failures that one answer examines, newest first: this takes a few milliseconds.
const MAX_EXAMINED: usize = 1000;
/// Most packages listed for one group.
const MAX_PACKAGES: usize = 10;

/// Failures in one project with the same signature and cause.
#[derive(Debug, Clone, PartialEq)]
pub struct FailureGroup {
    /// Project of the attempts; empty for none.
    pub project: String,
    /// The cause of these failures.
    pub cause: Cause,
    /// The signature of these failures.
    pub signature: Signature,
    /// Number of attempts that failed like this.
    pub attempts: u64,
    /// Packages of the attempts, those with most attempts first; at most 10.
    pub packages: Vec<String>,
    /// Number of packages, including those not listed.
    pub packages_total: u64,
    /// The attempt of the group that ended last.
    pub newest: AttemptId,
    /// End of `newest`, milliseconds since 1970.
    pub ended_unix_ms: u64,
    /// Number of retries of the group's attempts that have ended.
    pub retried: u64,
    /// Number of attempts in `retried` that passed.
    pub passed: u64,
    /// Memory that the retries requested, multiplied by their duration, GiB x h; a retry without a request counts as 0.
    pub retries_gib_h: f64,
    /// Wall time of the retries, hours.
    pub retries_h: f64,
}

/// Counts for one group while failures are added.
struct GroupCount {
    group: FailureGroup,
    packages: BTreeMap<String, u64>,
}

impl KnownFailures {
    /// The attempts of this project (of any if empty) that are known by a signature.
    pub fn attempts_with(&self, signature: &str, project: &str) -> HashSet<AttemptId> {
        let is_it = |record: &&FailureRecord| {
            record.signature.id == signature && (project.is_empty() || record.key.project == project)
        };
        self.newest().filter(is_it).flat_map(FailureRecord::attempts).cloned().collect()
    }

    /// Groups of the failures for which `takes` returns true, most attempts first, at most `most`. Failures of attempts that are no longer
    /// in the history are skipped.
    pub fn failure_groups(
        &self,
        history: &History,
        takes: impl Fn(&AttemptBrief) -> bool,
        most: usize,
    ) -> Vec<FailureGroup> {
        let mut groups: HashMap<(String, Cause, String), GroupCount> = HashMap::new();
        for record in self.newest().take(MAX_EXAMINED) {
            // a verdict given for another project does not apply to the attempt with this ID
            let is_own = |failed: &&Arc<AttemptBrief>| failed.key.project == record.key.project;
            let failures = record.attempts().filter_map(|attempt| history.get(attempt)).filter(is_own);
            for failed in failures.filter(|failed| takes(failed)) {
                let cause = failed.cause.unwrap_or(Cause::Unknown);
                let name = (record.key.project.clone(), cause, record.signature.id.clone());
                let count = groups.entry(name).or_insert_with(|| GroupCount::new(record, cause, failed));
                count.add(record, failed, history);
            }
        }
        let mut groups: Vec<FailureGroup> = groups.into_values().map(GroupCount::finish).collect();
        groups.sort_by(|one, other| {
            let place = |group: &FailureGroup| (group.attempts, group.ended_unix_ms);
            let name = |group: &FailureGroup| (group.project.clone(), group.cause as u8);
            let rest = || name(one).cmp(&name(other));
            place(other)
                .cmp(&place(one))
                .then_with(|| one.signature.id.cmp(&other.signature.id))
                .then_with(rest)
        });
        groups.truncate(most);
        groups
    }
}

impl GroupCount {
    fn new(record: &FailureRecord, cause: Cause, failed: &AttemptBrief) -> Self {
        let group = FailureGroup {
            project: record.key.project.clone(),
            cause,
            signature: record.signature.clone(),
            attempts: 0,
            packages: Vec::new(),
            packages_total: 0,
            newest: failed.attempt.clone(),
            ended_unix_ms: 0,
            retried: 0,
            passed: 0,
            retries_gib_h: 0.0,
            retries_h: 0.0,
        };
        Self { group, packages: BTreeMap::new() }
    }

    fn add(&mut self, record: &FailureRecord, failed: &AttemptBrief, history: &History) {
        let Self { group, packages } = self;
        group.attempts += 1;
        *packages.entry(record.key.package.clone()).or_default() += 1;
        if failed.position() >= (group.ended_unix_ms, &group.newest) {
            (group.newest, group.ended_unix_ms) = (failed.attempt.clone(), failed.ended_unix_ms());
        }
        if group.signature.first.is_empty() {
            group.signature.clone_from(&record.signature);
        }
        let Some(retry) = history.retried_by(&failed.attempt, &record.key) else { return };
        group.retried += 1;
        group.passed += u64::from(retry.outcome == Outcome::Succeeded);
        group.retries_h += retry.wall.hours();
        group.retries_gib_h += retry.memory_asked().map_or(0.0, |asked| asked.gib_hours(retry.wall));
    }

    fn finish(self) -> FailureGroup {
        let Self { mut group, packages } = self;
        group.packages_total = packages.len() as u64;
        let mut packages: Vec<(String, u64)> = packages.into_iter().collect();
        packages.sort_by_key(|(_, attempts)| std::cmp::Reverse(*attempts));
        group.packages = packages.into_iter().take(MAX_PACKAGES).map(|(package, _)| package).collect();
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        Action, Bytes, Key, Millis, Resources, Summary, Verdict, test_summary, test_verdict,
    };

    fn failed(id: &str, package: &str) -> Summary {
        Summary {
            outcome: Outcome::Failed,
            cause: Some(Cause::Deterministic),
            wall: Millis(60_000),
            ..test_summary(id, package, "1", 100)
        }
    }

    fn verdict(of: &Summary, line: &str) -> Verdict {
        let (action, cause) = (Action::No, Cause::Deterministic);
        Verdict { action, cause, confidence: 0.8, ..test_verdict(of.attempt.as_str(), Some(line)) }
    }

    #[test]
    fn equal_failure_lines_form_one_costed_group() {
        let (mut seen, mut history) = (KnownFailures::new(10), History::new(100));
        for (id, package, line) in
            [("a", "zlib", "x.c: error"), ("b", "hdf5", "x.c: error"), ("c", "zlib", "disk")]
        {
            let summary = failed(id, package);
            seen.learn(&summary.key, &verdict(&summary, line));
            history.learn(Arc::new(summary));
        }
        let resources = Resources { memory_request: Some(Bytes::GIB), ..Resources::default() };
        let retry = test_summary("a2", "zlib", "1", 100);
        let retry = Summary {
            retries: failed("a", "zlib").attempt.into(),
            number: 2,
            wall: Millis(3_600_000),
            resources,
            ..retry
        };
        history.learn(Arc::new(retry));
        let all = seen.failure_groups(&history, |_| true, 10);
        let [first, second] = &all[..] else { panic!("{all:?}") };
        assert_eq!(first.signature.first.as_str(), "x.c: error");
        assert_eq!(first.attempts, 2);
        assert_eq!(first.packages_total, 2);
        assert_eq!(first.packages, ["hdf5", "zlib"]);
        assert_eq!((first.retried, first.passed, first.cause), (1, 1, Cause::Deterministic));
        assert!((first.retries_gib_h - 1.0).abs() < 1e-9, "{first:?}");
        assert!((first.retries_h - 1.0).abs() < 1e-9, "{first:?}");
        assert_eq!((second.attempts, second.retried), (1, 0));
        let stranger = Key { project: "of/others".to_owned(), ..failed("a", "zlib").key };
        seen.learn(&stranger, &verdict(&failed("a", "zlib"), "forged"));
        let groups = seen.failure_groups(&history, |_| true, 10);
        assert_eq!(groups, all, "a verdict of another project says nothing of it");
        let zlib = seen.failure_groups(&history, |brief| brief.key.package == "zlib", 1);
        assert_eq!((zlib.len(), zlib[0].attempts), (1, 1));
    }
}
