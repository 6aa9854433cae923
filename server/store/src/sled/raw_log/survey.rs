//! A first pass over the log: finds its segments, their order, and the damage.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, fs::File, io, ops::Range, os::unix::fs::FileExt as _, path::Path};

use super::{
    message::{
        MessageKind, RewrittenPages, SEGMENT_BYTES, SEGMENT_HEADER_BYTES, message_at, rewritten_by,
        segment_header,
    },
    walk::{WalkStep, walk},
};

/// A readable segment of the log file, and its position in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentSlot {
    /// Position of the segment's first byte in the file.
    pub(super) at: u64,
    /// Number of the segment, counted since the log was created.
    pub(super) number: u64,
}

/// A hole: bytes of the log without a valid message, where there should be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogHole {
    /// Position of the first byte in the file; the next field is the number of bytes.
    pub(super) at: u64,
    pub(super) len: u64,
    /// Log position of the first byte; `None` if its segment is unknown.
    pub(super) lsn: Option<u64>,
    /// The pages that the lost messages may have written.
    pub(super) rewritten: RewrittenPages,
    /// Whether messages of the same segment follow the hole.
    pub(super) inside: bool,
}

impl LogHole {
    /// Whether only the header of a segment is lost, which contains no message.
    fn is_header(&self) -> bool {
        self.lsn.is_some_and(|lsn| lsn.is_multiple_of(SEGMENT_BYTES as u64))
    }
}

/// What the first pass found.
#[derive(Debug, Default)]
pub(super) struct LogSurvey {
    /// The segments, in the order in which they were written.
    pub(super) slots: Vec<SegmentSlot>,
    pub(super) holes: Vec<LogHole>,
    /// Log positions of the first and the last byte of each batch.
    pub(super) batches: Vec<(u64, u64)>,
    /// For each page, the log position of the newest message with the whole page or with its removal.
    newest_of_page: HashMap<u64, u64>,
    /// Log position after the last message.
    pub(super) end: u64,
    /// All messages before this log position were once on disk.
    pub(super) stable: u64,
    /// Whether a place for a segment in the file has no readable segment number, because it is empty or
    /// unreadable.
    nameless: bool,
    /// Whether a missing segment may have been lost. If false, it was reused or freed after all its pages were
    /// written again.
    absent_may_be_lost: bool,
}

/// Bytes that a disk loses together if it cannot read one of them.
const SECTOR: usize = 4096;
/// Fills bytes that the disk cannot read. No valid message and no free segment consists of it.
const UNREADABLE: u8 = 0xff;

/// Reads a segment, up to the end of the file. Bytes that the disk cannot read become [`UNREADABLE`].
pub(super) fn read_segment(file: &File, at: u64, bytes: &mut Vec<u8>) {
    bytes.resize(SEGMENT_BYTES, 0);
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // maybe only one of the sectors is bad: read them one by one
            Err(_) => filled += read_sector(file, at + filled as u64, rest),
        }
    }
    bytes.truncate(filled);
}

/// Reads the first sector of `rest`, or fills it if the disk cannot read it; returns its length.
fn read_sector(file: &File, at: u64, rest: &mut [u8]) -> usize {
    let len = rest.len().min(SECTOR);
    let (sector, _) = rest.split_at_mut(len);
    match file.read_at(sector, at) {
        Ok(count) if count > 0 => count,
        _ => {
            sector.fill(UNREADABLE);
            len
        }
    }
}

impl LogSurvey {
    /// Reads the log once, without the segments that end before the log position `since`.
    /// Errors: the disk cannot be read.
    pub(super) fn of(path: &Path, since: u64) -> io::Result<Self> {
        Self::within(path, since, u64::MAX)
    }

    /// Reads the log once, without what is at or after the log position `until`.
    /// Errors: the disk cannot be read.
    pub(super) fn before(path: &Path, until: u64) -> io::Result<Self> {
        let mut survey = Self::within(path, 0, until)?;
        survey.slots.retain(|slot| slot.number.saturating_mul(SEGMENT_BYTES as u64) < until);
        survey.holes.retain(|hole| hole.lsn.is_none_or(|at| at < until));
        survey.batches.retain(|(first, _)| *first < until);
        survey.end = survey.end.min(until);
        Ok(survey)
    }

    fn within(path: &Path, since: u64, until: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let whole = file.metadata()?.len();
        let (mut survey, mut bytes) = (Self::default(), Vec::new());
        for at in (0..whole).step_by(SEGMENT_BYTES) {
            if since > 0 && survey.is_before(&file, at, since) {
                continue;
            }
            read_segment(&file, at, &mut bytes);
            survey.take_in(at, &bytes, since..until);
        }
        survey.slots.sort_by_key(|slot| slot.number);
        let newest = survey.slots.last().map(|slot| slot.number);
        // the end of the newest segment is still empty: that is not a hole
        survey.holes.retain(|hole| {
            hole.inside || hole.lsn.is_none_or(|lsn| Some(lsn / SEGMENT_BYTES as u64) != newest)
        });
        Ok(survey)
    }

    /// Reads the segments' headers only.
    /// Errors: the disk cannot be read.
    pub(super) fn of_headers(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let whole = file.metadata()?.len();
        let (mut survey, mut bytes) = (Self::default(), [0; SEGMENT_HEADER_BYTES]);
        for at in (0..whole).step_by(SEGMENT_BYTES) {
            let count = file.read_at(&mut bytes, at).unwrap_or(0);
            if let Some(header) = segment_header(bytes.get(..count).unwrap_or_default()) {
                survey.slots.push(SegmentSlot { at, number: header.number });
            }
        }
        survey.slots.sort_by_key(|slot| slot.number);
        Ok(survey)
    }

    /// Whether the segment at this position ends before the log position `since`, according to its header.
    fn is_before(&mut self, file: &File, at: u64, since: u64) -> bool {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let count = file.read_at(&mut bytes, at).unwrap_or(0);
        let Some(header) = segment_header(bytes.get(..count).unwrap_or_default()) else { return false };
        self.stable = self.stable.max(header.stable);
        (header.number + 1).saturating_mul(SEGMENT_BYTES as u64) <= since
    }

    /// Records the segment at the position `at`; `within` is the range of log positions that counts.
    fn take_in(&mut self, at: u64, bytes: &[u8], within: Range<u64>) {
        let header = segment_header(bytes);
        self.stable = self.stable.max(header.map_or(0, |header| header.stable));
        let Some(number) = header.map(|header| header.number).or_else(|| number_within(bytes)) else {
            self.nameless = true;
            // a free segment is all zeros: if only a few bytes are not 0, the segment is free and slightly
            // damaged
            if bytes.iter().filter(|byte| **byte != 0).count() >= SEGMENT_HEADER_BYTES {
                let len = bytes.len() as u64;
                self.holes.push(LogHole {
                    at,
                    len,
                    lsn: None,
                    rewritten: RewrittenPages::All,
                    inside: false,
                });
            }
            return;
        };
        let base = number.saturating_mul(SEGMENT_BYTES as u64);
        if base.saturating_add(SEGMENT_BYTES as u64) <= within.start {
            return;
        }
        self.slots.push(SegmentSlot { at, number });
        if header.is_none() {
            // the engine would not find a segment here, but the messages in it are valid
            let len = SEGMENT_HEADER_BYTES as u64;
            self.holes.push(LogHole {
                at,
                len,
                lsn: Some(base),
                rewritten: RewrittenPages::None,
                inside: true,
            });
        }
        self.take_messages(at, bytes, number, within.end);
    }

    /// Records the messages of the segment at the position `at` in the file. Messages with a whole page are
    /// recorded only before the log position `until`.
    fn take_messages(&mut self, at: u64, bytes: &[u8], number: u64, until: u64) {
        let base = number.saturating_mul(SEGMENT_BYTES as u64);
        let Self { holes, batches, newest_of_page, end, .. } = self;
        walk(bytes, number, |step| match step {
            WalkStep::Message(place, message) => {
                *end = (*end).max(base + message.end() as u64);
                let last = message.body.first_chunk().map(|last| u64::from_le_bytes(*last));
                if let (MessageKind::Batch, Some(last)) = (message.kind, last) {
                    batches.push((base + place as u64, last));
                }
                let lsn = base + place as u64;
                if matches!(message.kind, MessageKind::Node | MessageKind::Free) && lsn < until {
                    newest_of_page.entry(message.page).and_modify(|old| *old = lsn.max(*old)).or_insert(lsn);
                }
            }
            WalkStep::Gap { overwritten: true, .. } => {}
            WalkStep::Gap { from, to, inside, .. } => {
                let rewritten =
                    if inside { rewritten_by(bytes, from..to, number) } else { RewrittenPages::All };
                let (at, lsn) = (at + from as u64, Some(base + from as u64));
                holes.push(LogHole { at, len: (to - from) as u64, lsn, rewritten, inside });
            }
        });
    }

    /// Log position up to which the messages follow each other without a gap, counted from the last segment
    /// that was certainly on disk. The engine need not read what is before `since`.
    fn unbroken(&self, since: u64) -> u64 {
        let size = SEGMENT_BYTES as u64;
        let mut end = self.stable.max(since) / size * size;
        let first = end / size;
        let mut reached = None;
        for slot in self.slots.iter().filter(|slot| slot.number >= first) {
            let start = end;
            let within = |lsn: &u64| (start..start + size).contains(lsn);
            let hole = self.holes.iter().filter_map(|hole| hole.lsn.filter(within)).min();
            if slot.number != end / size || hole.is_some() {
                return hole.unwrap_or(end);
            }
            end += size;
            reached = Some(self.end);
        }
        reached.unwrap_or(end)
    }

    /// Log position up to which the engine uses messages when it opens. If the messages end within a batch, it
    /// is the start of that batch.
    pub(super) fn reach(&self, since: u64) -> u64 {
        let end = self.unbroken(since);
        self.torn_at(end).unwrap_or(end)
    }

    /// Start of the first batch that begins before the log position `end` and is not complete there.
    pub(super) fn torn_at(&self, end: u64) -> Option<u64> {
        let torn = self.batches.iter().filter(|(first, last)| *first < end && *last >= end);
        torn.map(|(first, _)| *first).min()
    }

    /// Whether the engine, when it opens, uses everything that was certainly on disk, and everything after it
    /// except an incomplete batch at the end.
    pub(super) fn is_sound(&self, since: u64) -> bool {
        self.holes.is_empty()
            && self.unbroken(since) >= self.end
            && self.reach(since) >= self.stable.min(self.end)
    }

    /// Whether a newer message has the whole page, so that the change at this log position is not needed. Such
    /// a change must not be used if the log is complete: the message with the page's older range and prefix may
    /// have been overwritten since.
    pub(super) fn is_superseded(&self, page: u64, lsn: u64) -> bool {
        self.newest_of_page.get(&page).is_some_and(|newest| *newest > lsn)
    }

    /// The hole that starts at this log position.
    pub(super) fn hole_at(&self, lsn: u64) -> Option<LogHole> {
        self.holes.iter().find(|hole| hole.lsn == Some(lsn)).copied()
    }

    /// Call this if the log has lost something. `behind` is true if commits at its end are missing.
    ///
    /// If each place in the file has a readable segment number, no segment can have been lost: the missing ones
    /// were reused. A truncated file has fewer places, but it also lacks its last commits, or one of its
    /// segments ends too early.
    ///
    /// The newest message of a page may be lost while an older change of it is left, so from now on all changes
    /// are used.
    pub(super) fn expect_losses(&mut self, behind: bool) {
        self.newest_of_page.clear();
        self.absent_may_be_lost = behind || self.nameless;
    }

    /// Whether nothing of the segment with this number was lost: the segment is in the file, or it was once on
    /// disk and its space was reused.
    fn is_accounted_for(&self, number: u64) -> bool {
        let was_on_disk = (number + 1).saturating_mul(SEGMENT_BYTES as u64) <= self.stable;
        let is_there = self.slots.binary_search_by_key(&number, |slot| slot.number).is_ok();
        is_there || (was_on_disk && !self.absent_may_be_lost)
    }

    /// Whether the batch from `first` to `last` was written completely, and nothing of it was lost since.
    pub(super) fn is_whole(&self, first: u64, last: u64) -> bool {
        let number = |lsn: u64| lsn / SEGMENT_BYTES as u64;
        // the log position in a damaged message may be any number: bound the loop below
        let span = number(last).saturating_sub(number(first));
        // a segment with a damaged header counts as whole here, because its messages are valid
        let lost = self.holes.iter().filter(|hole| !hole.is_header());
        let mut lost = lost.filter_map(|hole| Some((hole.lsn?, hole.len)));
        let is_hit = lost.any(|(lsn, len)| lsn <= last && lsn.saturating_add(len) > first);
        let mut numbers = number(first)..=number(last);
        last < self.end
            && span < MAX_SEGMENTS
            && numbers.all(|number| self.is_accounted_for(number))
            && !is_hit
    }
}

/// Most segments of one batch. A batch has at most 1,024 entries of 4 KiB, and now and then sled writes a whole
/// page of up to 1/8 MiB into it.
const MAX_SEGMENTS: u64 = 1024;

/// The number of a segment with a damaged header, from its first valid message.
fn number_within(bytes: &[u8]) -> Option<u64> {
    (SEGMENT_HEADER_BYTES..bytes.len()).find_map(|at| message_at(bytes, at)).map(|message| message.segment)
}
