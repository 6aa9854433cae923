//! The verdicts that were given on one attempt, as the next question about it sees them: what was said in earlier questions, which
//! verdict is in force, and whether anything new is known.
//!
//! | who asks | what counts of what was said before |
//! |---|---|
//! | a trusted caller | what trusted callers said; of a job that spoke of itself, how it ended and its log |
//! | a job about itself | all of it |
//! | any caller about an attempt that was not measured, who does not see all projects | what was said in the name of his project |
//!
//! The verdict that was given last is in force: it stands on all that was known then.

use super::{Ingest, Refusal, stage::unreadable};
use crate::{
    domain::{AttemptId, Fnv, ReportedEvidence, Summary, Verdict},
    retry,
    store::{self, Store},
};

/// Verdicts that are kept of one attempt: each stands on more evidence than the one before it. All of them take 256 KiB to 1 MiB.
pub(super) const VERDICTS: usize = 64;

/// Who asks for a verdict, as far as it matters to what is joined with his question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asker {
    /// What he says counts.
    pub(crate) is_trusted: bool,
    /// He sees the attempts of all projects.
    pub(crate) sees_all: bool,
    /// He may read lines of the log that others sent.
    pub(crate) reads_logs: bool,
}

impl Asker {
    /// The CI system, or the server itself.
    pub(crate) const TRUSTED: Self = Self { is_trusted: true, sees_all: true, reads_logs: true };
    /// Nothing that others said counts for him.
    pub(super) const STRANGER: Self = Self { is_trusted: false, sees_all: false, reads_logs: false };
}

/// Verdicts on one attempt, the one that was given last at the end.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownVerdicts {
    given: Vec<Verdict>,
    /// Verdicts that are stored, also those that the asker does not get to know.
    pub(super) stored: usize,
    /// When the last of them was given, milliseconds since 1970.
    last_unix_ms: u64,
    is_trusted: bool,
    /// The stored answer of an earlier release to the very question.
    answered_before: Option<Verdict>,
}

impl KnownVerdicts {
    /// What somebody who asks about an attempt gets to know. `project` is that of the attempt, or of his question if nothing was
    /// measured.
    pub(super) async fn read(
        store: &Store,
        attempt: &AttemptId,
        asker: Asker,
        (project, is_measured): (&str, bool),
    ) -> Result<Self, Refusal> {
        let mut given = in_order(store, attempt).await?;
        let (stored, last) = (given.len(), given.last().and_then(|last| last.given_unix_ms));
        let last_unix_ms = last.unwrap_or(0);
        let is_his = |verdict: &Verdict| {
            let is_same = verdict.basis.reported.project == project;
            is_same || (is_of(verdict, project) && (is_measured || asker.sees_all))
        };
        given.retain(is_his);
        Ok(Self { given, stored, last_unix_ms, is_trusted: asker.is_trusted, answered_before: None })
    }

    /// All of these on an attempt of this project that was measured; empty if that is not known.
    pub(super) fn of(mut given: Vec<Verdict>, asker: Asker, project: &str) -> Self {
        given.retain(|verdict| is_of(verdict, project));
        given.sort_by_key(|verdict| verdict.given_unix_ms);
        Self { stored: given.len(), given, is_trusted: asker.is_trusted, ..Self::default() }
    }

    /// With the answer of an earlier release to the question of this number.
    pub(super) async fn with_answer(
        mut self,
        store: &Store,
        attempt: &AttemptId,
        question: u64,
    ) -> Result<Self, Refusal> {
        let is_new = |verdict: &Verdict| verdict.basis.evidence.is_some();
        if self.given.last().is_some_and(|last| !is_new(last)) {
            let stored = store::read_verdict(store, attempt, question).await;
            self.answered_before =
                stored.map_err(|error| unreadable(&error))?.filter(|stored| !is_new(stored));
        }
        Ok(self)
    }

    /// The one that is in force.
    pub(super) fn in_force(&self) -> Option<&Verdict> {
        self.given.last()
    }

    /// Whether this very question was asked before: then it says nothing new.
    pub(super) fn was_asked(&self, question: u64) -> bool {
        let before =
            |verdict: &Verdict| verdict.basis.question == Some(question) && self.counts_whole(verdict);
        self.answered_before.is_some() || self.given.iter().any(before)
    }

    /// All that was said.
    pub(super) fn reported(&self) -> ReportedEvidence {
        let mut all = ReportedEvidence::default();
        for verdict in &self.given {
            let said = retry::recollected(verdict);
            all.join(&if self.counts_whole(verdict) { said } else { said.of_the_job_alone() });
        }
        all
    }

    fn counts_whole(&self, verdict: &Verdict) -> bool {
        !(self.is_trusted && verdict.basis.by_untrusted)
    }

    /// The verdict that stands if nothing more is known than `evidence`.
    pub(super) fn standing(&self, evidence: u64) -> Option<&Verdict> {
        let last = self.in_force()?;
        // an earlier release did not note what it knew: its answer stands for the question that it answered
        let stands = || self.answered_before.as_ref() == Some(last) && self.last_knows_all();
        (last.basis.evidence == Some(evidence) || stands()).then_some(last)
    }

    /// The verdict that is in force was given on all that was said, also before it. In an earlier release that need not be so.
    pub(super) fn last_knows_all(&self) -> bool {
        let Some(last) = self.in_force().map(retry::recollected) else { return true };
        let mut all = last.clone();
        all.join(&self.reported());
        all == last
    }

    /// Milliseconds since 1970 for a verdict that is given `now`: later than all before it.
    pub(super) fn next_time(&self, now: u64) -> u64 {
        now.max(self.last_unix_ms.saturating_add(1))
    }
}

/// Verdicts on an attempt, the one that was given last at the end. Those of the first releases have no time and come first.
async fn in_order(store: &Store, attempt: &AttemptId) -> Result<Vec<Verdict>, Refusal> {
    let given = store::read_verdicts(store, attempt, VERDICTS).await;
    let mut given = given.map_err(|error| unreadable(&error))?;
    given.sort_by_key(|verdict| verdict.given_unix_ms);
    Ok(given)
}

/// Nothing shows that a verdict was asked for in the name of another project than that of the attempt: one of both may be unknown.
fn is_of(verdict: &Verdict, project: &str) -> bool {
    let said = &verdict.basis.reported.project;
    said.is_empty() || project.is_empty() || said == project
}

/// The number of all that is known of an attempt, the same in every release: what was said, and what was measured as far as it can
/// say why it failed. Of an attempt that is running it does not change with each sample.
pub(super) fn evidence_number(reported: &ReportedEvidence, measured: Option<(&Summary, bool)>) -> u64 {
    let said = ReportedEvidence { project: String::new(), ..reported.without_log_lines() };
    // a record of our own types is always written
    let said = serde_json::to_string(&said).unwrap_or_default();
    let mut number = Fnv::default().with_part(&said);
    match measured {
        None => {}
        Some((_, true)) => number = number.with_part("running"),
        Some((summary, false)) => {
            let Summary { outcome, exit, oom_kill, oom_origin, reclaim_failures, .. } = summary;
            let Summary { starved, starved_at_end, throttled, wall, need_peak, memory_peak, .. } = summary;
            let known = format!(
                "{outcome:?} {exit:?} {oom_kill:?} {oom_origin:?} {reclaim_failures:?} {starved:?} {starved_at_end:?} \
                 {throttled:?} {wall:?} {need_peak:?} {memory_peak:?} {:?} {}",
                summary.resources.memory_limit, summary.ci_reason,
            );
            number = number.with_part(&known);
        }
    }
    number.value()
}

impl Ingest {
    /// All verdicts on an attempt of this project, the one in force first; empty if there are none. Those that were asked for in the name
    /// of another project are not among them. With an empty project, all are.
    pub(crate) async fn verdicts(&self, id: &AttemptId, project: &str) -> Result<Vec<Verdict>, Refusal> {
        let mut given = in_order(&self.parts.store, id).await?;
        given.retain(|verdict| is_of(verdict, project));
        given.reverse();
        Ok(given)
    }
}
