//! Statistics of what the fleet used, requested and lost. All finished attempts are in memory; queries count them by group and over time,
//! and find builds with a need that has shifted. No I/O, no clock.
//!
//! | module | content |
//! |---|---|
//! | `question`, `report` | queries and answers |
//! | [`attempts`] | the ended attempts as rows, and the lists made from them |
//! | [`counting`] | one pass over the rows |
//! | [`shifts`] | needs that vary, that shifted, or that form several groups |
//! | `workloads` | the attempts of each package, for proposals |
//! | `prices`, `ref_class` | settings |

mod attempts;
mod counting;
mod prices;
mod question;
mod ref_class;
mod report;
mod shifts;
#[cfg(test)]
mod tests;
mod workloads;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use attempts::attempt_table::AttemptTable;
pub use attempts::listing::{AttemptPage, ListCursor, PageBuilder};
pub use counting::groups::Group;
use counting::row_filter::RowFilter;
pub use counting::steps::TimeStep;
pub use counting::totals::{Retries, StatsTotals};
pub use plimsoll_proto::v1::{AttemptOrder, GroupBy};
pub use prices::{PoolPrices, Price, Prices};
pub use question::{Filter, Question};
pub use ref_class::RefClasses;
pub use report::{Coverage, Report};
use shifts::need_shifts::NeedShifts;
pub use shifts::package_variation::PackageVariation;
pub use shifts::regressions::Regression;
pub use workloads::{MAX_WORKLOADS, WorkloadQuestion, Workloads};

use crate::domain::{AttemptBrief, AttemptId, RetryStatus, StatsFields};

/// Most verdicts that are kept for attempts which have not ended yet.
const MAX_EARLY_VERDICTS: usize = 10_000;

/// The operator's settings for statistics.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Prices of memory and CPU.
    pub prices: Prices,
    /// Currency of the prices; empty without prices.
    pub currency: String,
    /// Classes of branches and tags.
    pub ref_classes: RefClasses,
}

/// A handle to the statistics of this server. Locks are held for a fraction of a millisecond, also during long counts.
#[derive(Debug, Clone)]
pub struct Stats(Arc<StatsState>);

#[derive(Debug)]
struct StatsState {
    settings: Settings,
    table: Mutex<AttemptTable>,
    /// Code that takes both locks takes this one before that of the table.
    moved: Mutex<NeedShifts>,
}

impl Stats {
    /// Statistics without attempts.
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(StatsState {
            settings,
            table: Mutex::new(AttemptTable::new()),
            moved: Mutex::default(),
        }))
    }

    /// Adds an attempt of the history. [`Self::relate`] later sets which attempt it retries.
    pub fn add(&self, beside: &StatsFields<'_>, brief: &Arc<AttemptBrief>) {
        self.table().add(beside, brief, &self.0.settings);
    }

    /// The attempts that retry this one, as their agents report it.
    pub(crate) fn retries_of(&self, original: &AttemptBrief) -> Vec<Arc<AttemptBrief>> {
        self.table().retries_of(original)
    }

    /// Sets the retry status of attempts.
    pub(crate) fn relate(&self, attempts: &[(Arc<AttemptBrief>, RetryStatus)]) {
        self.table().relate(attempts);
    }

    /// Removes attempts that the history no longer has.
    pub fn sweep(&self) {
        self.table().sweep();
    }

    /// Ends a bulk load, and sets the retry status of all attempts: `in_jobs` has it for attempts of jobs that ran more than once, and
    /// `after` computes it for all others that name an attempt they retry.
    pub fn complete<'h>(
        &self,
        in_jobs: impl Iterator<Item = (&'h Arc<AttemptBrief>, RetryStatus)>,
        after: impl Fn(&AttemptBrief) -> RetryStatus,
    ) {
        let mut table = self.table();
        table.sweep();
        table.relate_all(in_jobs, after);
        table.forget_early(MAX_EARLY_VERDICTS);
    }

    /// Replaces the values of an attempt.
    pub fn replace_summary(
        &self,
        earlier: &AttemptBrief,
        beside: &StatsFields<'_>,
        brief: &Arc<AttemptBrief>,
    ) {
        self.table().replace_summary(earlier, beside, brief, &self.0.settings);
    }

    /// Removes an attempt that was deleted.
    pub fn remove(&self, brief: &AttemptBrief) {
        self.table().remove(brief);
    }

    /// Sets whether the verdict in force on an attempt refuses a retry. If the attempt has not ended yet (`ended` is `None`), this is kept
    /// until it does. `project`: the project that the verdict was requested for.
    pub fn refuse(&self, attempt: &AttemptId, project: &str, ended: Option<&AttemptBrief>, refuses: bool) {
        let mut table = self.table();
        match ended {
            Some(brief) => table.refuse(brief, refuses),
            None if refuses => table.refuse_early(attempt, project, true, MAX_EARLY_VERDICTS),
            None => table.allow_early(attempt, project),
        }
    }

    /// Like [`Self::refuse`], before the attempts are loaded. All such verdicts are kept until then.
    pub fn expect_refused(&self, attempt: &AttemptId, project: &str, refuses: bool) {
        self.table().refuse_early(attempt, project, refuses, usize::MAX);
    }

    /// Selects a page of the attempts that match a filter.
    pub fn list(&self, filter: &Filter, mut listing: PageBuilder) -> AttemptPage {
        let (rows, row_filter) = {
            let table = self.table();
            let rows = table.rows();
            let row_filter = RowFilter::new(filter, &table, &rows, &self.0.settings, &mut Vec::new());
            (rows, row_filter)
        };
        let chunks = rows.chunks.iter().map(AsRef::as_ref).filter(|chunk| row_filter.may_take(chunk));
        for chunk in listing.best_first(chunks) {
            // chunks without a row that can be on the page are skipped
            let rows = if listing.may_take_of(chunk) { chunk.rows() } else { &[] };
            for (index, row) in rows.iter().enumerate() {
                let counts = listing.may_take_row(row) && row_filter.takes(chunk, index, row);
                listing.consider_if(counts, &row.brief);
            }
        }
        listing.finish()
    }

    fn table(&self) -> MutexGuard<'_, AttemptTable> {
        // after a panic elsewhere, at most one attempt is missing in the table
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
