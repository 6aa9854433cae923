//! Cache of builds with a need that shifted or forms several groups. A line (builds that differ only in version, compiler and stack) is
//! checked again only after one of its attempts was added or removed.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use foldhash::fast::RandomState;

use crate::domain::AttemptBrief;
use crate::stats::{
    attempts::attempt_table::RowsSnapshot,
    attempts::interner::NONE,
    attempts::labels::{Label, MAX_NAMES},
    counting::row_filter::DimensionFilter,
    question::Filter,
    shifts::need_groups::{self, MixedNeed},
    shifts::regressions::{self, ProvenNeed, Regression, WINDOW_ATTEMPTS},
};

/// Most series of builds (attempts with one key, in order of time) checked in one pass over all rows: the positions of their rows take
/// some MB.
const SERIES_AT_ONCE: usize = 4096;

/// What was found in each series of builds.
#[derive(Debug, Default)]
pub(in crate::stats) struct NeedShifts(HashMap<u32, SeriesFindings>);

/// What was found in one series of builds.
#[derive(Debug)]
struct SeriesFindings {
    regression: Option<PlacedFinding<Regression>>,
    mixed: Option<PlacedFinding<MixedNeed>>,
}

/// A finding, with pool, owner and labels of the attempt that it names: the first one after a shift, else the newest.
#[derive(Debug)]
struct PlacedFinding<T> {
    finding: T,
    owner: u16,
    pool: u16,
    ref_class: u8,
    labels: Vec<Label>,
}

impl<T> PlacedFinding<T> {
    fn new(finding: T, rows: &RowsSnapshot, (_, _, at, index): &RowPosition) -> Option<Self> {
        let chunk = rows.chunks.get(*at)?;
        let row = chunk.rows().get(*index)?;
        let label = |label: usize| {
            let label = u8::try_from(label).ok()?;
            Some((label, chunk.label(label, *index))).filter(|(_, value)| *value != NONE)
        };
        Some(Self {
            finding,
            owner: row.owner,
            pool: row.pool,
            ref_class: row.ref_class,
            labels: (0..MAX_NAMES).filter_map(label).collect(),
        })
    }

    fn is_in(&self, place: &DimensionFilter) -> bool {
        let value = |label| {
            let known = self.labels.iter().find(|(name, _)| *name == label);
            known.map_or(NONE, |(_, value)| *value)
        };
        place.takes(self.owner, self.pool, self.ref_class, value)
    }
}

/// Line of builds, end, chunk and index of a row. Sorted, the rows of a line are together, the newest row first.
type RowPosition = (u32, Reverse<u32>, usize, usize);

impl NeedShifts {
    /// Computes the findings of the lines of builds in `changed` again.
    pub(in crate::stats) fn update(&mut self, rows: &RowsSnapshot, changed: HashSet<u32, RandomState>) {
        let mut changed: Vec<u32> = changed.into_iter().collect();
        changed.sort_unstable();
        for lines in changed.chunks(SERIES_AT_ONCE) {
            self.0.retain(|line, _| lines.binary_search(line).is_err());
            let sorted_rows = sorted_rows(rows, lines);
            let of_line = |line: &[RowPosition]| Some((line.first()?.0, check_series(rows, line)?));
            self.0.extend(sorted_rows.chunk_by(|a, b| a.0 == b.0).filter_map(of_line));
        }
    }

    /// Shifts of need, the most expensive first, at most `most`. The filter's time range applies to the attempt with which a shift began;
    /// the level before it is computed from all attempts. Outcome and cause in the filter are ignored.
    pub(in crate::stats) fn regressions(
        &self,
        filter: &Filter,
        place: &DimensionFilter,
        most: usize,
    ) -> Vec<Regression> {
        let asked = |found: &&PlacedFinding<Regression>| {
            filter.takes_time(found.finding.ended_unix_ms)
                && filter.takes_key(&found.finding.key)
                && found.is_in(place)
        };
        let found = self.0.values().filter_map(|line| line.regression.as_ref()).filter(asked);
        let mut all: Vec<&Regression> = found.map(|found| &found.finding).collect();
        let cost = |regression: &Regression| regression.extra_gib_hours;
        all.sort_by(|a, b| cost(b).total_cmp(&cost(a)).then_with(|| a.attempt.cmp(&b.attempt)));
        all.into_iter().take(most).cloned().collect()
    }

    /// Builds with several groups of need, the most expensive first, at most `most`. The filter must match the newest attempt of the build.
    pub(in crate::stats) fn mixed(
        &self,
        filter: &Filter,
        place: &DimensionFilter,
        most: usize,
    ) -> Vec<MixedNeed> {
        let asked = |found: &&PlacedFinding<MixedNeed>| {
            filter.takes_time(found.finding.ended_unix_ms)
                && filter.takes_key(&found.finding.key)
                && found.is_in(place)
        };
        let found = self.0.values().filter_map(|line| line.mixed.as_ref()).filter(asked);
        let mut all: Vec<&MixedNeed> = found.map(|found| &found.finding).collect();
        let cost = |mixed: &MixedNeed| mixed.extra_gib_hours;
        all.sort_by(|a, b| cost(b).total_cmp(&cost(a)).then_with(|| a.key.describe().cmp(&b.key.describe())));
        all.into_iter().take(most).cloned().collect()
    }
}

/// Positions of the rows in these lines that show a need, sorted. `lines` is sorted.
fn sorted_rows(rows: &RowsSnapshot, lines: &[u32]) -> Vec<RowPosition> {
    let asked = |line: u32| lines.binary_search(&line).is_ok();
    let of_build: Vec<Option<u32>> =
        rows.builds.iter().map(|build| Some(build.line).filter(|line| asked(*line))).collect();
    let mut sorted_rows = Vec::new();
    for (at, chunk) in rows.chunks.iter().enumerate() {
        for (index, row) in chunk.rows().iter().enumerate() {
            let line =
                usize::try_from(row.build).ok().and_then(|build| of_build.get(build).copied().flatten());
            if let Some(line) = line.filter(|_| row.proven_gib().is_some()) {
                sorted_rows.push((line, Reverse(row.ended), at, index));
            }
        }
    }
    sorted_rows.sort_unstable();
    sorted_rows
}

/// Checks one line of builds, with its newest rows first; `None` if nothing was found.
fn check_series(rows: &RowsSnapshot, line: &[RowPosition]) -> Option<SeriesFindings> {
    let brief = |(_, _, at, index): &RowPosition| Some(&*rows.chunks.get(*at)?.rows().get(*index)?.brief);
    let mut newest: Vec<(ProvenNeed<'_>, &RowPosition)> = line
        .iter()
        .take(WINDOW_ATTEMPTS)
        .filter_map(|sorted_rows| {
            brief(sorted_rows).and_then(|brief| Some(((brief, brief.proven_need()?), sorted_rows)))
        })
        .collect();
    let order = |brief: &AttemptBrief| (brief.ended_unix_ms(), brief.attempt.clone());
    newest.sort_by_cached_key(|((brief, _), _)| order(brief));
    let needs: Vec<ProvenNeed<'_>> = newest.iter().map(|(needed, _)| *needed).collect();
    let regression = regressions::regression(&needs).and_then(|regression| {
        let (_, sorted_rows) = newest.iter().find(|((brief, _), _)| brief.attempt == regression.attempt)?;
        PlacedFinding::new(regression, rows, sorted_rows)
    });
    let mixed = need_groups::mixed_need(&needs)
        .and_then(|mixed| PlacedFinding::new(mixed, rows, newest.last().map(|(_, last)| *last)?));
    (regression.is_some() || mixed.is_some()).then_some(SeriesFindings { regression, mixed })
}
