//! What a brief keeps of an attempt in a few bytes: marks of its job and commit, and flags.

use std::num::{NonZeroU32, NonZeroU64};

use plimsoll_proto::measured::IncompleteNeed;

use crate::domain::{Fnv, Key, Summary};

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

/// Flag: the attempt's memory request or limit is known.
pub(super) const MEMORY_ASKED: u8 = 1;
/// Flag: the cause follows from a line of the log alone.
pub(super) const BY_LOG: u8 = 2;
/// Flag: the attempt was opened with its own job's token.
pub(super) const OWN_JOB: u8 = 4;
/// Flag: the need was scraped from Prometheus, so it is a lower bound.
pub(super) const SCRAPED: u8 = 8;
/// Flag: the need is a sum over processes, so it is a lower bound.
pub(super) const BY_PROCESSES: u8 = 16;
/// Flag: the node is to blame.
pub(super) const NODES_FAULT: u8 = 32;
/// Flag: the attempt's use is no measurement of its need.
pub(super) const NO_MEASUREMENT: u8 = 64;

/// The flags of an attempt.
pub(super) fn flags_of(summary: &Summary) -> u8 {
    let source = match summary.incomplete() {
        None => 0,
        Some(IncompleteNeed::Prometheus) => SCRAPED,
        Some(IncompleteNeed::Processes) => BY_PROCESSES,
    };
    let flags = [
        (summary.resources.memory_size_asked().is_some(), MEMORY_ASKED),
        (summary.is_cause_unmeasured(), BY_LOG),
        (summary.opening.proven, OWN_JOB),
        (summary.is_nodes_fault(), NODES_FAULT),
        (summary.is_not_a_measurement(), NO_MEASUREMENT),
    ];
    flags.into_iter().filter(|(is_set, _)| *is_set).fold(source, |all, (_, flag)| all | flag)
}
