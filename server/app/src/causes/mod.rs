//! Classifies failures: by the log rules in force, which may change while the server runs, by the corrections of people, and by the
//! failures in earlier verdicts. What a verdict needs besides (retry terms, known failures) is kept here, too.
//!
//! Rules and terms are reloaded after a change of a file, and at SIGHUP. All files are read and checked before any is used: an invalid one
//! is logged, and everything in force stays in force.

mod jobs_short_of_memory;
mod read;

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use plimsoll_core::{
    domain::{AttemptBrief, AttemptId, Evidence, History, Key, ReportedEvidence, Verdict},
    retry::{
        self, Corrections, FailureGroup, Finding, FlakyFailure, KnownFailures, LogRules, RetryPolicy,
        RuleExperience, RuleRecord, SilencedRule, WrongVerdicts,
    },
    shared_history::SharedHistory,
};
use tokio_util::sync::CancellationToken;

use crate::runtime::{
    clock::Clock,
    metrics::{Metrics, RuleLabel},
    reload,
    reload::{FileStamp, ReloadedValue},
};
use jobs_short_of_memory::JobsShortOfMemory;
use read::file_stamps;
pub(crate) use read::{read_rules, rule_files};

/// Name of the files, for log messages.
const FILES_NAME: &str = "rules and retry policy";

/// Most failures kept: about 40 MB if each is of another key or signature.
const MAX_FAILURES: usize = 50_000;

/// How often the metrics of rules that are silenced because they were wrong too often are updated.
const SILENCED_INTERVAL: Duration = Duration::from_mins(1);

/// Most corrections kept, enough for some years: about 10 MB.
const MAX_CORRECTIONS: usize = 10_000;

/// The files with rules and retry terms.
#[derive(Debug, Clone)]
pub(crate) struct RuleSources {
    /// Directory with the operator's log rules.
    pub(crate) rules_dir: Option<PathBuf>,
    /// File with retry terms; without one the terms in `policy` apply.
    pub(crate) policy_file: Option<PathBuf>,
    /// The retry policy; `policy_file` replaces its terms.
    pub(crate) policy: RetryPolicy,
}

/// The rules and the retry terms in force; they change together.
#[derive(Debug)]
struct RulesInForce {
    rules: Arc<LogRules>,
    policy: RetryPolicy,
}

/// Classifies failures. Cheap to clone; clones share the state.
#[derive(Debug, Clone)]
pub(crate) struct FailureClassifier(Arc<ClassifierState>);

#[derive(Debug)]
struct ClassifierState {
    sources: RuleSources,
    history: SharedHistory,
    /// What is in force, with the states of the files; `None` if one of them could not be read.
    kept: ReloadedValue<RulesInForce, Option<Vec<FileStamp>>>,
    known_failures: Mutex<KnownFailures>,
    corrections: Mutex<Corrections>,
    short_of_memory: Mutex<JobsShortOfMemory>,
    metrics: Arc<Metrics>,
}

impl FailureClassifier {
    /// Reads the files, in addition to the built-in rules.
    /// Errors: A directory or a file cannot be read, or is invalid; the text names all mistakes.
    pub(crate) fn open(
        sources: RuleSources,
        history: &SharedHistory,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        let stamps = file_stamps(&sources)?;
        let kept = ReloadedValue::new(FILES_NAME, RulesInForce::read(&sources)?, Some(stamps));
        let seen = Mutex::new(KnownFailures::new(MAX_FAILURES));
        let corrections = Mutex::new(Corrections::new(MAX_CORRECTIONS));
        let shared = ClassifierState {
            sources,
            history: history.clone(),
            kept,
            known_failures: seen,
            corrections,
            short_of_memory: Mutex::default(),
            metrics,
        };
        Ok(Self(Arc::new(shared)))
    }

    /// Classifies a failure, and passes the finding on with all else that a verdict follows from. Matches every log line, so call it only
    /// on a thread that may be busy for long; `decide` runs under the locks.
    pub(crate) fn with_finding<T>(
        &self,
        evidence: &Evidence,
        decide: impl FnOnce(Finding, &History, &KnownFailures, &RetryPolicy) -> T,
    ) -> T {
        let in_force = self.0.kept.in_force_now();
        let RulesInForce { rules, policy } = &*in_force;
        // classified before the locks are taken: it is slow, and predictions would wait
        let finding = self.classify_by(evidence, rules);
        self.0.history.read(|history| decide(finding, history, &self.known_failures(), policy))
    }

    /// A caller's report, with its log matched by the rules in force. Takes as long as
    /// [`Self::with_finding`].
    pub(crate) fn reported(&self, asked: &Evidence) -> ReportedEvidence {
        retry::reported(asked, &self.0.kept.in_force_now().rules)
    }

    /// Classifies a failure. Fast if the evidence has no log.
    pub(crate) fn classify(&self, evidence: &Evidence) -> Finding {
        self.classify_by(evidence, &self.0.kept.in_force_now().rules)
    }

    fn classify_by(&self, evidence: &Evidence, rules: &LogRules) -> Finding {
        let here = |rule: &str| self.rule_record(rule, project_of(evidence));
        self.corrected(evidence, retry::classify_with_records(evidence, rules, &here))
    }

    /// How often a rule was right in a project. Takes the locks for microseconds.
    fn rule_record(&self, rule: &str, project: &str) -> RuleRecord {
        self.with_experience(|experience| experience.record(rule, project))
    }

    /// Silenced rules, by name, with the projects in which they are silenced. Each rule takes the locks anew, because
    /// predictions wait for them.
    pub(crate) fn silenced(&self) -> Vec<SilencedRule> {
        let rules = self.known_failures().rules_with_cases();
        let of_rule = |rule: &String| self.with_experience(|experience| experience.silenced(rule));
        rules.iter().flat_map(of_rule).collect()
    }

    /// Reads what records of rules follow from. The order of the locks is that of [`Self::with_finding`].
    fn with_experience<T>(&self, read: impl FnOnce(RuleExperience<'_>) -> T) -> T {
        self.0.history.read(|history| {
            let seen = self.known_failures();
            read(RuleExperience { seen: &seen, history, corrections: &self.corrections() })
        })
    }

    /// Applies the correction of this attempt, else the correction of its signature, to a finding.
    fn corrected(&self, evidence: &Evidence, finding: Finding) -> Finding {
        if let Some(correction) = evidence.correction.as_deref().filter(|one| !one.undone) {
            return finding.corrected(correction.cause, correction.evidence_text());
        }
        self.corrections().apply(&evidence.key.project, &evidence.attempt, finding, Clock.now_unix_ms())
    }

    /// Records the correction in a stored verdict, if it has one.
    pub(crate) fn note_correction(&self, verdict: &Verdict) {
        if verdict.basis.correction.is_some() {
            let mut corrections = self.corrections();
            corrections.record(verdict);
            self.count_wrong(&corrections);
        }
    }

    /// Takes a verdict in force that is read at startup: its correction, and whether its job ran out of memory. Does not update the
    /// metrics; call [`Self::count_corrections`] after the last one.
    pub(crate) fn recall(&self, verdict: &Verdict) {
        self.short_of_memory().note(verdict);
        self.corrections().record(verdict);
    }

    /// The last attempt of the job, if it ran out of memory according to the verdict on it.
    pub(crate) fn short_of_memory_attempt(&self, key: &Key) -> Option<AttemptId> {
        self.short_of_memory().find(key)
    }

    fn short_of_memory(&self) -> MutexGuard<'_, JobsShortOfMemory> {
        self.0.short_of_memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_failures(&self) -> MutexGuard<'_, KnownFailures> {
        self.0.known_failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the metrics of rules that have lost their say every minute, until `end`.
    pub(crate) async fn report_silenced(self, end: CancellationToken) -> anyhow::Result<()> {
        let mut tick = tokio::time::interval(SILENCED_INTERVAL);
        while end.run_until_cancelled(tick.tick()).await.is_some() {
            let classifier = self.clone();
            // all failures are examined, which takes a while
            let silenced = tokio::task::spawn_blocking(move || classifier.silenced()).await?;
            let metric = &self.0.metrics.rules_silenced;
            metric.clear();
            for SilencedRule { rule, .. } in silenced {
                metric.get_or_create(&RuleLabel { rule }).inc();
            }
        }
        Ok(())
    }

    /// Updates the metrics of rules with corrected causes.
    pub(crate) fn count_corrections(&self) {
        self.count_wrong(&self.corrections());
    }

    /// How often each rule's cause was corrected, in the projects for which `sees` is true; most
    /// often first.
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
            wrong.get_or_create(&RuleLabel { rule }).inc_by(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    fn corrections(&self) -> MutexGuard<'_, Corrections> {
        self.0.corrections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Failures with ended retries, most retries first.
    pub(crate) fn flaky(&self, most: usize) -> Vec<FlakyFailure> {
        self.0.history.read(|history| self.known_failures().flaky(history, most))
    }

    /// Groups of equal failures for which `takes` returns true, most attempts first.
    pub(crate) fn failure_groups(
        &self,
        takes: impl Fn(&AttemptBrief) -> bool,
        most: usize,
    ) -> Vec<FailureGroup> {
        self.0.history.read(|history| self.known_failures().failure_groups(history, takes, most))
    }

    /// The attempts of this project (of any if empty) that are known by a signature.
    pub(crate) fn attempts_with(&self, signature: &str, project: &str) -> HashSet<AttemptId> {
        self.known_failures().attempts_with(signature, project)
    }

    /// Takes a new verdict that is on disk, in place of the verdict that was in force before: its failure, and whether its job ran
    /// out of memory.
    pub(crate) fn replace_verdict(&self, key: &Key, verdict: &Verdict, earlier: Option<&Verdict>) {
        let name = |verdict: &Verdict| verdict.outlook.signature.as_ref().map(|named| named.id.clone());
        let differs = |earlier: &Verdict| name(earlier) != name(verdict) || earlier.action != verdict.action;
        if earlier.is_some_and(differs) {
            self.known_failures().unlearn(&verdict.attempt, Some(&key.project));
        }
        self.learn(key, verdict);
        let mut short = self.short_of_memory();
        if !verdict.raises_memory() {
            short.forget(&verdict.attempt, &verdict.basis.reported.project);
        }
        short.note(verdict);
    }

    /// Adds the failure in a verdict that is on disk.
    pub(crate) fn learn(&self, key: &Key, verdict: &Verdict) {
        self.known_failures().learn(key, verdict);
    }

    /// Removes the log lines of these verdicts from the known failures, after they were removed
    /// from the store.
    pub(crate) fn drop_lines(&self, verdicts: &[Verdict]) {
        self.known_failures().drop_lines(verdicts);
    }

    /// Removes everything that verdicts on an attempt taught, apart from corrections.
    pub(crate) fn unlearn(&self, attempt: &AttemptId) {
        self.known_failures().unlearn(attempt, None);
        self.short_of_memory().forget(attempt, "");
    }

    /// Reloads rules and terms when a file changes and at each SIGHUP, until `end`.
    /// Errors: the signal handler cannot be installed.
    pub(crate) async fn watch(self, end: CancellationToken) -> anyhow::Result<()> {
        reload::watch_files(FILES_NAME, end, move |asked| self.reload_if_changed(asked)).await
    }

    /// Reloads everything if a file has changed, or if a reload was requested.
    fn reload_if_changed(&self, asked: bool) {
        let ClassifierState { sources, kept, metrics, .. } = &*self.0;
        let stamps = |_before: &_| file_stamps(sources).ok();
        let taken =
            kept.reload_if_changed(asked, stamps, |_now| RulesInForce::read(sources), &metrics.rules_reloads);
        metrics.rules_refused.set(i64::from(kept.is_refused()));
        if let Some(taken) = taken {
            let (rules, terms) = (taken.rules.len(), taken.policy.terms.len());
            tracing::info!(rules, terms, "took rules and retry policy over");
        }
    }
}

/// The project that the failure is of.
fn project_of(evidence: &Evidence) -> &str {
    evidence.measured.as_deref().map_or(&evidence.key.project, |summary| &summary.key.project)
}

impl RulesInForce {
    fn read(sources: &RuleSources) -> anyhow::Result<Arc<Self>> {
        let rules = sources.rules_dir.as_deref().map(read_rules);
        let terms = sources.policy_file.as_deref().map(read::read_terms);
        let both = read::both_results(rules.transpose(), terms.transpose())?;
        let mut policy = sources.policy.clone();
        if let Some(terms) = both.1 {
            policy.terms = terms;
        }
        Ok(Arc::new(Self { rules: both.0.unwrap_or_else(LogRules::built_in), policy }))
    }
}

#[cfg(test)]
mod tests;
