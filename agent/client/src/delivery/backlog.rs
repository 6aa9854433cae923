//! Keeps the samples that one attempt still has to deliver, and numbers them.
//!
//! Every sample gets the next number and keeps it. It is written to the spool file if possible. The newest samples are also in memory: at
//! most [`SPOOLED_SAMPLES`] of those in the file, and at most [`MEMORY_SAMPLES`] of those that could not be written. Older samples are read
//! from the file when it is their turn to be sent. A number that comes next, but has its sample in neither place, is declared lost, so no
//! list of lost numbers is needed.

use std::{collections::VecDeque, path::Path};

use plimsoll_proto::{
    limits,
    v1::{Batch, Finish, Hello, Sample},
};

use super::spool::{BatchBounds, Spool, SpoolContents};

/// Most samples of one attempt in memory; about 2 MB.
pub(super) const MEMORY_SAMPLES: usize = 10_000;
/// Most samples in memory that the file has too: as many as fit in one batch.
pub(super) const SPOOLED_SAMPLES: usize = limits::BATCH_SAMPLES;
/// Limits of one batch. The rest of the message's bytes is for the attempt's id and the message's own fields.
const BATCH_BOUNDS: BatchBounds =
    BatchBounds { samples: limits::BATCH_SAMPLES, bytes: limits::MESSAGE_BYTES - 1024 };

/// The samples of one attempt that are not delivered yet.
#[derive(Debug)]
pub(super) struct Backlog {
    hello: Hello,
    /// The id under which the server stores the attempt.
    runs_as: String,
    spool: Option<Spool>,
    /// The newest samples, without a gap; the last one has the number `last`.
    memory: VecDeque<BufferedSample>,
    last: u64,
    acknowledged: u64,
    /// Number of samples that left memory without being in the file and that the server has not yet acknowledged as lost.
    dropped: u64,
    /// Ranges of sample numbers that the agent declared lost on this stream, oldest first: the last number of each range, and how many
    /// numbers it has.
    declared: VecDeque<(u64, u64)>,
    /// Number of samples that the server has recorded as lost.
    lost: u64,
    finish: Option<Finish>,
}

/// A sample in memory, and whether the spool file has it too.
#[derive(Debug)]
struct BufferedSample {
    sample: Sample,
    spooled: bool,
}

/// How far one stream has sent the samples.
#[derive(Debug, Default)]
pub(super) struct StreamCursor {
    /// Every sample up to this number was sent or declared lost on this stream, or was acknowledged before.
    pub(super) sent: u64,
    offset: u64,
}

impl Backlog {
    /// Creates the backlog of a new attempt.
    pub(super) fn new(hello: Hello, spool: Option<Spool>) -> Self {
        Self {
            runs_as: hello.attempt.clone(),
            hello,
            spool,
            memory: VecDeque::new(),
            last: 0,
            acknowledged: 0,
            dropped: 0,
            declared: VecDeque::new(),
            lost: 0,
            finish: None,
        }
    }

    /// Creates the backlog of an attempt from the spool file that an earlier run left. If the file does not have the attempt's end, the
    /// attempt ends with its last sample.
    pub(super) fn of_earlier_run(spool: Spool, contents: SpoolContents) -> Self {
        let SpoolContents { hello, last, finish, .. } = contents;
        let (number, sample) = last.unwrap_or_default();
        let unseen = Finish { last_sequence: number, wall_ms: sample.elapsed_ms, ..Finish::default() };
        let mut finish = finish.unwrap_or(unseen);
        finish.attempt.clone_from(&hello.attempt);
        let last = number.max(finish.last_sequence);
        Self { last, finish: Some(finish), ..Self::new(hello, Some(spool)) }
    }

    /// Numbers the next sample, and keeps it.
    pub(super) fn push(&mut self, sample: Sample) {
        self.last = self.last.saturating_add(1);
        let number = self.last;
        let spooled = self.spool.as_mut().is_some_and(|spool| spool.append_sample(number, sample));
        self.memory.push_back(BufferedSample { sample, spooled });
        let full = self.memory.len() > MEMORY_SAMPLES;
        let first_is_spooled = self.memory.front().is_some_and(|kept| kept.spooled);
        if full || first_is_spooled && self.memory.len() > SPOOLED_SAMPLES {
            self.memory.pop_front();
            self.dropped = self.dropped.saturating_add(u64::from(!first_is_spooled));
        }
    }

    /// Records the end of the attempt.
    pub(super) fn close(&mut self, mut finish: Finish) {
        finish.attempt.clone_from(&self.hello.attempt);
        finish.last_sequence = self.last;
        if let Some(spool) = self.spool.as_mut() {
            // the spool records that a write failed; the Finish is then sent from memory
            let _kept = spool.append_finish(&finish);
        }
        self.finish = Some(finish);
    }

    /// Starts a new stream to a server that has every sample up to number `acknowledged`.
    pub(super) fn begin(&mut self, acknowledged: u64) -> StreamCursor {
        self.acknowledge(acknowledged);
        self.declared.clear();
        StreamCursor { sent: acknowledged, offset: 0 }
    }

    /// Drops the samples up to `number`, which the server has on disk.
    pub(super) fn acknowledge(&mut self, number: u64) {
        self.acknowledged = self.acknowledged.max(number);
        while let Some((_, lost)) =
            self.declared.front().filter(|(last, _)| *last <= self.acknowledged).copied()
        {
            self.declared.pop_front();
            self.lost = self.lost.saturating_add(lost);
            self.dropped = self.dropped.saturating_sub(lost);
        }
        while !self.memory.is_empty() && self.memory_first() <= self.acknowledged {
            self.memory.pop_front();
        }
        if self.acknowledged.saturating_add(1) >= self.memory_first() {
            // samples that are no longer in memory are all on the server
            self.dropped = 0;
        }
        if self.memory.capacity() > SPOOLED_SAMPLES && self.memory.len() < SPOOLED_SAMPLES / 2 {
            self.memory.shrink_to(SPOOLED_SAMPLES);
        }
        if let Some(spool) = self.spool.as_mut() {
            spool.drop_acknowledged(self.acknowledged);
        }
    }

    /// The next samples to send on a stream; `None` if all of them were sent.
    pub(super) fn next_batch(&mut self, cursor: &mut StreamCursor) -> Option<Batch> {
        let want = cursor.sent.saturating_add(1);
        let memory_first = self.memory_first();
        let mut run = Vec::new();
        if let Some(spool) = self.spool.as_ref().filter(|_| want < memory_first) {
            run = spool.read_run(&mut cursor.offset, want, memory_first, BATCH_BOUNDS);
        }
        if run.is_empty() {
            let skip = usize::try_from(want.saturating_sub(memory_first)).unwrap_or(usize::MAX);
            let samples = self.memory.iter().map(|kept| kept.sample);
            let mut left = BATCH_BOUNDS;
            run = (memory_first..)
                .zip(samples)
                .skip(skip)
                .take_while(|(_, sample)| left.admit(sample))
                .collect();
        }
        let (first, last) = (run.first()?.0, run.last()?.0);
        let lost = first.saturating_sub(want);
        self.declared.push_back((last, lost));
        cursor.sent = last;
        let samples = run.into_iter().map(|(_, sample)| sample).collect();
        Some(Batch { attempt: self.runs_as.clone(), first_sequence: first, lost, samples })
    }

    /// The Finish message for a server that has every sample up to number `acknowledged`; `None` if the attempt has not ended.
    pub(super) fn finish_after(&mut self, acknowledged: u64) -> Option<Finish> {
        let mut finish = self.finish.clone()?;
        finish.attempt.clone_from(&self.runs_as);
        // the file may have lost its end, and then knows fewer numbers than the server
        finish.last_sequence = finish.last_sequence.max(acknowledged);
        finish.lost = finish.last_sequence.saturating_sub(acknowledged);
        self.declared.push_back((finish.last_sequence, finish.lost));
        Some(finish)
    }

    /// Records the id under which the server stores the attempt, because another run has the id in Hello.
    pub(super) fn run_as(&mut self, id: &str) {
        if self.runs_as != id {
            tracing::info!(asked = self.hello.attempt, id, "another run has the id of this attempt");
            id.clone_into(&mut self.runs_as);
        }
    }

    /// The id under which the server stores the attempt.
    pub(super) fn runs_as(&self) -> &str {
        &self.runs_as
    }

    /// The message that opens the attempt on a stream.
    pub(super) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Number up to which all samples are on the server's disk.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Number of samples that were not sent on this stream yet.
    pub(super) fn waiting(&self, cursor: &StreamCursor) -> u64 {
        self.last.saturating_sub(cursor.sent)
    }

    /// Whether the attempt has ended.
    pub(super) fn ended(&self) -> bool {
        self.finish.is_some()
    }

    /// Number of samples that are neither in memory, nor in the file, nor on the server.
    pub(super) fn lost(&self) -> u64 {
        self.lost.saturating_add(self.dropped)
    }

    /// Number of samples that exist in memory only.
    pub(super) fn unspooled(&self) -> u64 {
        self.memory.iter().fold(0, |sum, kept| sum.saturating_add(u64::from(!kept.spooled)))
    }

    /// The spool file; `None` if there is none.
    pub(super) fn spool(&mut self) -> Option<&mut Spool> {
        self.spool.as_mut()
    }

    /// Deletes the spool file and creates no other, because the server does not want these samples.
    pub(super) fn discard_file(&mut self) {
        if let Some(spool) = self.spool.take() {
            spool.remove();
        }
    }

    /// Path of the spool file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.spool.as_ref().map(Spool::path)
    }

    /// Number of the oldest sample in memory; if there is none, one more than the last number.
    fn memory_first(&self) -> u64 {
        self.last.saturating_add(1).saturating_sub(self.memory.len() as u64)
    }

    #[cfg(test)]
    pub(super) fn in_memory(&self) -> usize {
        self.memory.len()
    }
}
