//! Selects the stored verdicts that are learnt when the server starts: verdicts in force, on
//! attempts in memory.

use std::collections::HashSet;

use plimsoll_core::domain::{AttemptId, Key, Reporter, Summary, Verdict};

use super::unmeasured::UnmeasuredVerdicts;

/// Attempts with verdicts that can be learnt, and their keys; their memory is bounded like the
/// history's. The verdicts themselves are read again once it is known which attempts are in memory.
pub(crate) struct LearnableVerdicts {
    most: usize,
    /// Attempts with a verdict that can be learnt ([`is_learnable`]), with summaries that have not been read
    /// yet.
    waiting: HashSet<AttemptId>,
    /// The newest trusted attempts with a verdict that can be learnt, with summaries that have been read: the
    /// end in milliseconds since 1970, id and key.
    pub(crate) loaded: Vec<(u64, AttemptId, Key)>,
    pub(crate) unmeasured: UnmeasuredVerdicts,
}

impl LearnableVerdicts {
    pub(crate) fn of(most: usize) -> Self {
        Self { most, waiting: HashSet::new(), loaded: Vec::new(), unmeasured: UnmeasuredVerdicts::default() }
    }

    pub(crate) fn note_verdict(&mut self, verdict: &Verdict) {
        self.unmeasured.note_verdict(verdict);
        if is_learnable(verdict) && !self.waiting.contains(&verdict.attempt) {
            self.waiting.insert(verdict.attempt.clone());
        }
    }

    pub(crate) fn note_summary(&mut self, summary: &Summary) {
        self.unmeasured.note_measured(&summary.attempt);
        let waited = !self.waiting.is_empty() && self.waiting.remove(&summary.attempt);
        if waited && !summary.opening.untrusted {
            self.loaded.push((summary.ended_unix_ms(), summary.attempt.clone(), summary.key.clone()));
        }
        // older attempts are not in the history, so they are removed
        if self.loaded.len() >= self.most.saturating_mul(2).saturating_add(1024) {
            self.loaded
                .select_nth_unstable_by(self.most, |one, other| (other.0, &other.1).cmp(&(one.0, &one.1)));
            self.loaded.truncate(self.most);
        }
    }
}

/// Whether a verdict can be learnt: only failures with a signature can be recognized again.
pub(crate) const fn is_learnable(verdict: &Verdict) -> bool {
    verdict.outlook.signature.is_some()
}

/// Selects the verdicts in force from all verdicts ordered by attempt, and passes them to `take`,
/// with whether the verdict is the only one on its attempt. For an attempt of unknown project, one
/// verdict is in force for each project. The verdicts on one attempt are passed in the order of
/// their time.
pub(crate) struct VerdictsInForce<F: FnMut(Verdict, bool)> {
    /// Groups the verdicts on an attempt: the last one of each group is in force.
    of: fn(&Verdict) -> AskedBy,
    /// The verdicts on the attempt read last, one for each group.
    last: Vec<Verdict>,
    take: F,
}

/// The project for which a verdict was asked and its reporter; `None` where it does not matter.
type AskedBy = (Option<String>, Option<Reporter>);

impl<F: FnMut(Verdict, bool)> VerdictsInForce<F> {
    /// Selects with one verdict in force for each attempt and project.
    pub(crate) fn of_projects(take: F) -> Self {
        Self { of: |verdict| (Some(verdict.basis.reported.project.clone()), None), last: Vec::new(), take }
    }

    /// Selects with one verdict in force for each attempt, project and reporter.
    pub(crate) fn of_askers(take: F) -> Self {
        let of = |verdict: &Verdict| {
            let basis = &verdict.basis;
            (Some(basis.reported.project.clone()), Some(basis.reported_by.clone()))
        };
        Self { of, last: Vec::new(), take }
    }

    /// Selects with one verdict in force for each attempt.
    pub(crate) fn new(take: F) -> Self {
        Self { of: |_verdict| AskedBy::default(), last: Vec::new(), take }
    }

    pub(crate) fn push(&mut self, verdict: Verdict) {
        if self.last.first().is_some_and(|last| last.attempt != verdict.attempt) {
            self.hand_on_verdicts();
        }
        let of = (self.of)(&verdict);
        match self.last.iter().position(|last| (self.of)(last) == of).and_then(|at| self.last.get_mut(at)) {
            Some(last) if verdict.given_unix_ms >= last.given_unix_ms => *last = verdict,
            Some(_later) => {}
            None => self.last.push(verdict),
        }
    }

    /// Hands on the collected verdicts of one attempt, oldest first.
    pub(crate) fn hand_on_verdicts(&mut self) {
        let is_only = self.last.len() == 1;
        self.last.sort_by_key(|verdict| verdict.given_unix_ms);
        for last in std::mem::take(&mut self.last) {
            (self.take)(last, is_only);
        }
    }

    pub(crate) fn finish(mut self) {
        self.hand_on_verdicts();
    }
}
