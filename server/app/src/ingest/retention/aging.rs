//! Rules that decide when samples are old; pure. [`super::samples`] applies them to blocks.
//!
//! The age of an ended attempt's samples is counted from its end. An attempt that never ends would
//! grow without bound, so its old samples are downsampled too: first to a row for 15 seconds, then
//! to one row for each block. These rows stay until the attempt ends, because its summary needs the
//! peaks, and because the newest sample shows where its agent continues.
//!
//! Samples beyond the byte limit are deleted in the order of their time and not by the clock, so
//! the limit also holds after the clock was set back.

use std::{collections::BTreeMap, time::Duration};

use plimsoll_core::domain::{AttemptId, Millis, RetentionPolicy};

use super::trusted_clock::{TrustedClock, whole_ms};

/// Length of the interval that one row of downsampled samples covers.
const ROW_TIME: Millis = Millis(15_000);
/// The interval that downsamples a block to a single row.
const WHOLE_BLOCK: Millis = Millis(u64::MAX);
/// Pause between two passes, milliseconds.
pub(super) const PAUSE_MS: u64 = 3_600_000;
const HOUR_MS: u64 = 3_600_000;
/// Estimated bytes of a sealed sample, rather too high (measured: 4 to 14, and each block has a
/// key).
const SAMPLE_BYTES: u64 = 16;

/// State of a block's attempt. Times in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockOwner {
    /// The attempt ended at this time.
    Ended(u64),
    /// The attempt started at this time, and is running.
    Running(u64),
    /// The store has nothing else of the attempt, or its summary is damaged: the block stays
    /// unchanged.
    Unknown,
}

/// What happens to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockFate {
    Stays,
    /// The block's samples are reduced to a row for each interval of this length.
    Thins(Millis),
    Goes,
}

/// The times before which samples are old, milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AgeLimits {
    /// Samples before this time are downsampled.
    full_unix_ms: u64,
    /// Samples before this time are deleted.
    kept_unix_ms: u64,
}

impl AgeLimits {
    /// What happens to a block with samples of this time.
    pub(super) fn fate(self, owner: BlockOwner, unix_ms: u64) -> BlockFate {
        match owner {
            BlockOwner::Unknown => BlockFate::Stays,
            BlockOwner::Ended(_) if unix_ms < self.kept_unix_ms => BlockFate::Goes,
            BlockOwner::Running(_) if unix_ms < self.kept_unix_ms => BlockFate::Thins(WHOLE_BLOCK),
            _ if unix_ms < self.full_unix_ms => BlockFate::Thins(ROW_TIME),
            _ => BlockFate::Stays,
        }
    }
}

/// State of a pass over all samples.
#[derive(Debug, Default)]
pub(super) struct SampleWalk {
    pub(super) after_key: Option<Vec<u8>>,
    pub(super) paused_until_unix_ms: u64,
    /// Whether the pause follows an error. Newly sealed samples do not shorten such a pause.
    failed: bool,
    /// Estimated bytes that were sealed since the last pass ended.
    added_bytes: u64,
    pub(super) last: Option<(AttemptId, BlockOwner)>,
    /// Bytes that stay, by the time of their samples (hours since 1970).
    kept_bytes: BTreeMap<u64, u64>,
    /// The clock that limits jumps forward.
    pub(super) clock: TrustedClock,
    /// Samples before this time are deleted, because all samples together exceed the byte limit.
    fits_from_unix_ms: u64,
    /// Whether the last step was one over summaries. The next step is then one over samples.
    pub(super) last_step_forgot: bool,
}

impl SampleWalk {
    /// The age limits at this time.
    pub(super) fn horizon(&self, retain: &RetentionPolicy, now_unix_ms: u64) -> AgeLimits {
        let before = |time: Duration| now_unix_ms.saturating_sub(whole_ms(time));
        let kept_unix_ms = before(retain.keep_for).max(self.fits_from_unix_ms);
        AgeLimits { full_unix_ms: before(retain.full_for), kept_unix_ms }
    }

    /// Counts `bytes` of samples that the pass keeps.
    pub(super) fn count(&mut self, unix_ms: u64, bytes: usize) {
        *self.kept_bytes.entry(unix_ms / HOUR_MS).or_default() += bytes as u64;
    }

    /// Counts newly sealed samples. Once they are an eighth of the byte limit, the pause ends.
    pub(super) fn add(&mut self, retain: &RetentionPolicy, samples: u64) {
        self.added_bytes = self.added_bytes.saturating_add(samples.saturating_mul(SAMPLE_BYTES));
        if !self.failed && retain.max_bytes.is_some_and(|most| self.added_bytes > most.0 / 8) {
            self.paused_until_unix_ms = 0;
        }
    }

    /// Whether a step is due. False during a pause.
    pub(super) fn begin_step(&mut self, now_unix_ms: u64) -> bool {
        let begins = now_unix_ms >= self.paused_until_unix_ms;
        self.failed &= !begins;
        begins
    }

    /// Ends a pass. Returns the bytes that stay.
    pub(super) fn end(&mut self, retain: &RetentionPolicy, now_unix_ms: u64) -> u64 {
        let all = self.kept_bytes.values().sum();
        let most = retain.max_bytes.map_or(u64::MAX, |bytes| bytes.0);
        self.fits_from_unix_ms = time_that_fits(&self.kept_bytes, most);
        // if the limit is exceeded, the next pass starts at once
        self.paused_until_unix_ms = if all > most { 0 } else { now_unix_ms.saturating_add(PAUSE_MS) };
        self.kept_bytes.clear();
        self.added_bytes = 0;
        self.last = None;
        all
    }

    /// Ends a pass after an error.
    pub(super) fn fail(&mut self, now_unix_ms: u64) {
        let Self { clock, added_bytes: added, .. } = *self;
        let rest_until_unix_ms = now_unix_ms.saturating_add(PAUSE_MS);
        *self = Self {
            paused_until_unix_ms: rest_until_unix_ms,
            failed: true,
            clock,
            added_bytes: added,
            ..Self::default()
        };
    }
}

/// The earliest time such that all later samples fit into `most` bytes, milliseconds since 1970; 0
/// if all samples fit.
fn time_that_fits(kept: &BTreeMap<u64, u64>, most: u64) -> u64 {
    let mut sum = 0_u64;
    for (hour, bytes) in kept.iter().rev() {
        sum = sum.saturating_add(*bytes);
        if sum > most {
            return hour.saturating_add(1).saturating_mul(HOUR_MS);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::Bytes;

    use super::*;

    const RETAIN: RetentionPolicy = RetentionPolicy {
        full_for: Duration::from_hours(2),
        keep_for: Duration::from_hours(10),
        max_bytes: Some(Bytes(100)),
        summaries_for: None,
        log_lines_for: None,
    };
    const YEAR_MS: u64 = 365 * 24 * HOUR_MS;

    #[test]
    fn old_samples_are_thinned_then_removed() {
        let horizon = SampleWalk::default().horizon(&RETAIN, 100 * HOUR_MS);
        let fate = |owner| [99, 97, 89].map(|hour| horizon.fate(owner, hour * HOUR_MS));
        assert_eq!(
            fate(BlockOwner::Ended(0)),
            [BlockFate::Stays, BlockFate::Thins(ROW_TIME), BlockFate::Goes]
        );
        assert_eq!(
            fate(BlockOwner::Running(0)),
            [BlockFate::Stays, BlockFate::Thins(ROW_TIME), BlockFate::Thins(WHOLE_BLOCK)]
        );
        assert_eq!(fate(BlockOwner::Unknown), [BlockFate::Stays; 3]);
    }

    #[test]
    fn excess_samples_are_removed_oldest_first() {
        let mut sample_walk = SampleWalk::default();
        for (hour, bytes) in [(100, 40), (99, 50), (95, 30), (94, 10)] {
            sample_walk.count(hour * HOUR_MS, bytes);
        }
        assert_eq!(sample_walk.end(&RETAIN, 7), 130);
        assert_eq!((sample_walk.fits_from_unix_ms, sample_walk.paused_until_unix_ms), (96 * HOUR_MS, 0));
        let fate =
            |hour| sample_walk.horizon(&RETAIN, 100 * HOUR_MS).fate(BlockOwner::Ended(0), hour * HOUR_MS);
        assert_eq!((fate(95), fate(96)), (BlockFate::Goes, BlockFate::Thins(ROW_TIME)));
        sample_walk.count(100 * HOUR_MS, 90);
        sample_walk.end(&RETAIN, 7);
        assert_eq!((sample_walk.fits_from_unix_ms, sample_walk.paused_until_unix_ms), (0, 7 + PAUSE_MS));
    }

    #[test]
    fn excess_is_removed_despite_a_clock_set_back() {
        let (mut sample_walk, now) = (SampleWalk::default(), 100 * HOUR_MS);
        for hour in [0, 1, 2] {
            sample_walk.count(now + YEAR_MS + hour * HOUR_MS, 60);
        }
        assert_eq!(sample_walk.end(&RETAIN, now), 180);
        let fate = |hour| {
            sample_walk.horizon(&RETAIN, now).fate(BlockOwner::Ended(0), now + YEAR_MS + hour * HOUR_MS)
        };
        assert_eq!([fate(0), fate(1), fate(2)], [BlockFate::Goes, BlockFate::Goes, BlockFate::Stays]);
    }

    #[test]
    fn a_rest_ends_when_much_was_added() {
        let mut sample_walk = SampleWalk { paused_until_unix_ms: 7, ..SampleWalk::default() };
        let bound = |max_bytes| RetentionPolicy { max_bytes, ..RETAIN };
        sample_walk.add(&bound(None), 1000);
        sample_walk.add(&bound(Some(Bytes(1 << 20))), 1000);
        assert_eq!(sample_walk.paused_until_unix_ms, 7);
        sample_walk.add(&bound(Some(Bytes(1 << 18))), 1000);
        assert_eq!(sample_walk.paused_until_unix_ms, 0);
    }
}
