//! The answer to a question.

use std::{
    sync::PoisonError,
    time::{Duration, UNIX_EPOCH},
};

use super::{
    Filter, Question, Stats,
    book::{Book, Rows},
    count::Count,
    groups::{Group, Groups},
    prices::Price,
    regressions::Regression,
    sieve::Sieve,
    steps::Step,
    totals::StatsTotals,
    variable::Variable,
};
use crate::domain::Fault;

/// Needs that have moved, in an answer.
const REGRESSIONS: usize = 100;
/// Packages whose need varies most, in an answer.
const VARIABLE: usize = 100;

/// The whole answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Report {
    pub(crate) totals: StatsTotals,
    /// Largest waste first.
    pub(crate) groups: Vec<Group>,
    pub(crate) steps: Vec<Step>,
    /// The most expensive first.
    pub(crate) regressions: Vec<Regression>,
    /// The most variable first.
    pub(crate) variable: Vec<Variable>,
    pub(crate) currency: String,
    pub(crate) covers: Covers,
    /// What the numbers cannot tell, in words.
    pub(crate) notes: Vec<String>,
}

/// Attempts that an answer may count, whatever was asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Covers {
    pub(crate) attempts: u64,
    /// Earliest and latest end, whole seconds; `None` without attempts.
    pub(crate) ended: Option<(u32, u32)>,
    /// Older attempts are no longer in memory.
    pub(crate) cut: bool,
}

impl Stats {
    /// Counts what is asked for. Takes some ten milliseconds for a million attempts: not for a thread that serves others.
    ///
    /// # Errors
    /// There would be too many steps of time.
    pub(crate) fn report(&self, question: &Question) -> Result<Report, Fault> {
        let Question { filter, group_by, step_ms } = question;
        let settings = &self.0.settings;
        let mut notes = Vec::new();
        let mut moved = self.0.moved.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, covers, changed) = {
            let mut book = self.book();
            let rows = book.rows();
            let prices = prices(&book, settings);
            let sieve = Sieve::new(filter, &book, &rows, settings, &mut notes);
            let groups = Groups::new(group_by, &book, &rows, settings, &mut notes);
            let covers = Covers::of(&rows, book.gone > 0);
            let changed = std::mem::take(&mut book.changed);
            (Count { rows, sieve, groups, prices, step_ms: *step_ms }, covers, changed)
        };
        moved.update(&count.rows, changed);
        let regressions = if count.sieve.is_closed() {
            Vec::new()
        } else {
            moved.answer(filter, count.sieve.place(), REGRESSIONS)
        };
        drop(moved);
        let counted = count.count(VARIABLE)?;
        covers.explain(filter, &mut notes);
        Ok(Report {
            totals: counted.totals,
            groups: counted.groups,
            steps: counted.steps,
            regressions,
            variable: counted.variable,
            currency: settings.currency.clone(),
            covers,
            notes,
        })
    }

    /// Looks for needs that have moved, so that the first question does not have to.
    pub(crate) fn warm(&self) {
        let mut moved = self.0.moved.lock().unwrap_or_else(PoisonError::into_inner);
        let (rows, changed) = {
            let mut book = self.book();
            (book.rows(), std::mem::take(&mut book.changed))
        };
        moved.update(&rows, changed);
    }
}

/// The price in each pool; that of all others is the last.
fn prices(book: &Book, settings: &super::Settings) -> Vec<Price> {
    let mut prices: Vec<Price> = book.pools.texts().iter().map(|pool| settings.prices.of(pool)).collect();
    prices.push(settings.prices.of(""));
    prices
}

impl Covers {
    fn of(rows: &Rows, cut: bool) -> Self {
        let mut covers = Self { cut, ..Self::default() };
        for chunk in &rows.chunks {
            covers.attempts += chunk.rows().len() as u64;
            if let Some((first, last)) = chunk.ended() {
                let (earliest, latest) = covers.ended.unwrap_or((first, last));
                covers.ended = Some((earliest.min(first), latest.max(last)));
            }
        }
        covers
    }

    /// Says where the filter's time lies outside of what is counted.
    fn explain(&self, filter: &Filter, notes: &mut Vec<String>) {
        let Some((first, last)) = self.ended else {
            notes.push("no attempt has ended here yet".to_owned());
            return;
        };
        let time = |seconds: u32| {
            humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds.into()))
        };
        if filter.from_unix_ms.is_some_and(|from| from / 1000 > u64::from(last)) {
            notes.push(format!("no attempt has ended in that time: the last one ended at {}", time(last)));
        }
        let before = |ms: Option<u64>| ms.is_none_or(|ms| ms / 1000 < u64::from(first));
        if self.cut && before(filter.from_unix_ms) {
            notes.push(format!(
                "counts attempts that ended at or after {}: older ones are no longer in memory (history_attempts)",
                time(first)
            ));
        } else if filter.to_unix_ms.is_some_and(|to| to / 1000 < u64::from(first)) {
            notes.push(format!("no attempt has ended in that time: the first one ended at {}", time(first)));
        }
    }
}
