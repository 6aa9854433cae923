//! Which attempts of one job came before this one, without asking the CI system.
//!
//! | witness | says |
//! |---|---|
//! | what agents say they retry | the chain back to the original; attempts that retry the same original are of one job |
//! | attempts of the same key, pipeline and job | those that came earlier |
//! | the CI system's list of the runs of the job | those that came earlier, also where no agent was |
//!
//! What any of them finds counts. A job may run several commands (`HOST:JOB`, `HOST:JOB.2`), which are not retries of each other. The number of a CI job orders attempts, because it grows and no clock is in it; only
//! attempts without one are ordered by their start. A number that the caller gives (GitLab's `retries_count`, which counts
//! otherwise) is a hint, used where no witness finds anything.

use plimsoll_proto::job::Named;

use crate::domain::{AttemptId, Brief, Evidence, History, JobMark, Key, ListedRun, Rung};

/// Steps back through the attempts that an attempt retries, and most attempts that are found.
const STEPS: usize = 32;
/// Labels under which a commit is told.
const COMMIT: [&str; 3] = ["commit", "commit_sha", "sha"];
/// What GitLab says of a run that has not been tried yet, or has not ended.
const NOT_TRIED: [&str; 10] = [
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

/// What came before an attempt.
#[derive(Debug)]
pub(super) struct Lineage<'h> {
    /// Attempts of the same job before this one, those of the chain first.
    pub(super) earlier: Vec<&'h Brief>,
    /// Runs of the job before this one by the CI system's list; `None` if the list does not say which job it is.
    listed: Option<usize>,
}

/// What came before the attempt.
pub(super) fn of<'h>(evidence: &Evidence, history: &'h History) -> Lineage<'h> {
    let mut earlier = chain(evidence, history);
    let measured = evidence.measured.as_deref();
    let key = measured.map_or(&evidence.key, |summary| &summary.key);
    let (job, original) = (JobMark::of(key), measured.and_then(|summary| summary.retries.as_ref()));
    let untrusted = evidence.is_untrusted().then(|| history.untrusted_on_rung(Rung::Exact, key));
    let of_key = untrusted.into_iter().flatten().chain(history.on_rung(Rung::Exact, key));
    for summary in of_key.map(|fact| &*fact.brief) {
        let of_job = job.is_some() && summary.job == job && same_command(&summary.attempt, &evidence.attempt);
        let of_original = original.is_some() && summary.retries.as_deref() == original;
        let known = earlier.iter().any(|known| known.attempt == summary.attempt);
        if !(of_job || of_original) || known || !is_before(summary, evidence) {
            continue;
        }
        if earlier.len() >= STEPS {
            break;
        }
        earlier.push(summary);
    }
    let reported = evidence.reported.runs_before.and_then(|runs| usize::try_from(runs).ok());
    Lineage { earlier, listed: listed(evidence, key).max(reported) }
}

/// The attempts that agents say this one goes back to, newest first.
fn chain<'h>(evidence: &Evidence, history: &'h History) -> Vec<&'h Brief> {
    let mut found: Vec<&Brief> = Vec::new();
    let mut before = evidence.measured.as_deref().and_then(|summary| summary.retries.as_ref());
    for _ in 0..STEPS {
        let Some(summary) = before.and_then(|id| history.get(id)) else { break };
        if summary.untrusted && !evidence.is_untrusted() {
            break;
        }
        if found.iter().any(|known| known.attempt == summary.attempt) {
            // two attempts that say they retry each other
            break;
        }
        found.push(summary);
        before = summary.retries.as_deref();
    }
    found
}

impl Lineage<'_> {
    /// The number of this attempt: one more than those before it, as far as they are known, else what was said.
    pub(super) fn number(&self, evidence: &Evidence) -> u32 {
        let measured = evidence.measured.as_ref().map_or(1, |summary| summary.number);
        if self.earlier.is_empty() && self.listed.is_none() {
            return evidence.number.max(1);
        }
        let numbered = self.earlier.iter().map(|summary| summary.number).max().unwrap_or(0);
        let found = self.earlier.len().max(self.listed.unwrap_or(0));
        let before = u32::try_from(found).unwrap_or(u32::MAX).max(numbered);
        // the agent reads its number in the job itself
        before.saturating_add(1).max(measured)
    }

    /// Ids of the attempts that were found.
    pub(super) fn ids(&self) -> Vec<AttemptId> {
        self.earlier.iter().map(|summary| summary.attempt.clone()).collect()
    }
}

/// Runs of the job before this one.
pub(super) fn listed(evidence: &Evidence, key: &Key) -> Option<usize> {
    let runs = &evidence.listed;
    let this = Named::read(evidence.attempt.as_str());
    let own = runs.iter().find(|run| run.id == this.job);
    let label = key.labels.get("job").map(String::as_str).filter(|name| !name.is_empty());
    let first = runs.first().map(|run| run.name.as_str());
    let only = first.filter(|name| runs.iter().all(|run| run.name == *name));
    let name = own.map(|run| run.name.as_str()).or(label).or(only)?;
    let before = |run: &&ListedRun| match (run.id.parse::<u64>(), this.job.parse::<u64>()) {
        (Ok(run), Ok(this)) => run < this,
        // without numbers, the times of the list's own clock
        _ => own.is_none_or(|own| run.created_unix_ms < own.created_unix_ms),
    };
    let tried = |run: &&ListedRun| !NOT_TRIED.contains(&run.status.as_str());
    let mut ids: Vec<&str> = (runs.iter().filter(|run| run.name == name && run.id != this.job))
        .filter(before)
        .filter(tried)
        .map(|run| run.id.as_str())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    Some(ids.len())
}

/// Whether an attempt of the same job came before the one that is asked about.
fn is_before(summary: &Brief, evidence: &Evidence) -> bool {
    let (one, this) = (Named::read(summary.attempt.as_str()), Named::read(evidence.attempt.as_str()));
    if one.host == this.host
        && let (Some(job), Some(of_this)) = (one.number(), this.number())
    {
        return (job, one.tried) < (of_this, this.tried);
    }
    let started = evidence.measured.as_deref().map(|this| this.started_unix_ms);
    summary.attempt != evidence.attempt && started.is_none_or(|this| summary.started_unix_ms < this)
}

/// Whether two attempts of one job ran the same of its commands: the second command of a job is no retry of the first.
fn same_command(one: &AttemptId, other: &AttemptId) -> bool {
    Named::read(one.as_str()).command == Named::read(other.as_str()).command
}

/// Where a failure is the same failure: at one commit, else in one job of one pipeline.
pub(super) fn place(key: &Key) -> Option<String> {
    let commit = COMMIT.iter().find_map(|name| key.labels.get(*name)).filter(|commit| !commit.is_empty());
    if let Some(commit) = commit {
        return Some(commit.clone());
    }
    let is_commit = key.git_ref.len() >= 40 && key.git_ref.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit {
        return Some(key.git_ref.clone());
    }
    key.job().map(|(pipeline, job)| format!("{pipeline}/{job}"))
}
