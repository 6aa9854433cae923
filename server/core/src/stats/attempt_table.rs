//! All finished attempts in memory, as rows for statistics.
//!
//! Sums by hour and by everything that may be queried would be as many as the attempts: a fleet has in a year about as many (hour, build,
//! owner, pool, class, labels) as attempts. So compact rows are kept and counted at memory speed: a million in some ten milliseconds,
//! exact for any time range and filter.
//!
//! A row stays as long as the history keeps its attempt. A count reads shared chunks; a chunk that changes meanwhile is copied first.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use foldhash::fast::RandomState;

use super::{
    Settings,
    builds::{Build, Builds},
    chunk::{self, Chunk, FullRow},
    interner::Interner,
    labels::LabelTable,
    row::{AttemptRow, RetryMark, RowFlag, error_of},
};
use crate::domain::{AttemptBrief, AttemptId, RetryStatus, StatsFields};

/// Most distinct owners, and most distinct pools.
const NAMES: usize = 32_768;
/// A chunk with fewer rows than this is merged away.
const FEW_ROWS: usize = chunk::ROWS / 8;
/// Rows checked for each added row, to find those whose attempt the history dropped.
const ROWS_SWEPT: usize = 64;

/// All rows, and the tables that their numbers refer to.
#[derive(Debug)]
pub(super) struct AttemptTable {
    pub(super) chunks: Vec<Arc<Chunk>>,
    pub(super) builds: Builds,
    pub(super) owners: Interner,
    pub(super) pools: Interner,
    pub(super) labels: LabelTable,
    /// Attempts dropped because the history was full.
    pub(super) gone: u64,
    /// Lines of builds whose needs may have shifted since the last check.
    pub(super) changed: HashSet<u32, RandomState>,
    early: EarlyVerdicts,
    /// The last ref and its class: consecutive attempts often share it.
    last_ref: (String, u8),
    /// Where the sweep continues: chunk and row.
    swept: (usize, usize),
}

/// An attempt, and the project for which a verdict on it was requested; empty for none.
type VerdictSubject = (AttemptId, Box<str>);

/// Verdicts on attempts that have no row yet, as far as they refuse a retry, or allow one that another verdict refuses.
#[derive(Debug, Default)]
struct EarlyVerdicts {
    refused: HashMap<VerdictSubject, bool>,
    /// Oldest first.
    order: VecDeque<VerdictSubject>,
}

impl EarlyVerdicts {
    /// Whether the verdict in force refuses a retry: one for the attempt's project takes precedence over one without a project.
    fn take(&mut self, brief: &AttemptBrief) -> bool {
        if self.refused.is_empty() {
            return false;
        }
        let mut of = |project: &str| self.refused.remove(&(brief.attempt.clone(), project.into()));
        let (own, unnamed) = (of(&brief.key.project), of(""));
        own.or(unnamed).unwrap_or(false)
    }
}

/// An unchanging copy of the rows, for counting.
#[derive(Debug, Clone)]
pub(super) struct RowsSnapshot {
    pub(super) chunks: Vec<Arc<Chunk>>,
    pub(super) builds: Arc<Vec<Build>>,
}

impl AttemptTable {
    pub(super) fn new() -> Self {
        Self {
            chunks: Vec::new(),
            builds: Builds::default(),
            owners: Interner::new(NAMES),
            pools: Interner::new(NAMES),
            labels: LabelTable::default(),
            gone: 0,
            changed: HashSet::default(),
            early: EarlyVerdicts::default(),
            last_ref: (String::new(), 0),
            swept: (0, 0),
        }
    }

    /// Adds an attempt of the history. [`Self::relate`] then sets what it retries.
    pub(super) fn add(&mut self, beside: &StatsFields<'_>, brief: &Arc<AttemptBrief>, settings: &Settings) {
        let build = self.builds.acquire(brief);
        let mut row = AttemptRow::new(brief, beside, build);
        row.owner = self.owners.acquire(beside.owner, true);
        row.pool = self.pools.acquire(beside.pool, true);
        if self.last_ref.0 != beside.git_ref {
            self.last_ref = (beside.git_ref.to_owned(), settings.ref_classes.of(beside.git_ref));
        }
        row.ref_class = self.last_ref.1;
        if self.early.take(brief) {
            row.set(RowFlag::Refused);
        }
        self.changed.insert(self.builds.line(build));
        let labels = self.labels.acquire(beside.labels, brief.untrusted);
        self.push(FullRow { row, error: error_of(beside), labels });
    }

    fn push(&mut self, whole: FullRow) {
        if self.chunks.last().is_none_or(|chunk| chunk.is_full()) {
            self.chunks.push(Arc::default());
        }
        if let Some(chunk) = self.chunks.last_mut() {
            Arc::make_mut(chunk).push(whole);
        }
    }

    /// Position of an attempt's row, if there is one; searches from the newest end.
    fn find(&self, brief: &AttemptBrief) -> Option<(usize, usize)> {
        let found = |(at, chunk): (usize, &Arc<Chunk>)| chunk.find(brief).map(|row| (at, row));
        self.chunks.iter().enumerate().rev().find_map(found)
    }

    /// Removes the row of an attempt.
    pub(super) fn remove(&mut self, brief: &AttemptBrief) {
        if let Some((chunk, row)) = self.find(brief) {
            drop(self.take(chunk, row));
            self.gone += 1;
        }
    }

    fn take(&mut self, at: usize, row: usize) -> Option<FullRow> {
        let chunk = Arc::make_mut(self.chunks.get_mut(at)?);
        let whole = chunk.take(row)?;
        if chunk.rows().len() < FEW_ROWS && at + 1 < self.chunks.len() {
            self.refill(at);
        }
        self.changed.insert(self.builds.line(whole.row.build));
        self.builds.release(whole.row.build);
        self.owners.release(whole.row.owner);
        self.pools.release(whole.row.pool);
        self.labels.release(&whole.labels);
        Some(whole)
    }

    /// Moves the rows of a nearly empty chunk to the end and removes it. Adjusts the position of the sweep, because later chunks move up.
    fn refill(&mut self, at: usize) {
        let mut chunk = Arc::unwrap_or_clone(self.chunks.remove(at));
        let (swept, row) = self.swept;
        self.swept = match swept.cmp(&at) {
            Ordering::Less => (swept, row),
            Ordering::Equal => (at, 0),
            Ordering::Greater => (swept - 1, row),
        };
        while let Some(whole) = chunk.take(0) {
            self.push(whole);
        }
    }

    /// Replaces the values of an attempt. [`Self::relate`] then sets what it retries.
    pub(super) fn replace_summary(
        &mut self,
        earlier: &AttemptBrief,
        beside: &StatsFields<'_>,
        brief: &Arc<AttemptBrief>,
        settings: &Settings,
    ) {
        let Some((chunk, row)) = self.find(earlier) else { return };
        let Some(whole) = self.take(chunk, row) else { return };
        self.add(beside, brief, settings);
        if whole.row.is(RowFlag::Refused) {
            self.refuse(brief, true);
        }
    }

    /// The attempts whose agents name this one as the attempt they retry. They ended later.
    pub(super) fn retries_of(&self, original: &AttemptBrief) -> Vec<Arc<AttemptBrief>> {
        let id = Some(&original.attempt);
        let since = u32::try_from(original.ended_unix_ms() / 1000).unwrap_or(u32::MAX);
        let later = self.chunks.iter().filter(|chunk| chunk.ended().is_some_and(|(_, last)| last >= since));
        let retries =
            |row: &&AttemptRow| row.retried != RetryMark::NOTHING && row.brief.retries.as_deref() == id;
        later.flat_map(|chunk| chunk.rows()).filter(retries).map(|row| Arc::clone(&row.brief)).collect()
    }

    /// Sets the retry status of attempts.
    pub(super) fn relate(&mut self, attempts: &[(Arc<AttemptBrief>, RetryStatus)]) {
        for (brief, after) in attempts {
            if let Some((chunk, row)) = self.find(brief)
                && let Some(chunk) = self.chunks.get_mut(chunk)
                && chunk.rows().get(row).is_some_and(|row| row.retried != RetryMark::of(*after))
            {
                Arc::make_mut(chunk).set_retried(row, RetryMark::of(*after));
            }
        }
    }

    /// Sets the retry status of all attempts: of those in jobs that ran more than once, and of those that name an attempt they retry.
    pub(super) fn relate_all<'h>(
        &mut self,
        in_jobs: impl Iterator<Item = (&'h Arc<AttemptBrief>, RetryStatus)>,
        after: impl Fn(&AttemptBrief) -> RetryStatus,
    ) {
        // there is one pointer for each attempt, and following each pointer takes longer than everything else
        let in_jobs: HashMap<*const AttemptBrief, RetryStatus, RandomState> =
            in_jobs.map(|(brief, after)| (Arc::as_ptr(brief), after)).collect();
        for chunk in &mut self.chunks {
            let changed = |row: &AttemptRow| {
                let known = in_jobs.get(&Arc::as_ptr(&row.brief)).copied();
                let says_so = row.retried == RetryMark::UNKNOWN;
                let after = known.or_else(|| says_so.then(|| after(&row.brief)))?;
                Some(RetryMark::of(after)).filter(|after| row.retried != *after)
            };
            let found: Vec<(usize, RetryMark)> = chunk
                .rows()
                .iter()
                .enumerate()
                .filter_map(|(index, row)| Some((index, changed(row)?)))
                .collect();
            for (index, after) in found {
                Arc::make_mut(chunk).set_retried(index, after);
            }
        }
    }

    /// Sets whether the verdict in force on an attempt refuses a retry.
    pub(super) fn refuse(&mut self, brief: &AttemptBrief, refuses: bool) {
        if let Some((chunk, row)) = self.find(brief)
            && let Some(chunk) = self.chunks.get_mut(chunk)
        {
            Arc::make_mut(chunk).set(row, RowFlag::Refused, refuses);
        }
    }

    /// Records that the verdict on an attempt without a row no longer refuses.
    pub(super) fn allow_early(&mut self, attempt: &AttemptId, project: &str) {
        let judged = (attempt.clone(), Box::from(project));
        if self.early.refused.remove(&judged).is_some() {
            self.early.order.retain(|refused| *refused != judged);
        }
    }

    /// Records whether the verdict on an attempt without a row refuses. At most `most` such attempts are kept.
    pub(super) fn refuse_early(&mut self, attempt: &AttemptId, project: &str, refuses: bool, most: usize) {
        let judged: VerdictSubject = (attempt.clone(), project.into());
        if self.early.refused.insert(judged.clone(), refuses).is_none() {
            self.early.order.push_back(judged);
        }
        self.forget_early(most);
    }

    /// Drops the oldest of them.
    pub(super) fn forget_early(&mut self, most: usize) {
        while self.early.order.len() > most {
            if let Some(oldest) = self.early.order.pop_front() {
                self.early.refused.remove(&oldest);
            }
        }
    }

    /// Checks some rows and removes those whose attempt the history dropped: the row's pointer is then the only one. Returns true at the
    /// end of all rows.
    pub(super) fn sweep(&mut self) -> bool {
        for _row in 0..ROWS_SWEPT {
            let (at, index) = self.swept;
            let Some(chunk) = self.chunks.get(at) else {
                self.swept = (0, 0);
                return true;
            };
            match chunk.rows().get(index) {
                None => self.swept = (at + 1, 0),
                Some(row) if Arc::strong_count(&row.brief) == 1 => {
                    drop(self.take(at, index));
                    self.gone += 1;
                }
                Some(_) => self.swept = (at, index + 1),
            }
        }
        false
    }

    /// Removes all rows whose attempt the history dropped.
    pub(super) fn sweep_all(&mut self) {
        self.swept = (0, 0);
        while !self.sweep() {}
    }

    /// A snapshot of the rows.
    pub(super) fn rows(&self) -> RowsSnapshot {
        RowsSnapshot { chunks: self.chunks.clone(), builds: self.builds.all() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::test_summary;

    #[test]
    fn one_sweep_finds_all_that_were_left_behind_also_behind_a_chunk_that_goes() {
        let mut table = AttemptTable::new();
        let mut briefs = Vec::new();
        for n in 0..chunk::ROWS * 3 {
            let summary = test_summary(&n.to_string(), "zlib", "1", 10);
            let brief = Arc::new(AttemptBrief::from(&summary));
            table.add(&(&summary).into(), &brief, &Settings::default());
            briefs.push(brief);
        }
        // the first chunk goes when the sweep is in its middle, and the second begins with what is left behind
        let kept = |n: usize| !(200..chunk::ROWS + 200).contains(&n);
        let briefs: Vec<_> =
            briefs.into_iter().enumerate().filter(|(n, _)| kept(*n)).map(|(_, brief)| brief).collect();
        table.sweep_all();
        let rows: usize = table.chunks.iter().map(|chunk| chunk.rows().len()).sum();
        assert_eq!((rows, table.gone), (briefs.len(), 2048));
    }
}
