//! What the fleet used, asked for and lost: every finished attempt in memory, counted by group and over time, and the builds
//! whose need has moved. No I/O, no clock.
//!
//! | module | what it does |
//! |---|---|
//! | `listing`, `glance` | the attempts of one page of a list |
//! | `question`, `report` | what may be asked, and the answer |
//! | `attempt_table`, `chunk`, `row` | the ended attempts, and why they are kept as rows |
//! | `builds`, `interner`, `labels` | what attempts have in common, as bounded numbers |
//! | `count`, `row_filter`, `groups`, `steps`, `totals`, `need_to_request` | one walk over the rows |
//! | `variation`, `need_shifts`, `regressions`, `level`, `mixed` | needs that vary, that have moved, and that are of several groups |
//! | `workloads` | the attempts of each package, for proposals |
//! | `prices`, `ref_class` | settings |

mod attempt_table;
mod builds;
mod chunk;
mod count;
mod glance;
mod groups;
mod interner;
mod labels;
mod level;
mod listing;
mod mixed;
mod need_shifts;
mod need_to_request;
mod prices;
mod question;
mod ref_class;
mod regressions;
mod report;
mod row;
mod row_filter;
mod steps;
#[cfg(test)]
mod tests;
mod totals;
mod variation;
mod workloads;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use attempt_table::AttemptTable;
pub use groups::Group;
pub use level::ChangeKind;
pub use listing::{AttemptOrder, AttemptPage, ListCursor, PageBuilder};
pub use mixed::MixedNeed;
use need_shifts::NeedShifts;
pub use prices::{PoolPrices, Price, Prices};
pub use question::{Filter, GroupBy, Question};
pub use ref_class::RefClasses;
pub use regressions::Regression;
pub use report::{Coverage, Report};
use row_filter::RowFilter;
pub use steps::TimeStep;
pub use totals::StatsTotals;
pub use variation::PackageVariation;
pub use workloads::{WORKLOADS, WorkloadQuestion, Workloads};

use crate::domain::{AttemptBrief, AttemptId, RetryStatus, StatsFields};

/// Verdicts that wait for the end of their attempt.
const EARLY: usize = 10_000;

/// What the operator says of statistics.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// What memory and CPU cost.
    pub prices: Prices,
    /// What the prices are in; empty if nothing has a price.
    pub currency: String,
    /// Kinds of branches and tags.
    pub ref_classes: RefClasses,
}

/// A handle on the statistics of this server. Locked for a fraction of a millisecond, also by who counts for longer.
#[derive(Debug, Clone)]
pub struct Stats(Arc<StatsState>);

#[derive(Debug)]
struct StatsState {
    settings: Settings,
    table: Mutex<AttemptTable>,
    /// A caller that needs both locks this before the book.
    moved: Mutex<NeedShifts>,
}

impl Stats {
    /// The class of a branch or tag; empty for an empty one.
    pub fn ref_class(&self, git_ref: &str) -> &str {
        let classes = &self.0.settings.ref_classes;
        classes.names().get(usize::from(classes.of(git_ref))).copied().unwrap_or_default()
    }

    /// Nothing has ended yet.
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(StatsState {
            settings,
            table: Mutex::new(AttemptTable::new()),
            moved: Mutex::default(),
        }))
    }

    /// Adds an attempt that the history has. A later call says what it retries.
    pub fn add(&self, beside: &StatsFields<'_>, brief: &Arc<AttemptBrief>) {
        let mut table = self.table();
        table.add(beside, brief, &self.0.settings);
        table.sweep();
    }

    /// The attempts whose agents say that they retry this one.
    pub(crate) fn retries_of(&self, original: &AttemptBrief) -> Vec<Arc<AttemptBrief>> {
        self.table().retries_of(original)
    }

    /// Says of attempts what they are retries after.
    pub(crate) fn relate(&self, attempts: &[(Arc<AttemptBrief>, RetryStatus)]) {
        self.table().relate(attempts);
    }

    /// Adds one of many attempts, before it is known which of them stay and what they retry.
    pub fn add_one_of_many(&self, beside: &StatsFields<'_>, brief: &Arc<AttemptBrief>) {
        self.table().add(beside, brief, &self.0.settings);
    }

    /// Drops attempts held only by this table.
    pub fn sweep(&self) {
        self.table().sweep_all();
    }

    /// All attempts are there: what they retry is known now. Those of jobs that were executed more than once come as they are, of all
    /// others `after` is asked if they say themselves that they are retries.
    pub fn complete<'h>(
        &self,
        in_jobs: impl Iterator<Item = (&'h Arc<AttemptBrief>, RetryStatus)>,
        after: impl Fn(&AttemptBrief) -> RetryStatus,
    ) {
        let mut table = self.table();
        table.sweep_all();
        table.relate_all(in_jobs, after);
        table.forget_early(EARLY);
    }

    /// Puts an attempt in the place of what was known of it.
    pub fn settle(&self, earlier: &AttemptBrief, beside: &StatsFields<'_>, brief: &Arc<AttemptBrief>) {
        self.table().settle(earlier, beside, brief, &self.0.settings);
    }

    /// An attempt is gone for good.
    pub fn remove(&self, brief: &AttemptBrief) {
        self.table().remove(brief);
    }

    /// The verdict in force on an attempt says no to a retry, or no longer does; of one that has not ended yet it is remembered.
    /// `project` is the one in whose name it was asked for.
    pub fn refuse(&self, attempt: &AttemptId, project: &str, ended: Option<&AttemptBrief>, refuses: bool) {
        let mut table = self.table();
        match ended {
            Some(brief) => table.refuse(brief, refuses),
            None if refuses => table.refuse_early(attempt, project, true, EARLY),
            None => table.allow_early(attempt, project),
        }
    }

    /// The same before the attempts are read; all are remembered until they are.
    pub fn expect_refused(&self, attempt: &AttemptId, project: &str, refuses: bool) {
        self.table().refuse_early(attempt, project, refuses, usize::MAX);
    }

    /// Chooses a page among the attempts that count.
    pub fn list(&self, filter: &Filter, mut listing: PageBuilder) -> AttemptPage {
        let (rows, row_filter) = {
            let table = self.table();
            let rows = table.rows();
            let row_filter = RowFilter::new(filter, &table, &rows, &self.0.settings, &mut Vec::new());
            (rows, row_filter)
        };
        let chunks = rows.chunks.iter().map(AsRef::as_ref).filter(|chunk| row_filter.may_take(chunk));
        for chunk in listing.best_first(chunks) {
            // what the page cannot take any more is not looked at
            let rows = if listing.may_take_of(chunk) { chunk.rows() } else { &[] };
            for (index, row) in rows.iter().enumerate() {
                let counts = listing.may_take_row(row) && row_filter.takes(chunk, index, row);
                listing.look_if(counts, &row.brief);
            }
        }
        listing.choose()
    }

    fn table(&self) -> MutexGuard<'_, AttemptTable> {
        // a panic elsewhere leaves at most one attempt out
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
