//! Finds earlier attempts of a job in what is known already, without a call to the CI system.
//!
//! | source | finds |
//! |---|---|
//! | [`History::before`] | earlier attempts, by the retry that agents name and by their jobs |
//! | the CI system's list of the job's runs | earlier runs, also those without an agent |
//!
//! The higher count of the two is used. A number from the caller (GitLab's `retries_count`, which counts differently) is used only if
//! neither finds anything.

use std::borrow::Cow;

use plimsoll_proto::job::JobExecution;

use crate::domain::{AttemptBrief, AttemptId, Evidence, Hints, History, Key, ListedRun};

/// GitLab's statuses of a run that has not started or not ended.
const NOT_RUN_STATUSES: [&str; 10] = [
    "created",
    "pending",
    "preparing",
    "waiting_for_resource",
    "waiting_for_callback",
    "scheduled",
    "manual",
    "skipped",
    "running",
    "canceling",
];

/// The attempts of a job before a given one.
#[derive(Debug)]
pub(in crate::retry) struct EarlierAttempts<'h> {
    /// Earlier attempts of the same job: those linked by retries first.
    pub(in crate::retry) earlier: Vec<&'h AttemptBrief>,
    /// Number of earlier runs of the job in the CI system's list; `None` if the list does not show which job it is.
    listed: Option<usize>,
}

/// Finds the attempts before the one that the evidence is about.
pub(in crate::retry) fn of<'h>(evidence: &Evidence, history: &'h History) -> EarlierAttempts<'h> {
    let earlier = history.attempts_before(&evidence.into()).into_iter().map(|brief| &**brief).collect();
    let key = evidence.measured.as_deref().map_or(&evidence.key, |summary| &summary.key);
    let reported = evidence.reported.runs_before.and_then(|runs| usize::try_from(runs).ok());
    EarlierAttempts { earlier, listed: listed(evidence, key).max(reported) }
}

impl EarlierAttempts<'_> {
    /// The number of this attempt: one more than the known earlier ones, else the reported number.
    pub(in crate::retry) fn number(&self, evidence: &Evidence) -> u32 {
        let measured = evidence.measured.as_ref().map_or(1, |summary| summary.number);
        if self.earlier.is_empty() && self.listed.is_none() {
            return evidence.number.max(1);
        }
        let numbered = self.earlier.iter().map(|summary| summary.number).max().unwrap_or(0);
        let found = self.earlier.len().max(self.listed.unwrap_or(0));
        let before = u32::try_from(found).unwrap_or(u32::MAX).max(numbered.into());
        // the measured number is that of the agent, which reads it in the job itself
        before.saturating_add(1).max(measured)
    }

    /// Fills in the build jobs from the previous attempt, if the attempt's own are unknown: a retry is the same build, and sizes computed for
    /// another number of jobs would be wrong.
    pub(in crate::retry) fn with_build_jobs<'e>(&self, evidence: &'e Evidence) -> Cow<'e, Evidence> {
        let key = evidence.known_key();
        if key.hints.build_jobs.is_some_and(|jobs| jobs > 0) {
            return Cow::Borrowed(evidence);
        }
        let before = self.earlier.iter().map(|brief| brief.jobs).find(|jobs| *jobs > 0);
        let Some(jobs) = before else { return Cow::Borrowed(evidence) };
        let hints = Hints { build_jobs: Some(jobs.into()), ..key.hints };
        Cow::Owned(Evidence { key: Key { hints, ..key.clone() }, ..evidence.clone() })
    }

    /// Ids of the earlier attempts.
    pub(in crate::retry) fn ids(&self) -> Vec<AttemptId> {
        self.earlier.iter().map(|summary| summary.attempt.clone()).collect()
    }
}

/// Counts earlier runs of the job in the CI system's list.
pub(in crate::retry) fn listed(evidence: &Evidence, key: &Key) -> Option<usize> {
    let runs = &evidence.listed;
    let this = JobExecution::read(evidence.attempt.as_str());
    let own = runs.iter().find(|run| run.id == this.job);
    let label = key.labels.get("job").map(String::as_str).filter(|name| !name.is_empty());
    let first = runs.first().map(|run| run.name.as_str());
    let only = first.filter(|name| runs.iter().all(|run| run.name == *name));
    let name = own.map(|run| run.name.as_str()).or(label).or(only)?;
    let before = |run: &&ListedRun| match (run.id.parse::<u64>(), this.job.parse::<u64>()) {
        (Ok(run), Ok(this)) => run < this,
        // the ids are not numbers, so the creation times decide; all of them are from the CI system's clock
        _ => own.is_none_or(|own| run.created_unix_ms < own.created_unix_ms),
    };
    let tried = |run: &&ListedRun| !NOT_RUN_STATUSES.contains(&run.status.as_str());
    let mut ids: Vec<&str> = (runs.iter().filter(|run| run.name == name && run.id != this.job))
        .filter(before)
        .filter(tried)
        .map(|run| run.id.as_str())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    Some(ids.len())
}

/// Identifies within what a failure counts as repeated: one commit, else one job of one pipeline.
pub(in crate::retry) fn repeat_scope(key: &Key) -> Option<String> {
    let job = || key.job().map(|(pipeline, job)| format!("{pipeline}/{job}"));
    key.commit().map(str::to_owned).or_else(job)
}
