//! Keeps all finished attempts in memory, as rows for statistics.
//!
//! Precomputed sums would take as much memory: in a year, a fleet has about as many combinations of hour, build, owner, pool, class and
//! labels as attempts. So compact rows are kept, and a query reads all of them: a million in some ten milliseconds, exact for any time
//! range and filter.
//!
//! A row stays as long as the history keeps its attempt. A query reads shared chunks of rows; a chunk that has to change meanwhile is
//! copied first.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use foldhash::fast::RandomState;

use crate::domain::{AttemptBrief, AttemptId, RetryStatus, StatsFields};
use crate::stats::{
    Settings,
    attempts::builds::{BuildIdentity, Builds},
    attempts::chunk::{self, Chunk, FullRow},
    attempts::interner::Interner,
    attempts::labels::LabelTable,
    attempts::row::{AttemptRow, RetryMark, RowFlag, error_of},
};

/// Most different owners, and most different pools.
const MAX_OWNER_OR_POOL_NAMES: usize = 32_768;
/// The rows of a chunk with fewer rows than this are moved to other chunks.
const MIN_CHUNK_ROWS: usize = chunk::ROWS_PER_CHUNK / 8;

/// All rows, and the tables of texts that their numbers refer to.
#[derive(Debug)]
pub(in crate::stats) struct AttemptTable {
    pub(in crate::stats) chunks: Vec<Arc<Chunk>>,
    pub(in crate::stats) builds: Builds,
    pub(in crate::stats) owners: Interner,
    pub(in crate::stats) pools: Interner,
    pub(in crate::stats) labels: LabelTable,
    /// Number of attempts removed because the history was full.
    pub(in crate::stats) dropped: u64,
    /// Lines (builds that differ only in version, compiler and stack) with rows added or removed since needs were last compared.
    pub(in crate::stats) changed: HashSet<u32, RandomState>,
    early_verdicts: EarlyVerdicts,
    /// The ref seen last, and its class: consecutive attempts often have the same ref.
    last_ref: (String, u8),
}

/// An attempt, and the project that a verdict on it was requested for; empty for none.
type VerdictSubject = (AttemptId, Box<str>);

/// Verdicts on attempts that have no row yet: those that refuse a retry, and those that allow one and override a refusal.
#[derive(Debug, Default)]
struct EarlyVerdicts {
    refused_attempts: HashMap<VerdictSubject, bool>,
    /// The subjects of `refused`, oldest first.
    order: VecDeque<VerdictSubject>,
}

impl EarlyVerdicts {
    /// Removes the verdicts on an attempt, and returns whether a retry is refused. A verdict for the attempt's project takes precedence
    /// over one without a project.
    fn take(&mut self, brief: &AttemptBrief) -> bool {
        if self.refused_attempts.is_empty() {
            return false;
        }
        let mut of = |project: &str| self.refused_attempts.remove(&(brief.attempt.clone(), project.into()));
        let (own, unnamed) = (of(&brief.key.project), of(""));
        own.or(unnamed).unwrap_or(false)
    }
}

/// A copy of the rows that does not change while it is counted.
#[derive(Debug, Clone)]
pub(in crate::stats) struct RowsSnapshot {
    pub(in crate::stats) chunks: Vec<Arc<Chunk>>,
    pub(in crate::stats) builds: Arc<Vec<BuildIdentity>>,
}

impl AttemptTable {
    pub(in crate::stats) fn new() -> Self {
        Self {
            chunks: Vec::new(),
            builds: Builds::default(),
            owners: Interner::new(MAX_OWNER_OR_POOL_NAMES),
            pools: Interner::new(MAX_OWNER_OR_POOL_NAMES),
            labels: LabelTable::default(),
            dropped: 0,
            changed: HashSet::default(),
            early_verdicts: EarlyVerdicts::default(),
            last_ref: (String::new(), 0),
        }
    }

    /// Adds an attempt of the history. [`Self::relate`] later sets which attempt it retries.
    pub(in crate::stats) fn add(
        &mut self,
        beside: &StatsFields<'_>,
        brief: &Arc<AttemptBrief>,
        settings: &Settings,
    ) {
        let build = self.builds.acquire(brief);
        let mut row = AttemptRow::new(brief, beside, build);
        row.owner = self.owners.acquire(beside.owner, true);
        row.pool = self.pools.acquire(beside.pool, true);
        if self.last_ref.0 != beside.git_ref {
            self.last_ref = (beside.git_ref.to_owned(), settings.ref_classes.of(beside.git_ref));
        }
        row.ref_class = self.last_ref.1;
        if self.early_verdicts.take(brief) {
            row.set_flag(RowFlag::Refused);
        }
        self.changed.insert(self.builds.line(build));
        let labels = self.labels.acquire(beside.labels, brief.untrusted);
        self.push(FullRow { row, error: error_of(beside), rescue: beside.rescue.map(Box::new), labels });
    }

    fn push(&mut self, whole: FullRow) {
        if self.chunks.last().is_none_or(|chunk| chunk.is_full()) {
            self.chunks.push(Arc::default());
        }
        if let Some(chunk) = self.chunks.last_mut() {
            Arc::make_mut(chunk).push(whole);
        }
    }

    /// Chunk and index of an attempt's row; `None` if there is none. The search starts at the newest rows.
    fn find(&self, brief: &AttemptBrief) -> Option<(usize, usize)> {
        let found = |(at, chunk): (usize, &Arc<Chunk>)| chunk.find(brief).map(|row| (at, row));
        self.chunks.iter().enumerate().rev().find_map(found)
    }

    /// Removes the row of an attempt.
    pub(in crate::stats) fn remove(&mut self, brief: &AttemptBrief) {
        if let Some((chunk, row)) = self.find(brief) {
            drop(self.take_row(chunk, row));
            self.dropped += 1;
            self.refill(chunk);
        }
    }

    fn take_row(&mut self, at: usize, row: usize) -> Option<FullRow> {
        let chunk = Arc::make_mut(self.chunks.get_mut(at)?);
        let whole = chunk.take(row)?;
        self.changed.insert(self.builds.line(whole.row.build));
        self.builds.release(whole.row.build);
        self.owners.release(whole.row.owner);
        self.pools.release(whole.row.pool);
        self.labels.release(&whole.labels);
        Some(whole)
    }

    /// Removes a chunk with few rows, and moves them to the end.
    fn refill(&mut self, at: usize) {
        let few = self.chunks.get(at).is_some_and(|chunk| chunk.rows().len() < MIN_CHUNK_ROWS);
        if few && at + 1 < self.chunks.len() {
            let mut chunk = Arc::unwrap_or_clone(self.chunks.remove(at));
            while let Some(whole) = chunk.take(0) {
                self.push(whole);
            }
        }
    }

    /// Replaces the values in an attempt's row. [`Self::relate`] later sets which attempt it retries.
    pub(in crate::stats) fn replace_summary(
        &mut self,
        earlier: &AttemptBrief,
        beside: &StatsFields<'_>,
        brief: &Arc<AttemptBrief>,
        settings: &Settings,
    ) {
        let Some((chunk, row)) = self.find(earlier) else { return };
        let Some(whole) = self.take_row(chunk, row) else { return };
        self.refill(chunk);
        self.add(beside, brief, settings);
        if whole.row.has_flag(RowFlag::Refused) {
            self.refuse(brief, true);
        }
    }

    /// The attempts that name this one as the attempt they retry. They ended later than it, by clocks that may differ by an hour.
    pub(in crate::stats) fn retries_of(&self, original: &AttemptBrief) -> Vec<Arc<AttemptBrief>> {
        let id = Some(&original.attempt);
        let since = u32::try_from(original.ended_unix_ms() / 1000).unwrap_or(u32::MAX).saturating_sub(3600);
        let later =
            self.chunks.iter().filter(|chunk| chunk.end_range().is_some_and(|(_, last)| last >= since));
        let retries = |row: &&AttemptRow| row.names_original() && row.brief.retries.as_deref() == id;
        later.flat_map(|chunk| chunk.rows()).filter(retries).map(|row| Arc::clone(&row.brief)).collect()
    }

    /// Sets the retry status of attempts.
    pub(in crate::stats) fn relate(&mut self, attempts: &[(Arc<AttemptBrief>, RetryStatus)]) {
        for (brief, after) in attempts {
            if let Some((chunk, row)) = self.find(brief)
                && let Some(chunk) = self.chunks.get_mut(chunk)
                && chunk.rows().get(row).is_some_and(|row| row.retried() != RetryMark::of(*after))
            {
                Arc::make_mut(chunk).set_retried(row, RetryMark::of(*after));
            }
        }
    }

    /// Sets the retry status of all attempts: those in jobs that ran more than once, and those that name an attempt they retry.
    pub(in crate::stats) fn relate_all<'h>(
        &mut self,
        in_jobs: impl Iterator<Item = (&'h Arc<AttemptBrief>, RetryStatus)>,
        after: impl Fn(&AttemptBrief) -> RetryStatus,
    ) {
        // attempts are compared by pointer, because each has one allocation, and reading each through its pointer takes longer than
        // everything else
        let in_jobs: HashMap<*const AttemptBrief, RetryStatus, RandomState> =
            in_jobs.map(|(brief, after)| (Arc::as_ptr(brief), after)).collect();
        for chunk in &mut self.chunks {
            let changed = |row: &AttemptRow| {
                let known = in_jobs.get(&Arc::as_ptr(&row.brief)).copied();
                let says_so = row.retried() == RetryMark::UNKNOWN;
                let after = known.or_else(|| says_so.then(|| after(&row.brief)))?;
                Some(RetryMark::of(after)).filter(|after| row.retried() != *after)
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
    pub(in crate::stats) fn refuse(&mut self, brief: &AttemptBrief, refuses: bool) {
        if let Some((chunk, row)) = self.find(brief)
            && let Some(chunk) = self.chunks.get_mut(chunk)
        {
            Arc::make_mut(chunk).set_flag(row, RowFlag::Refused, refuses);
        }
    }

    /// Records that the verdict on an attempt without a row no longer refuses a retry.
    pub(in crate::stats) fn allow_early(&mut self, attempt: &AttemptId, project: &str) {
        let judged = (attempt.clone(), Box::from(project));
        if self.early_verdicts.refused_attempts.remove(&judged).is_some() {
            self.early_verdicts.order.retain(|refused| *refused != judged);
        }
    }

    /// Records whether the verdict on an attempt without a row refuses a retry. At most `most` such attempts are kept.
    pub(in crate::stats) fn refuse_early(
        &mut self,
        attempt: &AttemptId,
        project: &str,
        refuses: bool,
        most: usize,
    ) {
        let judged: VerdictSubject = (attempt.clone(), project.into());
        if self.early_verdicts.refused_attempts.insert(judged.clone(), refuses).is_none() {
            self.early_verdicts.order.push_back(judged);
        }
        self.forget_early(most);
    }

    /// Removes the oldest verdicts on attempts without a row, until `most` are left.
    pub(in crate::stats) fn forget_early(&mut self, most: usize) {
        while self.early_verdicts.order.len() > most {
            if let Some(oldest) = self.early_verdicts.order.pop_front() {
                self.early_verdicts.refused_attempts.remove(&oldest);
            }
        }
    }

    /// Removes all rows with an attempt that a bulk load left out: the row then has the only pointer to it.
    pub(in crate::stats) fn sweep(&mut self) {
        // from the last row to the first: a row that is removed is replaced by the last one, and chunks are refilled at the end
        for at in (0..self.chunks.len()).rev() {
            let is_dropped = |row: &AttemptRow| Arc::strong_count(&row.brief) == 1;
            let rows = self.chunks.get(at).map(|chunk| chunk.rows()).unwrap_or_default();
            let dropped = rows.iter().enumerate().filter(|(_, row)| is_dropped(row)).map(|(index, _)| index);
            for row in dropped.rev().collect::<Vec<_>>() {
                drop(self.take_row(at, row));
                self.dropped += 1;
            }
            self.refill(at);
        }
    }

    /// A copy of the rows that does not change.
    pub(in crate::stats) fn rows(&self) -> RowsSnapshot {
        RowsSnapshot { chunks: self.chunks.clone(), builds: self.builds.all() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::test_summary;

    #[test]
    fn one_sweep_removes_all_stale_rows() {
        let mut table = AttemptTable::new();
        let mut briefs = Vec::new();
        for n in 0..chunk::ROWS_PER_CHUNK * 3 {
            let summary = test_summary(&n.to_string(), "zlib", "1", 10);
            let brief = Arc::new(AttemptBrief::from(&summary));
            table.add(&(&summary).into(), &brief, &Settings::default());
            briefs.push(brief);
        }
        // the first chunk goes when the sweep is in its middle, and the second begins with what is left behind
        let kept = |n: usize| !(200..chunk::ROWS_PER_CHUNK + 200).contains(&n);
        let briefs: Vec<_> =
            briefs.into_iter().enumerate().filter(|(n, _)| kept(*n)).map(|(_, brief)| brief).collect();
        table.sweep();
        let rows: usize = table.chunks.iter().map(|chunk| chunk.rows().len()).sum();
        assert_eq!((rows, table.dropped), (briefs.len(), 2048));
    }
}
