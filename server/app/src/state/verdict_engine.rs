//! State of verdicts besides the history, shared: rules and terms, which may change while the server runs, and the failures of earlier
//! verdicts.
//!
//! Rules and terms are reloaded after a change of a file, and at SIGHUP. All files are read and checked before any is used: an invalid one
//! is logged, and everything in force stays in force.

mod read;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use plimsoll_core::{
    domain::{AttemptBrief, AttemptId, Evidence, History, Key, ReportedEvidence, Verdict},
    predict,
    retry::{
        self, Corrections, FailureGroup, Finding, FlakyFailure, KnownFailures, LogRules, RetryPolicy,
        VerdictInputs, WrongVerdicts,
    },
    shared_history::SharedHistory,
};
use tokio_util::sync::CancellationToken;

use crate::runtime::{
    clock::Clock,
    metrics::{Metrics, OfRule},
    reload,
    reload::{Kept, Stamp},
};
use read::stamps;
pub(crate) use read::{rule_files, rules};

/// Name of the files, for people.
const WHAT: &str = "rules and retry policy";

/// Capacity for failures, each a key with a signature: about 40 MB.
const FAILURES: usize = 50_000;

/// Capacity for corrections, those of some years: about 10 MB.
const CORRECTIONS: usize = 10_000;

/// Where rules and terms are read from.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    /// Directory with rules of the operator.
    pub(crate) rules_dir: Option<PathBuf>,
    /// File with the terms of retries; without one the terms of `policy` stay.
    pub(crate) policy_file: Option<PathBuf>,
    /// Settings apart from the terms.
    pub(crate) policy: RetryPolicy,
}

/// The rules and terms in force; they change together.
#[derive(Debug)]
struct InForce {
    rules: Arc<LogRules>,
    policy: RetryPolicy,
}

/// A handle to the state of verdicts.
#[derive(Debug, Clone)]
pub(crate) struct VerdictEngine(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sources: Sources,
    /// The files' state is `None` if one of them could not be read.
    kept: Kept<InForce, Option<Vec<Stamp>>>,
    seen: Mutex<KnownFailures>,
    corrections: Mutex<Corrections>,
    metrics: Arc<Metrics>,
}

impl VerdictEngine {
    /// Reads the files, in addition to the built-in rules.
    ///
    /// # Errors
    /// A directory or a file cannot be read, or is invalid: names all errors.
    pub(crate) fn open(sources: Sources, metrics: Arc<Metrics>) -> anyhow::Result<Self> {
        let stamps = stamps(&sources)?;
        let kept = Kept::new(WHAT, InForce::read(&sources)?, Some(stamps));
        let seen = Mutex::new(KnownFailures::new(FAILURES));
        let corrections = Mutex::new(Corrections::new(CORRECTIONS));
        Ok(Self(Arc::new(Shared { sources, kept, seen, corrections, metrics })))
    }

    /// The verdict on an ended attempt. Reads a log line by line: not for a thread that serves others.
    pub(crate) fn judge(
        &self,
        evidence: &Evidence,
        history: &SharedHistory,
        settings: &predict::Settings,
    ) -> Verdict {
        let in_force = self.0.kept.now();
        let InForce { rules, policy } = &*in_force;
        // slow work is done before any lock is taken, because learning and predicting would wait
        let finding = self.corrected(evidence, retry::classify(evidence, rules));
        history.read(|history| {
            let seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
            retry::judge(evidence, finding, &VerdictInputs { history, seen: &seen, settings, policy })
        })
    }

    /// A caller's report, with its log matched by the rules in force. Takes as long as a verdict.
    pub(crate) fn reported(&self, asked: &Evidence) -> ReportedEvidence {
        retry::reported(asked, &self.0.kept.now().rules)
    }

    /// Classifies a failure. Fast, if there is no log to read.
    pub(crate) fn classify(&self, evidence: &Evidence) -> Finding {
        self.corrected(evidence, retry::classify(evidence, &self.0.kept.now().rules))
    }

    /// Applies the correction of this attempt, else of its signature, to a finding.
    fn corrected(&self, evidence: &Evidence, finding: Finding) -> Finding {
        if let Some(correction) = evidence.correction.as_deref().filter(|one| !one.undone) {
            return finding.corrected(correction.cause, correction.says());
        }
        self.corrections().apply(&evidence.key.project, &evidence.attempt, finding, Clock.now_unix_ms())
    }

    /// Records the correction in a stored verdict, if it has one.
    pub(crate) fn note_correction(&self, verdict: &Verdict) {
        if verdict.basis.correction.is_some() {
            let mut corrections = self.corrections();
            corrections.note(verdict);
            self.count_wrong(&corrections);
        }
    }

    /// Records the correction in a verdict that was read at the start; call [`Self::count_corrections`] after the last.
    pub(crate) fn recall_correction(&self, verdict: &Verdict) {
        self.corrections().note(verdict);
    }

    /// Counts which rules were wrong.
    pub(crate) fn count_corrections(&self) {
        self.count_wrong(&self.corrections());
    }

    /// Which rules were wrong how often, in the projects for which `sees` is true: most often first.
    pub(crate) fn wrong_verdicts(&self, sees: impl Fn(&str) -> bool) -> Vec<WrongVerdicts> {
        self.corrections().wrong_verdicts(sees)
    }

    /// Removes the correction of a deleted attempt.
    pub(crate) fn forget_correction(&self, attempt: &AttemptId) {
        let mut corrections = self.corrections();
        if corrections.forget(attempt) {
            self.count_wrong(&corrections);
        }
    }

    fn count_wrong(&self, corrections: &Corrections) {
        let wrong = &self.0.metrics.verdicts_wrong;
        wrong.clear();
        for WrongVerdicts { rule, count, .. } in corrections.wrong_verdicts(|_project| true) {
            wrong.get_or_create(&OfRule { rule }).inc_by(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    fn corrections(&self) -> std::sync::MutexGuard<'_, Corrections> {
        self.0.corrections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Failures with ended retries, most retries first.
    pub(crate) fn flaky(&self, history: &History, most: usize) -> Vec<FlakyFailure> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).flaky(history, most)
    }

    /// Groups of equal failures for which `takes` returns true, most attempts first.
    pub(crate) fn failure_groups(
        &self,
        history: &History,
        takes: impl Fn(&AttemptBrief) -> bool,
        most: usize,
    ) -> Vec<FailureGroup> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).groups(history, takes, most)
    }

    /// Learns a verdict that is on disk.
    pub(crate) fn learn(&self, key: &Key, verdict: &Verdict) {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).learn(key, verdict);
    }

    /// Clears the lines of these verdicts, whose log lines were removed.
    pub(crate) fn drop_lines(&self, verdicts: &[Verdict]) {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).drop_lines(verdicts);
    }

    /// Unlearns the verdicts on an attempt that were given in the name of this project.
    pub(crate) fn unlearn_of(&self, attempt: &AttemptId, project: &str) {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).unlearn(attempt, Some(project));
    }

    /// Unlearns the verdicts on an attempt.
    pub(crate) fn unlearn(&self, attempt: &AttemptId) {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).unlearn(attempt, None);
    }

    /// Applies changed rules and terms until `end`, and reloads all at each SIGHUP.
    ///
    /// # Errors
    /// The signal handler cannot be installed.
    pub(crate) async fn watch(self, end: CancellationToken) -> anyhow::Result<()> {
        reload::watch(WHAT, end, move |asked| self.reload_if_changed(asked)).await
    }

    /// Reloads everything if a file has changed, or if a reload was requested.
    fn reload_if_changed(&self, asked: bool) {
        let Shared { sources, kept, metrics, .. } = &*self.0;
        let stamps = |_before: &_| stamps(sources).ok();
        let taken =
            kept.reload_if_changed(asked, stamps, |_now| InForce::read(sources), &metrics.rules_reloads);
        metrics.rules_refused.set(i64::from(kept.is_refused()));
        if let Some(taken) = taken {
            let (rules, terms) = (taken.rules.len(), taken.policy.terms.len());
            tracing::info!(rules, terms, "took rules and retry policy over");
        }
    }
}

impl InForce {
    fn read(sources: &Sources) -> anyhow::Result<Arc<Self>> {
        let rules = sources.rules_dir.as_deref().map(rules);
        let terms = sources.policy_file.as_deref().map(read::terms);
        let both = read::both(rules.transpose(), terms.transpose())?;
        let mut policy = sources.policy.clone();
        if let Some(terms) = both.1 {
            policy.terms = terms;
        }
        Ok(Arc::new(Self { rules: both.0.unwrap_or_else(LogRules::built_in), policy }))
    }
}

#[cfg(test)]
mod tests;
