//! What verdicts stand on beside the history, shared: rules and terms, which may change while the server runs, and the
//! failures that verdicts were given on.
//!
//! Rules and terms are read again when a file has changed, and when the operator says so (SIGHUP). All files are read and
//! checked before any of them counts: one that is wrong is named, and everything that was in force stays in force.

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

/// What the files are, for people.
const WHAT: &str = "rules and retry policy";

/// Failures kept, each a key with a signature: about 40 MB.
const FAILURES: usize = 50_000;

/// Corrections kept, those of some years: about 10 MB.
const CORRECTIONS: usize = 10_000;

/// Where rules and terms are read from.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    /// Directory with rules of the operator.
    pub(crate) rules_dir: Option<PathBuf>,
    /// File with the terms of retries; without one the terms of `policy` stay.
    pub(crate) policy_file: Option<PathBuf>,
    /// What the operator decides beside the terms.
    pub(crate) policy: RetryPolicy,
}

/// What is in force; rules and terms change together.
#[derive(Debug)]
struct InForce {
    rules: Arc<LogRules>,
    policy: RetryPolicy,
}

/// A handle on what verdicts stand on.
#[derive(Debug, Clone)]
pub(crate) struct VerdictEngine(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sources: Sources,
    /// The files look like `None` if one of them could not be looked at.
    kept: Kept<InForce, Option<Vec<Stamp>>>,
    seen: Mutex<KnownFailures>,
    corrections: Mutex<Corrections>,
    metrics: Arc<Metrics>,
}

impl VerdictEngine {
    /// With the rules of the program and what the files say.
    ///
    /// # Errors
    /// A directory or a file cannot be read, or is wrong: all mistakes of all files.
    pub(crate) fn open(sources: Sources, metrics: Arc<Metrics>) -> anyhow::Result<Self> {
        let stamps = stamps(&sources)?;
        let kept = Kept::new(WHAT, InForce::read(&sources)?, Some(stamps));
        let seen = Mutex::new(KnownFailures::new(FAILURES));
        let corrections = Mutex::new(Corrections::new(CORRECTIONS));
        Ok(Self(Arc::new(Shared { sources, kept, seen, corrections, metrics })))
    }

    /// The verdict on what is known of an ended attempt. Reads a log line by line: not for a thread that serves others.
    pub(crate) fn judge(
        &self,
        evidence: &Evidence,
        history: &SharedHistory,
        settings: &predict::Settings,
    ) -> Verdict {
        let in_force = self.0.kept.now();
        let InForce { rules, policy } = &*in_force;
        // what takes long is done before anything is locked: who learns and who predicts would wait for it
        let finding = self.corrected(evidence, retry::classify(evidence, rules));
        history.read(|history| {
            let seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
            retry::judge(evidence, finding, &VerdictInputs { history, seen: &seen, settings, policy })
        })
    }

    /// What a caller says, with its log read by the rules in force. Takes as long as judging does.
    pub(crate) fn reported(&self, asked: &Evidence) -> ReportedEvidence {
        retry::reported(asked, &self.0.kept.now().rules)
    }

    /// Why an attempt failed by what is known of it. Fast, if no log is to be read.
    pub(crate) fn classify(&self, evidence: &Evidence) -> Finding {
        self.corrected(evidence, retry::classify(evidence, &self.0.kept.now().rules))
    }

    /// The finding with the cause that a person said of this attempt, else of its signature.
    fn corrected(&self, evidence: &Evidence, finding: Finding) -> Finding {
        if let Some(correction) = evidence.correction.as_deref().filter(|one| !one.undone) {
            return finding.corrected(correction.cause, correction.says());
        }
        self.corrections().apply(&evidence.key.project, &evidence.attempt, finding, Clock.now_unix_ms())
    }

    /// Takes note of the correction in a verdict that is on disk, if it has one.
    pub(crate) fn note_correction(&self, verdict: &Verdict) {
        if verdict.basis.correction.is_some() {
            let mut corrections = self.corrections();
            corrections.note(verdict);
            self.count_wrong(&corrections);
        }
    }

    /// The same of verdicts that are read at the start, one after another: [`Self::count_corrections`] counts them behind the last.
    pub(crate) fn recall_correction(&self, verdict: &Verdict) {
        self.corrections().note(verdict);
    }

    /// Counts which rules were wrong.
    pub(crate) fn count_corrections(&self) {
        self.count_wrong(&self.corrections());
    }

    /// Which rules were wrong how often, in the projects for which `sees` is true: most often first.
    pub(crate) fn wrong(&self, sees: impl Fn(&str) -> bool) -> Vec<WrongVerdicts> {
        self.corrections().wrong(sees)
    }

    /// Forgets the correction of an attempt that is gone.
    pub(crate) fn forget_correction(&self, attempt: &AttemptId) {
        let mut corrections = self.corrections();
        if corrections.forget(attempt) {
            self.count_wrong(&corrections);
        }
    }

    fn count_wrong(&self, corrections: &Corrections) {
        let wrong = &self.0.metrics.verdicts_wrong;
        wrong.clear();
        for WrongVerdicts { rule, count, .. } in corrections.wrong(|_project| true) {
            wrong.get_or_create(&OfRule { rule }).inc_by(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    fn corrections(&self) -> std::sync::MutexGuard<'_, Corrections> {
        self.0.corrections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Failures with retries whose end is known, most retries first.
    pub(crate) fn flaky(&self, history: &History, most: usize) -> Vec<FlakyFailure> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).flaky(history, most)
    }

    /// Failures that `takes` takes, the same ones together, most attempts first.
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

    /// Forgets the lines of these verdicts, which have lost them.
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

    /// Takes changed rules and terms over until `end`, and reads all of them again at each SIGHUP.
    ///
    /// # Errors
    /// The signal cannot be heard.
    pub(crate) async fn watch(self, end: CancellationToken) -> anyhow::Result<()> {
        reload::watch(WHAT, end, move |asked| self.look(asked)).await
    }

    /// Reads everything again if a file has changed, or if a reload was `asked` for.
    fn look(&self, asked: bool) {
        let Shared { sources, kept, metrics, .. } = &*self.0;
        let stamps = |_before: &_| stamps(sources).ok();
        let taken = kept.look(asked, stamps, |_now| InForce::read(sources), &metrics.rules_reloads);
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
