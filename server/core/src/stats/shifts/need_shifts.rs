//! Cache of builds with a need that shifted. A line (builds that differ only in version, compiler and stack) is
//! checked again only after one of its attempts was added or removed.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use foldhash::fast::RandomState;

use plimsoll_proto::measured::IncompleteNeed;

use crate::domain::AttemptBrief;
use crate::stats::{
    attempts::attempt_table::RowsSnapshot,
    attempts::interner::NONE,
    attempts::labels::{Label, MAX_NAMES},
    counting::row_filter::DimensionFilter,
    question::Filter,
    shifts::regressions::{self, ProvenNeed, Regression, WINDOW_ATTEMPTS},
};

/// Most series of builds (attempts with one key, in order of time) checked in one pass over all rows: the positions of their rows take
/// some MB.
const SERIES_AT_ONCE: usize = 4096;

/// The shift of each series of builds that has one.
#[derive(Debug, Default)]
pub(in crate::stats) struct NeedShifts(HashMap<u32, PlacedShift>);

/// A shift, with pool, owner and labels of the first attempt after it.
#[derive(Debug)]
struct PlacedShift {
    shift: Regression,
    owner: u16,
    pool: u16,
    ref_class: u8,
    labels: Vec<Label>,
}

impl PlacedShift {
    fn new(shift: Regression, rows: &RowsSnapshot, (_, _, at, index): &RowPosition) -> Option<Self> {
        let chunk = rows.chunks.get(*at)?;
        let row = chunk.rows().get(*index)?;
        let label = |label: usize| {
            let label = u8::try_from(label).ok()?;
            Some((label, chunk.label(label, *index))).filter(|(_, value)| *value != NONE)
        };
        Some(Self {
            shift,
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
    /// Computes the shifts of the lines of builds in `changed` again.
    pub(in crate::stats) fn update(&mut self, rows: &RowsSnapshot, changed: HashSet<u32, RandomState>) {
        let mut changed: Vec<u32> = changed.into_iter().collect();
        changed.sort_unstable();
        for lines in changed.chunks(SERIES_AT_ONCE) {
            self.0.retain(|line, _| lines.binary_search(line).is_err());
            let sorted_rows = sorted_rows(rows, lines);
            let of_line = |line: &[RowPosition]| Some((line.first()?.0, shift(rows, line)?));
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
        let asked = |found: &&PlacedShift| {
            filter.takes_time(found.shift.ended_unix_ms)
                && filter.takes_key(&found.shift.key)
                && found.is_in(place)
        };
        let found = self.0.values().filter(asked);
        let mut all: Vec<&Regression> = found.map(|found| &found.shift).collect();
        let cost = |regression: &Regression| regression.extra_gib_hours;
        all.sort_by(|a, b| cost(b).total_cmp(&cost(a)).then_with(|| a.attempt.cmp(&b.attempt)));
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

/// The shift of one line of builds, with its newest rows first.
fn shift(rows: &RowsSnapshot, line: &[RowPosition]) -> Option<PlacedShift> {
    let brief = |(_, _, at, index): &RowPosition| Some(&*rows.chunks.get(*at)?.rows().get(*index)?.brief);
    let mut newest: Vec<(ProvenNeed<'_>, &RowPosition)> = line
        .iter()
        .take(WINDOW_ATTEMPTS)
        .filter_map(|sorted_rows| {
            // with pauses a build needs less at once than without
            let brief =
                brief(sorted_rows).filter(|brief| brief.incomplete() != Some(IncompleteNeed::Paused))?;
            Some(((brief, brief.proven_need()?), sorted_rows))
        })
        .collect();
    let order = |brief: &AttemptBrief| (brief.ended_unix_ms(), brief.attempt.clone());
    newest.sort_by_cached_key(|((brief, _), _)| order(brief));
    let needs: Vec<ProvenNeed<'_>> = newest.iter().map(|(needed, _)| *needed).collect();
    let regression = regressions::regression(&needs)?;
    let (_, first) = newest.iter().find(|((brief, _), _)| brief.attempt == regression.attempt)?;
    PlacedShift::new(regression, rows, first)
}
