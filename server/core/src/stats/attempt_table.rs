//! All finished attempts in memory as statistics keep them, added as they end.
//!
//! Sums by hour and by everything that may be asked for would be as many as the attempts: a year of a fleet has about as many
//! (hour, build, owner, pool, class, labels) as attempts. So the rows themselves are kept, as small as they can be, and
//! counted at the speed of memory: a million in some ten milliseconds, exact at any edge of time and for any filter.
//!
//! A row stays as long as the history has its attempt. A count takes the chunks as they are; a chunk that changes
//! meanwhile is copied first.

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

/// Owners, and pools, that are counted apart.
const NAMES: usize = 32_768;
/// A chunk with fewer rows than this is given up.
const FEW: usize = chunk::ROWS / 8;
/// Rows looked at for each that is added, to find those that the history has left behind.
const SWEPT: usize = 64;

/// All rows, with the numbers of what they have in common.
#[derive(Debug)]
pub(super) struct AttemptTable {
    pub(super) chunks: Vec<Arc<Chunk>>,
    pub(super) builds: Builds,
    pub(super) owners: Interner,
    pub(super) pools: Interner,
    pub(super) labels: LabelTable,
    /// Attempts that left with the history's bound.
    pub(super) gone: u64,
    /// Lines whose needs may have moved since the last look.
    pub(super) changed: HashSet<u32, RandomState>,
    early: EarlyVerdicts,
    /// The last ref, and its class: neighbours are often of one.
    last_ref: (String, u8),
    /// Where the sweep goes on.
    swept: (usize, usize),
}

/// An attempt, and the project in whose name a verdict on it was asked for; empty if in that of none.
type VerdictSubject = (AttemptId, Box<str>);

/// Attempts that a verdict said no to before they had a row, or yes where another one said no.
#[derive(Debug, Default)]
struct EarlyVerdicts {
    refused: HashMap<VerdictSubject, bool>,
    /// Oldest first.
    order: VecDeque<VerdictSubject>,
}

impl EarlyVerdicts {
    /// Whether the verdict in force says no: one in the name of its project before one that names none.
    fn take(&mut self, brief: &AttemptBrief) -> bool {
        if self.refused.is_empty() {
            return false;
        }
        let mut of = |project: &str| self.refused.remove(&(brief.attempt.clone(), project.into()));
        let (own, unnamed) = (of(&brief.key.project), of(""));
        own.or(unnamed).unwrap_or(false)
    }
}

/// What is counted: it stays as it is.
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

    /// Adds an attempt, which the history has. [`Self::relate`] then says what it retries.
    pub(super) fn add(&mut self, beside: &StatsFields<'_>, brief: &Arc<AttemptBrief>, settings: &Settings) {
        let build = self.builds.hold(brief);
        let mut row = AttemptRow::new(brief, beside, build);
        row.owner = self.owners.hold(beside.owner, true);
        row.pool = self.pools.hold(beside.pool, true);
        if self.last_ref.0 != beside.git_ref {
            self.last_ref = (beside.git_ref.to_owned(), settings.ref_classes.of(beside.git_ref));
        }
        row.ref_class = self.last_ref.1;
        if self.early.take(brief) {
            row.set(RowFlag::Refused);
        }
        self.changed.insert(self.builds.line(build));
        let labels = self.labels.hold(beside.labels, brief.untrusted);
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

    /// Where the row of an attempt stands, if there is one; those that ended last are looked at first.
    fn find(&self, brief: &AttemptBrief) -> Option<(usize, usize)> {
        let found = |(at, chunk): (usize, &Arc<Chunk>)| chunk.find(brief).map(|row| (at, row));
        self.chunks.iter().enumerate().rev().find_map(found)
    }

    /// Takes the row of an attempt out.
    pub(super) fn remove(&mut self, brief: &AttemptBrief) {
        if let Some((chunk, row)) = self.find(brief) {
            drop(self.take(chunk, row));
            self.gone += 1;
        }
    }

    fn take(&mut self, at: usize, row: usize) -> Option<FullRow> {
        let chunk = Arc::make_mut(self.chunks.get_mut(at)?);
        let whole = chunk.take(row)?;
        if chunk.rows().len() < FEW && at + 1 < self.chunks.len() {
            self.refill(at);
        }
        self.changed.insert(self.builds.line(whole.row.build));
        self.builds.release(whole.row.build);
        self.owners.release(whole.row.owner);
        self.pools.release(whole.row.pool);
        self.labels.release(&whole.labels);
        Some(whole)
    }

    /// Moves the few rows of a chunk to the end, so that it takes no room. The sweep goes on where it was: the chunks behind it
    /// move up.
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

    /// Puts an attempt in the place of what was known of it. [`Self::relate`] then says what retries it.
    pub(super) fn settle(
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

    /// The attempts whose agents say that they retry this one. They ended later.
    pub(super) fn retries_of(&self, original: &AttemptBrief) -> Vec<Arc<AttemptBrief>> {
        let id = Some(&original.attempt);
        let since = u32::try_from(original.ended_unix_ms() / 1000).unwrap_or(u32::MAX);
        let later = self.chunks.iter().filter(|chunk| chunk.ended().is_some_and(|(_, last)| last >= since));
        let retries =
            |row: &&AttemptRow| row.retried != RetryMark::NOTHING && row.brief.retries.as_deref() == id;
        later.flat_map(|chunk| chunk.rows()).filter(retries).map(|row| Arc::clone(&row.brief)).collect()
    }

    /// Says of attempts what they are retries after.
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

    /// Says of all attempts what they are retries after: of those in jobs that were executed more than once, and of those that say
    /// themselves that they are one.
    pub(super) fn relate_all<'h>(
        &mut self,
        in_jobs: impl Iterator<Item = (&'h Arc<AttemptBrief>, RetryStatus)>,
        after: impl Fn(&AttemptBrief) -> RetryStatus,
    ) {
        // there is one pointer for each attempt, and looking into each attempt takes longer than all the rest
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

    /// The verdict in force on an attempt says no to a retry, or no longer does.
    pub(super) fn refuse(&mut self, brief: &AttemptBrief, refuses: bool) {
        if let Some((chunk, row)) = self.find(brief)
            && let Some(chunk) = self.chunks.get_mut(chunk)
        {
            Arc::make_mut(chunk).set(row, RowFlag::Refused, refuses);
        }
    }

    /// It no longer does, of an attempt that has no row yet.
    pub(super) fn allow_early(&mut self, attempt: &AttemptId, project: &str) {
        let judged = (attempt.clone(), Box::from(project));
        if self.early.refused.remove(&judged).is_some() {
            self.early.order.retain(|refused| *refused != judged);
        }
    }

    /// Whether the verdict in force refuses an attempt that has no row yet. At most `most` of them are remembered.
    pub(super) fn refuse_early(&mut self, attempt: &AttemptId, project: &str, refuses: bool, most: usize) {
        let judged: VerdictSubject = (attempt.clone(), project.into());
        if self.early.refused.insert(judged.clone(), refuses).is_none() {
            self.early.order.push_back(judged);
        }
        self.forget_early(most);
    }

    /// Forgets the oldest of them.
    pub(super) fn forget_early(&mut self, most: usize) {
        while self.early.order.len() > most {
            if let Some(oldest) = self.early.order.pop_front() {
                self.early.refused.remove(&oldest);
            }
        }
    }

    /// Takes some of the rows out whose attempts the history has left behind: no other copy is left then. True if it came to
    /// the end of all rows.
    pub(super) fn sweep(&mut self) -> bool {
        for _row in 0..SWEPT {
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

    /// Takes all of them out.
    pub(super) fn sweep_all(&mut self) {
        self.swept = (0, 0);
        while !self.sweep() {}
    }

    /// What can be counted now.
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
