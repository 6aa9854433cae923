//! Compares the samples that a store has with those that its summaries speak of.
//!
//! The blocks of an ended attempt cover its sequence numbers without a gap, also after old samples were reduced: lost numbers are in the
//! blocks as well. Retention removes all blocks of an attempt, the first one first.

use std::collections::{HashMap, HashSet};

use plimsoll_core::domain::{AttemptId, Summary};

/// What the blocks of the attempts cover. Blocks come in the order of their keys, after the open attempts and before the summaries.
#[derive(Debug, Default)]
pub(crate) struct SeriesCheck {
    /// Attempts that ended since this time, milliseconds since 1970, have all their samples; `None` if retention may have removed any.
    complete_since: Option<u64>,
    open: HashSet<AttemptId>,
    covered: HashMap<AttemptId, CoveredNumbers>,
    /// Attempts that have a summary and no block, with the ends of the attempts and their numbers of samples.
    without_blocks: Vec<(AttemptId, u64, u64)>,
    missing: Vec<(AttemptId, String)>,
    /// End of the attempt that ended first of those with blocks.
    oldest_end: Option<u64>,
}

/// Sequence numbers, from the first one to before the end.
#[derive(Debug)]
struct CoveredNumbers {
    start: u64,
    end: u64,
    /// A range that no block covers.
    gap: Option<(u64, u64)>,
}

impl SeriesCheck {
    /// A check of a store in which attempts that ended since this time have all their samples.
    pub(crate) fn new(complete_since: Option<u64>) -> Self {
        Self { complete_since, ..Self::default() }
    }

    /// Notes an attempt that is open: its samples may be in fragments.
    pub(crate) fn add_open(&mut self, id: AttemptId) {
        self.open.insert(id);
    }

    /// Notes what a block covers.
    pub(crate) fn add_block(&mut self, id: AttemptId, start: u64, end: u64) {
        let covered = self.covered.entry(id).or_insert(CoveredNumbers { start, end: start, gap: None });
        if start > covered.end {
            covered.gap.get_or_insert((covered.end, start - 1));
        }
        covered.end = covered.end.max(end);
    }

    /// Compares a summary with its blocks.
    pub(crate) fn add_summary(&mut self, summary: &Summary) {
        let (id, ended, samples) = (&summary.attempt, summary.ended_unix_ms(), summary.samples);
        let is_complete = self.complete_since.is_some_and(|since| ended >= since);
        let Some(CoveredNumbers { start, end, gap }) = self.covered.remove(id) else {
            if samples > 0 && is_complete && !self.open.contains(id) {
                self.without_blocks.push((id.clone(), ended, samples));
            }
            return;
        };
        self.oldest_end = Some(self.oldest_end.map_or(ended, |oldest| oldest.min(ended)));
        let gap = gap.or_else(|| (start > 1 && is_complete).then(|| (1, start - 1)));
        let last = end.saturating_sub(1);
        if let Some((from, to)) = gap {
            self.missing.push((id.clone(), format!("the samples {from} to {to} of the attempt are missing")));
        } else if last < samples {
            let reason = format!("the attempt has {samples} samples, and those that are there end at {last}");
            self.missing.push((id.clone(), reason));
        }
    }

    /// The attempts of which something is missing, and what.
    pub(crate) fn finish(self) -> impl Iterator<Item = (AttemptId, String)> {
        let Self { open, covered, without_blocks, oldest_end, missing, .. } = self;
        let strays = covered.into_keys().filter(move |id| !open.contains(id));
        let strays = strays.map(|id| (id, "the attempt has samples, and its summary is missing".to_owned()));
        // retention removes the samples of the attempts that ended first
        let is_lost = move |ended: u64| oldest_end.is_none_or(|oldest| ended >= oldest);
        let lost = without_blocks.into_iter().filter(move |(_, ended, _)| is_lost(*ended));
        let lost = lost
            .map(|(id, _, samples)| (id, format!("the attempt has {samples} samples, and none is there")));
        missing.into_iter().chain(strays).chain(lost)
    }
}
