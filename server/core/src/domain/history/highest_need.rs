//! The highest need of the attempts that are kept.

use std::{collections::VecDeque, sync::Arc};

use super::super::{AttemptBrief, Bytes, Outcome};

/// The attempts, oldest first, of which no newer one has at least the same need. The oldest of them has the highest need of all, and the
/// next one has it when the oldest has left. Attempts leave oldest first, so few of them are here.
#[derive(Debug, Default)]
pub(super) struct HighestNeed(VecDeque<Arc<AttemptBrief>>);

/// Whether the need of an attempt counts: it succeeded, is trusted, and was measured.
pub(super) fn counts(brief: &AttemptBrief) -> bool {
    !brief.untrusted && brief.outcome == Outcome::Succeeded && brief.proven_need().is_some()
}

impl HighestNeed {
    /// The highest need; `None` without attempts.
    pub(super) fn get(&self) -> Option<Bytes> {
        self.0.front().map(|brief| brief.need_peak)
    }

    pub(super) fn add(&mut self, brief: &Arc<AttemptBrief>) {
        let at = self.0.partition_point(|other| other.position() < brief.position());
        if self.0.get(at).is_none_or(|newer| newer.need_peak < brief.need_peak) {
            let higher = self.0.partition_point(|other| other.need_peak > brief.need_peak).min(at);
            self.0.drain(higher..at);
            self.0.insert(higher, Arc::clone(brief));
        }
    }

    /// Removes an attempt. `all`: the attempts that are left, oldest first.
    pub(super) fn remove(&mut self, brief: &AttemptBrief, all: &VecDeque<Arc<AttemptBrief>>) {
        let at = self.0.partition_point(|other| other.position() < brief.position());
        if self.0.get(at).is_none_or(|other| other.attempt != brief.attempt) {
            return;
        }
        self.0.remove(at);
        // older attempts count again that this one was in place of
        let before = at.checked_sub(1).and_then(|before| self.0.get(before));
        let first =
            before.map_or(0, |before| all.partition_point(|other| other.position() <= before.position()));
        let end = all.partition_point(|other| other.position() < brief.position());
        for other in all.range(first..end).rev().filter(|other| counts(other)) {
            self.add(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::test_summary;

    #[test]
    fn the_highest_need_follows_every_removal() {
        let all: Vec<Arc<AttemptBrief>> = (0..200_u64)
            .map(|n| Arc::new((&test_summary(&format!("{n:0>3}"), "zlib", "1", 1 + n * 7919 % 101)).into()))
            .collect();
        let (mut highest, mut left) = (HighestNeed::default(), VecDeque::new());
        for n in 0..200 {
            let brief = &all[n * 71 % 200];
            highest.add(brief);
            let at = left.partition_point(|other: &Arc<AttemptBrief>| other.position() < brief.position());
            left.insert(at, Arc::clone(brief));
            assert_eq!(highest.get(), left.iter().map(|brief| brief.need_peak).max());
        }
        for n in 0..200 {
            // from the oldest end, from the newest end, and from between
            let gone = left.remove([0, left.len() - 1, left.len() / 2][n % 3]).unwrap();
            highest.remove(&gone, &left);
            assert_eq!(highest.get(), left.iter().map(|brief| brief.need_peak).max(), "{n}");
        }
        assert!(highest.0.is_empty());
    }
}
