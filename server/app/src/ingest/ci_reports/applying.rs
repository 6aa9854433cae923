//! Applies many reports of the CI system together. A canceled pipeline may end a thousand jobs at
//! once: they cost one sync, not a thousand, and no samples are acknowledged during a sync.

use std::{collections::HashMap, sync::Arc};

use plimsoll_core::{
    domain::{AttemptId, ReportedOutcome, Summary},
    shared_history::SharedHistory,
};
use plimsoll_store::{self as store, BATCH_BYTES, BATCH_OPERATIONS, Batch, Store, StoreError};
use tokio::sync::oneshot;

use crate::{
    ingest::{
        ci_outcomes::{EarlyReports, OutcomeStatus, with_report},
        ended_counters::EndedCounters,
        request::CiReport,
        table::SessionTable,
    },
    runtime::{
        audit::AUDIT,
        metrics::{KindLabel, Metrics},
    },
};

/// Operations kept free in a batch of the store for one more summary.
const RESERVE_OPERATIONS: usize = 64;
/// Bytes kept free in a batch of the store for one more summary.
const RESERVE_BYTES: usize = 192 * 1024;

/// An ended attempt of a project on which the reporter may not report.
struct ForeignAttempt {
    id: AttemptId,
    is_proven: bool,
}

/// Why a report cannot be applied.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error("the store cannot be read: {0}")]
    Unreadable(StoreError),
    #[error("the store cannot write: {0}; nothing that was acknowledged is lost, retry later")]
    Unwritable(String),
}

/// Summaries with reported outcomes, and callers that are answered when these are on disk.
#[derive(Debug, Default)]
struct OutcomeBatch {
    batch: Batch,
    changed_summaries: HashMap<AttemptId, Summary>,
    waiting_callers: Vec<Option<oneshot::Sender<OutcomeStatus>>>,
}

impl OutcomeBatch {
    /// Whether another summary might not fit.
    fn is_full(&self) -> bool {
        self.batch.operations() + RESERVE_OPERATIONS > BATCH_OPERATIONS
            || self.batch.bytes() + RESERVE_BYTES > BATCH_BYTES
    }
}

/// Writes reported outcomes into summaries, and keeps reports that arrive before their attempt.
#[derive(Debug)]
pub(crate) struct CiReports {
    pub(super) store: Store,
    history: SharedHistory,
    metrics: Arc<Metrics>,
    early_reports: EarlyReports,
}

impl CiReports {
    /// Starts without reports.
    pub(crate) fn new(store: Store, history: SharedHistory, metrics: Arc<Metrics>) -> Self {
        Self { store, history, metrics, early_reports: EarlyReports::default() }
    }

    /// The kept report that applies to a new attempt of this project, if there is one.
    pub(crate) fn waiting_for(&self, id: &AttemptId, project: &str) -> Option<Arc<ReportedOutcome>> {
        self.early_reports.report_for(id, project).cloned()
    }

    /// Applies reports: at once, or when their attempts end.
    pub(crate) async fn apply(
        &mut self,
        reports: Vec<CiReport>,
        open: &mut SessionTable,
        fleet: &mut EndedCounters,
    ) {
        let mut ends = OutcomeBatch::default();
        for CiReport { reported, answer } in reports {
            let reported = self.with_own_runs(reported, open).await;
            // only the first of two reports on an attempt counts: the second must find the first
            // one's result on disk
            if ends.is_full() || reported.attempts.iter().any(|id| ends.changed_summaries.contains_key(id)) {
                self.write_outcomes(std::mem::take(&mut ends), fleet).await;
            }
            match self.apply_one(&reported, open, &mut ends).await {
                Ok(OutcomeStatus::Now) => ends.waiting_callers.push(answer),
                Ok(status) => self.answer(answer, status),
                Err(error) => {
                    tracing::warn!(attempt = ?reported.attempts.first(), %error, "could not apply the reported outcome of an attempt");
                    self.answer(answer, OutcomeStatus::Unwritable);
                }
            }
        }
        self.write_outcomes(ends, fleet).await;
    }

    /// Applies one report. With [`OutcomeStatus::Now`] the result is on disk only when the batch
    /// is.
    async fn apply_one(
        &mut self,
        reported: &ReportedOutcome,
        open: &mut SessionTable,
        ends: &mut OutcomeBatch,
    ) -> Result<OutcomeStatus, ReportError> {
        let mut of_others = Vec::new();
        for id in reported.attempts.iter().filter(|id| !open.contains(id)) {
            let summary = match store::read_summary(&self.store, id).await {
                Ok(Some(summary)) => summary,
                Ok(None) => continue,
                // reported as known, because a retry would find the same damaged record
                Err(error @ StoreError::Damaged { .. }) => {
                    tracing::error!(attempt = %id, %error, "cannot apply a reported outcome: the summary of the attempt is damaged");
                    return Ok(OutcomeStatus::Known);
                }
                Err(error) => return Err(ReportError::Unreadable(error)),
            };
            if !reported.by.may_report_on(&summary.key.project) {
                of_others.push(ForeignAttempt { id: id.clone(), is_proven: summary.opening.proven });
                continue;
            }
            let Some(changed) = with_report(&summary, reported) else { return Ok(OutcomeStatus::Known) };
            store::put(&mut ends.batch, &changed)
                .map_err(|error| ReportError::Unwritable(error.to_string()))?;
            ends.changed_summaries.insert(id.clone(), changed);
            return Ok(OutcomeStatus::Now);
        }
        Ok(self.keep_report(reported, open, &of_others))
    }

    /// Keeps a report until its attempt ends: with the attempt if it is open, else in memory within
    /// bounds. A report on an attempt of another project is kept, too, because the job's own agent
    /// may still take the id.
    fn keep_report(
        &mut self,
        reported: &ReportedOutcome,
        open: &mut SessionTable,
        ended: &[ForeignAttempt],
    ) -> OutcomeStatus {
        let reported = Arc::new(reported.clone());
        let (mut kept, mut of_others) = (false, !ended.is_empty());
        for id in &reported.attempts {
            let is_taken = match open.get_mut(id) {
                Some(open) if reported.by.may_report_on(&open.attempt.key.project) => {
                    open.reported.get_or_insert_with(|| Arc::clone(&reported));
                    kept = true;
                    open.attempt.opening.proven
                }
                Some(open) => {
                    of_others = true;
                    open.attempt.opening.proven
                }
                None => ended.iter().any(|other| other.id == *id && other.is_proven),
            };
            if !is_taken {
                let is_kept = self.early_reports.keep_first(id.clone(), &reported);
                self.metrics.ends_left_out.inc_by(u64::from(!is_kept));
                kept = true;
            }
        }
        if of_others {
            let attempt = reported.attempts.first();
            tracing::warn!(target: AUDIT, ?attempt, by = reported.by.name(), "ignored the end of a job: the caller has no grant for the project of its attempt");
        }
        if kept { OutcomeStatus::Remembered } else { OutcomeStatus::Foreign }
    }

    /// Writes the outcomes to disk, and answers their callers.
    async fn write_outcomes(&mut self, ends: OutcomeBatch, fleet: &mut EndedCounters) {
        let OutcomeBatch { batch, changed_summaries: changed, waiting_callers: waiting } = ends;
        if waiting.is_empty() {
            return;
        }
        let became = match self.store.commit(batch).await {
            Ok(_committed) => {
                for summary in changed.into_values() {
                    self.note_applied(&summary, fleet);
                }
                OutcomeStatus::Now
            }
            Err(error) => {
                tracing::warn!(attempts = waiting.len(), %error, "could not apply the reported outcomes of attempts");
                OutcomeStatus::Unwritable
            }
        };
        for answer in waiting {
            self.answer(answer, became);
        }
    }

    fn note_applied(&self, changed: &Summary, fleet: &mut EndedCounters) {
        let cause = changed.cause.map_or("none", |cause| cause.as_str());
        let (attempt, outcome) = (&changed.attempt, changed.outcome);
        tracing::info!(%attempt, ?outcome, cause, "settled how an attempt ended");
        fleet.outcome_reported(changed);
        self.history.replace_summary(changed);
    }

    /// Counts the result of a report, and sends it to the caller.
    fn answer(&self, answer: Option<oneshot::Sender<OutcomeStatus>>, status: OutcomeStatus) {
        self.metrics.hooks.get_or_create(&KindLabel::of(status.as_str())).inc();
        // the caller may no longer wait
        let _applied = answer.map(|answer| answer.send(status));
    }
}
