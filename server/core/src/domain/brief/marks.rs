//! What a brief keeps of an attempt in a few bytes: marks of its job, commit and ref, its memory sizes, and flags.

use std::num::{NonZeroU8, NonZeroU32, NonZeroU64};

use plimsoll_proto::measured::{IncompleteNeed, is_valid_memory};

use crate::domain::{Bytes, Fnv, Key, Summary};

/// Hash of a job's pipeline and name: the two texts would take as much memory as the rest of the attempt. Collisions made on purpose gain
/// nothing: a caller that can choose labels for one can also use the other job's labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobMark(NonZeroU64);

impl JobMark {
    /// The mark of the job that a key names; `None` if its labels do not name pipeline and job.
    pub fn of(key: &Key) -> Option<Self> {
        let (pipeline, job) = key.job()?;
        let number = Fnv::default().with_part(pipeline).with_part(job).value();
        NonZeroU64::new(number).or(Some(NonZeroU64::MAX)).map(Self)
    }
}

/// Hash of the commit that was built. Two commits of one build have the same one once in four billion times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitMark(NonZeroU32);

impl CommitMark {
    /// The mark of the commit that a key names; `None` if it names none.
    pub fn of(key: &Key) -> Option<Self> {
        let [.., a, b, c, d] = Fnv::default().with_part(key.commit()?).value().to_be_bytes();
        NonZeroU32::new(u32::from_be_bytes([a, b, c, d])).or(Some(NonZeroU32::MAX)).map(Self)
    }
}

/// Hash of the ref that was built, from 1 to 255: enough to see that two attempts are not of one ref. Of 255 pairs of different refs one
/// seems to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefMark(NonZeroU8);

impl RefMark {
    const COUNT: u64 = 255;

    /// The mark of the ref that a key names; `None` if it names none.
    fn of(key: &Key) -> Option<Self> {
        let hash = Fnv::default().with_part(&key.git_ref).value();
        let mark = u8::try_from((hash ^ (hash >> 32)) % Self::COUNT + 1).unwrap_or(1);
        NonZeroU8::new(mark).filter(|_| !key.git_ref.is_empty()).map(Self)
    }
}

/// Memory that an attempt reserved (46 bits, at most 64 TiB), its limit as a multiple of that (10 bits, 0 for none), and the mark of its ref
/// (8 bits, 0 for none).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PackedSizes(u64);

const ASKED_BITS: u32 = 46;
const LIMIT_BITS: u32 = 10;
/// Steps of the limit in each doubling.
const LIMIT_STEPS: f64 = 64.0;
/// Code of a limit that equals the request. The codes reach from a quarter of the request to 15,900 times the request.
const EQUAL_LIMIT: f64 = 129.0;
/// A limit is read back as the roundest size within this share, half a step.
const LIMIT_SHARE: f64 = 0.0055;

impl PackedSizes {
    pub(super) fn of(summary: &Summary) -> Self {
        let resources = summary.resources_at_start();
        let asked = resources.memory_size_asked().unwrap_or_default().min(Bytes((1 << ASKED_BITS) - 1));
        let limit = resources.memory_limit.filter(|limit| is_valid_memory(limit.0) && asked.0 > 0);
        let limit = limit.map_or(0, |limit| limit_code(asked, limit));
        let mark = RefMark::of(&summary.key).map_or(0, |mark| u64::from(mark.0.get()));
        Self(asked.0 | limit << ASKED_BITS | mark << (ASKED_BITS + LIMIT_BITS))
    }

    pub(super) fn asked(self) -> Option<Bytes> {
        Some(Bytes(self.0 & ((1 << ASKED_BITS) - 1))).filter(|asked| asked.0 > 0)
    }

    pub(super) fn limit(self) -> Option<Bytes> {
        let code =
            u32::try_from(self.0 >> ASKED_BITS & ((1 << LIMIT_BITS) - 1)).ok().filter(|code| *code > 0)?;
        let asked = self.asked()?;
        let doublings = (f64::from(code) - EQUAL_LIMIT) / LIMIT_STEPS;
        Some(if doublings == 0.0 { asked } else { roundest(asked.as_f64() * doublings.exp2()) })
    }

    pub(super) fn ref_mark(self) -> Option<RefMark> {
        let mark = u8::try_from(self.0 >> (ASKED_BITS + LIMIT_BITS)).ok()?;
        NonZeroU8::new(mark).map(RefMark)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the codes that there are"
)]
fn limit_code(asked: Bytes, limit: Bytes) -> u64 {
    let doublings = (limit.as_f64() / asked.as_f64()).log2();
    (doublings * LIMIT_STEPS + EQUAL_LIMIT).round().clamp(1.0, 1023.0) as u64
}

/// The multiple of the largest power of two that is within [`LIMIT_SHARE`] of `size`.
fn roundest(size: f64) -> Bytes {
    let steps = (0..ASKED_BITS).rev().map(|bit| Bytes(1 << bit).as_f64());
    let near =
        steps.map(|step| (size / step).round() * step).find(|near| (near - size).abs() <= size * LIMIT_SHARE);
    Bytes::from_f64(near.unwrap_or(size))
}

/// Flag: the attempt ran with a preset, and shows how much of it was needed.
pub(super) const ON_PRESET: u8 = 1;
/// Flag: the cause follows from a line of the log alone.
pub(super) const BY_LOG: u8 = 2;
/// Flag: the attempt was opened with its own job's token.
pub(super) const OWN_JOB: u8 = 4;
/// Flag: the need was scraped from Prometheus, so it is a lower bound.
pub(super) const SCRAPED: u8 = 8;
/// Flag: the need is a sum over processes, so it is a lower bound.
pub(super) const BY_PROCESSES: u8 = 16;
/// Two flags that exclude each other together: rescue paused the build.
pub(super) const PAUSED: u8 = SCRAPED | BY_PROCESSES;
/// Flag: the node is to blame.
pub(super) const NODES_FAULT: u8 = 32;
/// Flag: the attempt's use is no measurement of its need.
pub(super) const NO_MEASUREMENT: u8 = 64;
/// Flag: the CPU limit held the build back.
pub(super) const HELD_BACK: u8 = 128;

/// The flags of an attempt.
pub(super) fn flags_of(summary: &Summary) -> u8 {
    let source = match summary.incomplete() {
        None => 0,
        Some(IncompleteNeed::Prometheus) => SCRAPED,
        Some(IncompleteNeed::Processes) => BY_PROCESSES,
        Some(IncompleteNeed::Paused) => PAUSED,
    };
    let flags = [
        (summary.is_cause_unmeasured(), BY_LOG),
        (summary.opening.proven, OWN_JOB),
        (summary.is_nodes_fault(), NODES_FAULT),
        (summary.is_not_a_measurement(), NO_MEASUREMENT),
        (is_on_preset(summary), ON_PRESET),
        (summary.is_held_back(), HELD_BACK),
    ];
    flags.into_iter().filter(|(is_set, _)| *is_set).fold(source, |all, (_, flag)| all | flag)
}

/// Whether the attempt shows how much of a preset is needed: its request is not one that was predicted, or that followed from a failure.
fn is_on_preset(summary: &Summary) -> bool {
    let predicted = summary.predicted_at_start().map(|ours| [ours.memory_request, ours.memory_limit]);
    let is_ours =
        |asked: Bytes| predicted.into_iter().flatten().any(|ours| ours.ceil_mib() == asked.ceil_mib());
    summary.counts_for_memory()
        && summary.number <= 1
        && summary.retries.is_none()
        && summary.resources_at_start().memory_size_asked().is_some_and(|asked| !is_ours(asked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::test_summary;

    #[test]
    fn sizes_and_refs_survive_packing() {
        let packed = |request: Option<u64>, limit: Option<u64>, git_ref: &str| {
            let mut summary = test_summary("a", "zlib", "1", 10);
            (summary.resources.memory_request, summary.resources.memory_limit) =
                (request.map(Bytes), limit.map(Bytes));
            git_ref.clone_into(&mut summary.key.git_ref);
            PackedSizes::of(&summary)
        };
        let sizes =
            |request, limit| [packed(request, limit, "main").asked(), packed(request, limit, "").limit()];
        for (asked, percent) in [(2_u64 << 20, 60), (700 << 20, 103), (12_345 << 20, 150), (65 << 30, 11_900)]
        {
            let limit = asked / 100 * percent;
            let [read, back] = sizes(Some(asked), Some(limit)).map(|size| size.unwrap_or_default().0);
            assert!(read == asked && back.abs_diff(limit) * 90 <= limit, "{limit} came back as {back}");
        }
        let gib = |gib: u64| Some(gib << 30);
        for (request, limit, read) in [
            (gib(2), gib(6), [gib(2), gib(6)]),
            (Some(12_345_678), Some(12_345_678), [Some(12_345_678); 2]),
            (None, gib(3), [gib(3), gib(3)]),
            (gib(3), None, [gib(3), None]),
            (gib(3), Some(u64::MAX), [gib(3), None]),
            (None, None, [None, None]),
        ] {
            assert_eq!(sizes(request, limit), read.map(|size| size.map(Bytes)));
        }
        let marks = ["", "main", "main", "develop"].map(|git_ref| packed(None, None, git_ref).ref_mark());
        assert!(marks[0].is_none() && marks[1] == marks[2] && marks[1] != marks[3], "{marks:?}");
    }
}
