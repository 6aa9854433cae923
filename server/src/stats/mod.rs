//! What the fleet used, asked for and lost: every finished attempt in memory, counted by group and over time, and the builds
//! whose need has moved. No I/O, no clock.
//!
//! | file | what it does |
//! |---|---|
//! | `listing`, `glance` | the attempts of one page of a list |
//! | `question`, `report` | what may be asked, and the answer |
//! | `book`, `chunk`, `row` | the attempts, kept as they end, and why as rows |
//! | `builds`, `names`, `labels` | what attempts have in common, as bounded numbers |
//! | `count`, `sieve`, `groups`, `steps`, `totals` | one walk over the rows |
//! | `variable`, `moved`, `regressions`, `level`, `mixed` | needs that vary, that have moved, and that are of several groups |
//! | `prices`, `ref_class` | settings |

mod book;
mod builds;
mod chunk;
mod count;
mod glance;
mod groups;
mod labels;
mod level;
mod listing;
mod mixed;
mod moved;
mod names;
mod prices;
mod question;
mod ref_class;
mod regressions;
mod report;
mod row;
mod sieve;
mod steps;
#[cfg(test)]
mod tests;
mod totals;
mod variable;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use book::Book;
pub(crate) use groups::Group;
pub(crate) use level::Kind as ChangeKind;
pub(crate) use listing::{Chosen, Listing, Order, Place};
pub(crate) use mixed::MixedNeed;
use moved::Moved;
pub(crate) use prices::{PoolPrices, Price, Prices};
pub(crate) use question::{Filter, GroupBy, Question};
pub(crate) use ref_class::RefClasses;
pub(crate) use regressions::Regression;
pub(crate) use report::{Covers, Report};
use sieve::Sieve;
pub(crate) use steps::Step;
pub(crate) use totals::StatsTotals;
pub(crate) use variable::Variable;

use crate::domain::{AttemptId, Beside, Brief, RetryAfter};

/// Verdicts that wait for the end of their attempt.
const EARLY: usize = 10_000;

/// What the operator says of statistics.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// What memory and CPU cost.
    pub(crate) prices: Prices,
    /// What the prices are in; empty if nothing has a price.
    pub(crate) currency: String,
    /// Kinds of branches and tags.
    pub(crate) ref_classes: RefClasses,
}

/// A handle on the statistics of this server. Locked for a fraction of a millisecond, also by who counts for longer.
#[derive(Debug, Clone)]
pub(crate) struct Stats(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: Settings,
    book: Mutex<Book>,
    /// Locked before the book by whoever needs both.
    moved: Mutex<Moved>,
}

impl Stats {
    /// The class of a branch or tag; empty for an empty one.
    pub(crate) fn ref_class(&self, git_ref: &str) -> &str {
        let classes = &self.0.settings.ref_classes;
        classes.names().get(usize::from(classes.of(git_ref))).copied().unwrap_or_default()
    }

    /// Nothing has ended yet.
    pub(crate) fn new(settings: Settings) -> Self {
        Self(Arc::new(Shared { settings, book: Mutex::new(Book::new()), moved: Mutex::default() }))
    }

    /// Adds an attempt that the history has. What it retries is told afterwards.
    pub(crate) fn add(&self, beside: &Beside<'_>, brief: &Arc<Brief>) {
        let mut book = self.book();
        book.add(beside, brief, &self.0.settings);
        book.sweep();
    }

    /// The attempts whose agents say that they retry this one.
    pub(crate) fn retries_of(&self, original: &Brief) -> Vec<Arc<Brief>> {
        self.book().retries_of(original)
    }

    /// Says of attempts what they are retries after.
    pub(crate) fn relate(&self, attempts: &[(Arc<Brief>, RetryAfter)]) {
        self.book().relate(attempts);
    }

    /// Adds one of many attempts, before it is known which of them stay and what they retry.
    pub(crate) fn add_one_of_many(&self, beside: &Beside<'_>, brief: &Arc<Brief>) {
        self.book().add(beside, brief, &self.0.settings);
    }

    /// Lets those go whose attempts nobody else has.
    pub(crate) fn sweep(&self) {
        self.book().sweep_all();
    }

    /// All attempts are there: what they retry is known now. Those of jobs that were executed more than once come as they are, of all
    /// others `after` is asked if they say themselves that they are retries.
    pub(crate) fn complete<'h>(
        &self,
        in_jobs: impl Iterator<Item = (&'h Arc<Brief>, RetryAfter)>,
        after: impl Fn(&Brief) -> RetryAfter,
    ) {
        let mut book = self.book();
        book.sweep_all();
        book.relate_all(in_jobs, after);
        book.forget_early(EARLY);
    }

    /// Puts an attempt in the place of what was known of it.
    pub(crate) fn settle(&self, earlier: &Brief, beside: &Beside<'_>, brief: &Arc<Brief>) {
        self.book().settle(earlier, beside, brief, &self.0.settings);
    }

    /// An attempt is gone for good.
    pub(crate) fn remove(&self, brief: &Brief) {
        self.book().remove(brief);
    }

    /// The verdict in force on an attempt says no to a retry, or no longer does; of one that has not ended yet it is remembered.
    pub(crate) fn refuse(&self, attempt: &AttemptId, ended: Option<&Brief>, refuses: bool) {
        let mut book = self.book();
        match ended {
            Some(brief) => book.refuse(brief, refuses),
            None if refuses => book.refuse_early(attempt, EARLY),
            None => book.allow_early(attempt),
        }
    }

    /// The same before the attempts are read; all are remembered until they are.
    pub(crate) fn expect_refused(&self, attempt: &AttemptId) {
        self.book().refuse_early(attempt, usize::MAX);
    }

    /// Chooses a page among the attempts that count.
    pub(crate) fn list(&self, filter: &Filter, mut listing: Listing) -> Chosen {
        let (rows, sieve) = {
            let book = self.book();
            let rows = book.rows();
            let sieve = Sieve::new(filter, &book, &rows, &self.0.settings, &mut Vec::new());
            (rows, sieve)
        };
        let chunks = rows.chunks.iter().map(AsRef::as_ref).filter(|chunk| sieve.may_take(chunk));
        for chunk in listing.best_first(chunks) {
            // what the page cannot take any more is not looked at
            let rows = if listing.may_take_of(chunk) { chunk.rows() } else { &[] };
            for (index, row) in rows.iter().enumerate() {
                let counts = listing.may_take_row(row) && sieve.takes(chunk, index, row);
                listing.look_if(counts, &row.brief);
            }
        }
        listing.choose()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // a panic elsewhere leaves at most one attempt out
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
