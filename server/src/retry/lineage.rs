//! Which attempts of one job came before this one, without asking the CI system.
//!
//! Two ways, and what either of them finds counts: the chain of attempts that agents say they retry, and attempts of the same
//! key, pipeline and job that started earlier. A number that the caller gives (GitLab's `retries_count`, which counts
//! otherwise) is used where neither finds anything.

use crate::domain::{AttemptId, Brief, Evidence, History, Key, Rung};

/// Steps back through the attempts that an attempt retries.
const STEPS: usize = 32;
/// Labels under which a commit is told.
const COMMIT: [&str; 3] = ["commit", "commit_sha", "sha"];

/// Attempts of the same job before this one, newest first.
pub(super) fn earlier<'h>(evidence: &Evidence, history: &'h History) -> Vec<&'h Brief> {
    let mut found: Vec<&Brief> = Vec::new();
    let measured = evidence.measured.as_deref();
    let mut before = measured.and_then(|summary| summary.retries.as_ref());
    for _ in 0..STEPS {
        let Some(summary) = before.and_then(|id| history.get(id)) else { break };
        if found.iter().any(|known| known.attempt == summary.attempt) {
            // two attempts that say they retry each other
            break;
        }
        found.push(summary);
        before = summary.retries.as_ref();
    }
    let key = measured.map_or(&evidence.key, |summary| &summary.key);
    let Some(job) = key.job() else { return found };
    for summary in history.on_rung(Rung::Exact, key).map(|fact| &*fact.brief) {
        let known = found.iter().any(|known| known.attempt == summary.attempt);
        let later = measured.is_some_and(|this| summary.started_unix_ms >= this.started_unix_ms);
        if known || later || summary.attempt == evidence.attempt || summary.job() != Some(job) {
            continue;
        }
        if found.len() >= STEPS {
            break;
        }
        found.push(summary);
    }
    found
}

/// The number of this attempt: one more than those before it, as far as they are known, else what was said.
pub(super) fn number(evidence: &Evidence, earlier: &[&Brief]) -> u32 {
    let said = evidence.number.max(1);
    let known = earlier.iter().map(|summary| summary.number).max().unwrap_or(0);
    let counted = u32::try_from(earlier.len()).unwrap_or(u32::MAX).max(known).saturating_add(1);
    if earlier.is_empty() { said } else { counted.max(measured_number(evidence)) }
}

/// What the agent says, which reads it in the job itself.
fn measured_number(evidence: &Evidence) -> u32 {
    evidence.measured.as_ref().map_or(1, |summary| summary.number)
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

/// Ids of the attempts.
pub(super) fn ids(earlier: &[&Brief]) -> Vec<AttemptId> {
    earlier.iter().map(|summary| summary.attempt.clone()).collect()
}
