//! Collects the attempts of each package in a time window, for proposals, starting with the packages that request most.

use std::collections::HashMap;

use super::{
    Coverage, Filter, PoolPrices, Stats,
    attempts::attempt_table::RowsSnapshot,
    attempts::row::AttemptRow,
    counting::row_filter::RowFilter,
    prices::Price,
    report::{answer_currency, prices_by_pool},
};
use crate::{
    domain::{Hints, Key},
    recommend::{MAX_BUILDS, NeedSource, Workload, WorkloadAttempt},
};

/// Most packages examined. Each takes some predictions.
pub const MAX_WORKLOADS: usize = 500;
/// Most attempts of one package from which today's sizes are read: the newest ones.
const NEWEST_ATTEMPTS: usize = 5;

/// Which packages to make proposals for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkloadQuestion {
    /// Conditions that an attempt must meet to be included.
    pub filter: Filter,
    /// Price of a GiB for an hour in every pool; `None`: the prices of the pools and of the settings.
    pub gib_hour: Option<f64>,
    /// Whether the caller may not see other projects than the filter's: then not even sums include them.
    pub confined: bool,
}

/// The packages to make proposals for, with their attempts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Workloads {
    /// The packages that request most, at most [`MAX_WORKLOADS`], in no order.
    pub largest: Vec<Workload>,
    /// Number of other packages.
    pub left_out: u64,
    /// The earliest end of any attempt that the server still has, whether or not it matches the filter, in milliseconds since 1970. In a
    /// confined query only attempts of the filter's project count.
    pub first_ended_unix_ms: Option<u64>,
    /// Whether at least one attempt has a price.
    pub priced: bool,
    /// Currency of the prices; empty if none is configured.
    pub currency: String,
    /// Limitations of the numbers, as text.
    pub notes: Vec<String>,
}

/// Rows of one package while they are collected.
#[derive(Default)]
struct FoundRows<'r> {
    name: (&'r str, &'r str),
    asked_total: f64,
    rows: Vec<&'r AttemptRow>,
}

impl Stats {
    /// Finds the packages of a query with their attempts. It takes as long as a report, and some memory for each attempt, so it must not be
    /// called on a thread that serves other requests.
    pub fn workloads(&self, question: &WorkloadQuestion, pools: &PoolPrices) -> Workloads {
        let WorkloadQuestion { filter, gib_hour, confined } = question;
        let settings = &self.0.settings;
        let mut notes = Vec::new();
        let (rows, row_filter, prices, gone) = {
            let table = self.table();
            let rows = table.rows();
            let row_filter = RowFilter::new(filter, &table, &rows, settings, &mut notes);
            (rows, row_filter, prices_by_pool(&table, settings, pools), table.dropped > 0)
        };
        let prices = match gib_hour {
            Some(gib_hour) => vec![Price { gib_hour: *gib_hour, core_hour: 0.0 }],
            None => prices,
        };
        let covers = match confined {
            true => Coverage::within(&rows, gone, &filter.project),
            false => Coverage::of_rows(&rows, gone),
        };
        covers.explain(filter, &mut notes);
        let mut found = by_package(&rows, &row_filter);
        let all = found.len();
        found.sort_by(|a, b| b.asked_total.total_cmp(&a.asked_total).then_with(|| a.name.cmp(&b.name)));
        found.truncate(MAX_WORKLOADS);
        let workloads: Vec<Workload> =
            found.into_iter().map(|found| workload_of(found, &rows, &prices)).collect();
        let mut attempts = workloads.iter().flat_map(|workload| &workload.attempts);
        Workloads {
            left_out: u64::try_from(all.saturating_sub(workloads.len())).unwrap_or(u64::MAX),
            first_ended_unix_ms: covers.ended.and_then(|(first, _)| earliest_end_within(&rows, first)),
            priced: attempts.any(|attempt| attempt.price > 0.0),
            currency: answer_currency(settings, pools, &mut notes),
            largest: workloads,
            notes,
        }
    }
}

/// The earliest end of an attempt within this second, in milliseconds since 1970.
fn earliest_end_within(rows: &RowsSnapshot, second: u32) -> Option<u64> {
    let begins = |chunk_ended: Option<(u32, u32)>| chunk_ended.is_some_and(|(first, _)| first <= second);
    let chunks = rows.chunks.iter().filter(|chunk| begins(chunk.end_range()));
    let found = chunks.flat_map(|chunk| chunk.rows()).filter(|row| row.ended == second);
    found.map(|row| row.brief.ended_unix_ms()).min()
}

fn by_package<'r>(rows: &'r RowsSnapshot, row_filter: &RowFilter) -> Vec<FoundRows<'r>> {
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    let mut found: Vec<FoundRows<'r>> = Vec::new();
    // the package is looked up once for each build, not for each attempt
    let mut of_build: Vec<usize> = Vec::with_capacity(rows.builds.len());
    for build in rows.builds.iter() {
        let name = (build.key.project.as_str(), build.key.package.as_str());
        let place = *places.entry(name).or_insert(found.len());
        if place == found.len() {
            found.push(FoundRows { name, ..FoundRows::default() });
        }
        of_build.push(place);
    }
    for chunk in rows.chunks.iter().filter(|chunk| row_filter.may_take(chunk)) {
        let counts = |(index, row): &(usize, &AttemptRow)| row_filter.takes(chunk, *index, row);
        for (_, row) in chunk.rows().iter().enumerate().filter(counts) {
            let place = usize::try_from(row.build).ok().and_then(|build| of_build.get(build));
            let Some(package) = place.and_then(|place| found.get_mut(*place)) else { continue };
            let held = f64::from(row.asked) * f64::from(row.wall);
            package.asked_total += if held.is_nan() { 0.0 } else { held };
            package.rows.push(row);
        }
    }
    found.retain(|package| !package.rows.is_empty());
    found
}

fn workload_of(found: FoundRows<'_>, all: &RowsSnapshot, prices: &[Price]) -> Workload {
    let FoundRows { name: (project, package), mut rows, .. } = found;
    rows.sort_by(|a, b| b.ended.cmp(&a.ended).then_with(|| b.brief.attempt.cmp(&a.brief.attempt)));
    let trusted = || rows.iter().filter(|row| !row.brief.untrusted);
    let mut numbers: Vec<u32> = Vec::with_capacity(MAX_BUILDS);
    for row in trusted() {
        if numbers.len() < MAX_BUILDS && !numbers.contains(&row.build) {
            numbers.push(row.build);
        }
    }
    let build = |number: u32| all.builds.get(usize::try_from(number).ok()?);
    let key = |number| {
        let build = build(number)?;
        let build_jobs = Some(u32::from(build.jobs)).filter(|jobs| *jobs > 0);
        Some(Key { hints: Hints { build_jobs, ..Hints::default() }, ..Key::clone(&build.key) })
    };
    let requested = trusted().filter(|row| row.brief.memory_asked().is_some());
    Workload {
        project: project.to_owned(),
        package: package.to_owned(),
        builds: numbers.into_iter().filter_map(key).collect(),
        newest: requested.take(NEWEST_ATTEMPTS).map(|row| row.brief.attempt.clone()).collect(),
        attempts: rows.iter().map(|row| attempt(row, prices)).collect(),
    }
}

fn attempt(row: &AttemptRow, prices: &[Price]) -> WorkloadAttempt {
    let price = prices.get(usize::from(row.pool)).or_else(|| prices.last()).copied().unwrap_or_default();
    WorkloadAttempt {
        asked: row.brief.memory_asked(),
        wall: row.brief.wall,
        price: price.gib_hour,
        need: row.brief.proven_need(),
        source: match (row.is_lower_bound(), row.brief.incomplete().is_some()) {
            (true, _) => NeedSource::Stopped,
            (false, true) => NeedSource::Incomplete,
            (false, false) => NeedSource::Measured,
        },
        untrusted: row.brief.untrusted,
        failed_for_memory: row.failed_for_memory(),
    }
}
