//! Computes the answer to a query.

use std::{
    sync::PoisonError,
    time::{Duration, UNIX_EPOCH},
};

use super::{
    Filter, Question, Stats,
    attempts::attempt_table::{AttemptTable, RowsSnapshot},
    attempts::row::AttemptRow,
    counting::count::Aggregation,
    counting::groups::{Group, Groups},
    counting::row_filter::RowFilter,
    counting::steps::TimeStep,
    counting::totals::StatsTotals,
    prices::{PoolPrices, Price},
    shifts::package_variation::PackageVariation,
    shifts::regressions::Regression,
};
use crate::domain::FieldViolation;

/// Most shifts of need in one answer.
const MAX_REGRESSIONS: usize = 100;
/// Most packages in one answer: those with the needs that vary most.
const MAX_VARIABLE: usize = 100;

/// The answer to a query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Totals over all matching attempts.
    pub totals: StatsTotals,
    /// The groups, largest waste first.
    pub groups: Vec<Group>,
    /// The time steps, oldest first.
    pub steps: Vec<TimeStep>,
    /// Shifts of need, the most expensive first.
    pub regressions: Vec<Regression>,
    /// Packages with needs that vary, the most variable first.
    pub variable: Vec<PackageVariation>,
    /// Currency of all amounts; empty without prices.
    pub currency: String,
    /// The attempts that were available for the answer.
    pub covers: Coverage,
    /// Limitations of the numbers, as text.
    pub notes: Vec<String>,
}

/// All attempts that the answer could include, before the filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Number of attempts that were available.
    pub attempts: u64,
    /// Earliest and latest end, seconds since 1970; `None` if there are no attempts.
    pub ended: Option<(u32, u32)>,
    /// Whether there were older attempts that are no longer in memory.
    pub is_cut: bool,
}

impl Stats {
    /// Answers a query, with the pools' own prices where they have some, else those of the settings. It takes some ten milliseconds for a
    /// million attempts, so it must not be called on a thread that serves other requests.
    /// Errors: there would be too many time steps.
    pub fn report(&self, question: &Question, pools: &PoolPrices) -> Result<Report, FieldViolation> {
        let Question { filter, group_by, group_label, step_ms, confined } = question;
        let settings = &self.0.settings;
        let mut notes = Vec::new();
        let mut moved = self.0.moved.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, gone, changed) = {
            let mut table = self.table();
            let rows = table.rows();
            let prices = prices_by_pool(&table, settings, pools);
            let row_filter = RowFilter::new(filter, &table, &rows, settings, &mut notes);
            let groups = Groups::new((*group_by, group_label), &table, &rows, settings, &mut notes);
            let gone = table.dropped > 0;
            let changed = std::mem::take(&mut table.changed);
            (Aggregation { rows, row_filter, groups, prices, step_ms: *step_ms }, gone, changed)
        };
        moved.update(&count.rows, changed);
        let regressions = if count.row_filter.is_closed() {
            Vec::new()
        } else {
            moved.regressions(filter, count.row_filter.place(), MAX_REGRESSIONS)
        };
        drop(moved);
        let covers = match confined {
            true => Coverage::within(&count.rows, gone, &filter.project),
            false => Coverage::of_rows(&count.rows, gone),
        };
        let counted = count.count(MAX_VARIABLE)?;
        covers.explain(filter, &mut notes);
        let currency = answer_currency(settings, pools, &mut notes);
        Ok(Report {
            totals: counted.totals,
            groups: counted.groups,
            steps: counted.steps,
            regressions,
            variable: counted.variable,
            currency,
            covers,
            notes,
        })
    }

    /// Finds shifts of need in advance, so that the first query is fast.
    pub fn warm(&self) {
        let mut moved = self.0.moved.lock().unwrap_or_else(PoisonError::into_inner);
        let (rows, changed) = {
            let mut table = self.table();
            (table.rows(), std::mem::take(&mut table.changed))
        };
        moved.update(&rows, changed);
    }
}

/// The price in each pool by the pool's number; the last one is for all other pools.
pub(super) fn prices_by_pool(
    table: &AttemptTable,
    settings: &super::Settings,
    pools: &PoolPrices,
) -> Vec<Price> {
    let of = |pool: &str| pools.pools.get(pool).copied().unwrap_or_else(|| settings.prices.of(pool));
    let mut prices: Vec<Price> = table.pools.texts().iter().map(|pool| of(pool)).collect();
    prices.push(settings.prices.of(""));
    prices
}

/// The currency of an answer.
pub(super) fn answer_currency(
    settings: &super::Settings,
    pools: &PoolPrices,
    notes: &mut Vec<String>,
) -> String {
    let [ours, theirs] = [&settings.currency, &pools.currency];
    if !ours.is_empty() && !theirs.is_empty() && ours != theirs {
        notes.push(format!(
            "money adds {ours} of the settings to {theirs} of the file of pools: name one currency"
        ));
    }
    if ours.is_empty() { theirs.clone() } else { ours.clone() }
}

impl Coverage {
    pub(super) fn of_rows(rows: &RowsSnapshot, cut: bool) -> Self {
        let mut covers = Self { is_cut: cut, ..Self::default() };
        for chunk in &rows.chunks {
            covers.attempts += chunk.rows().len() as u64;
            if let Some((first, last)) = chunk.end_range() {
                let (earliest, latest) = covers.ended.unwrap_or((first, last));
                covers.ended = Some((earliest.min(first), latest.max(last)));
            }
        }
        covers
    }

    /// The attempts of one project alone that were available.
    pub(super) fn within(rows: &RowsSnapshot, cut: bool, project: &str) -> Self {
        let own: Vec<bool> = rows.builds.iter().map(|build| build.key.project == project).collect();
        let is_own =
            |row: &&AttemptRow| usize::try_from(row.build).ok().and_then(|at| own.get(at)) == Some(&true);
        let rows = rows.chunks.iter().flat_map(|chunk| chunk.rows()).filter(is_own);
        rows.fold(Self { is_cut: cut, ..Self::default() }, |covers, row| {
            let (first, last) = covers.ended.unwrap_or((row.ended, row.ended));
            let ended = Some((first.min(row.ended), last.max(row.ended)));
            Self { attempts: covers.attempts + 1, ended, ..covers }
        })
    }

    /// Adds a note if the filter's time range extends beyond the attempts in memory.
    pub(super) fn explain(&self, filter: &Filter, notes: &mut Vec<String>) {
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
        if self.is_cut && before(filter.from_unix_ms) {
            notes.push(format!(
                "counts attempts that ended at or after {}: older ones are no longer in memory (history_attempts)",
                time(first)
            ));
        } else if filter.to_unix_ms.is_some_and(|to| to / 1000 < u64::from(first)) {
            notes.push(format!("no attempt has ended in that time: the first one ended at {}", time(first)));
        }
    }
}
