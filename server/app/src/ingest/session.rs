//! One open attempt: which sequence numbers are acknowledged, which stream may write to it, and
//! which part of a batch is new. Pure rules; the worker commits the results.

use std::{sync::Arc, time::Duration};

use plimsoll_core::domain::{
    Attempt, FieldViolation, Millis, Phase, ReportedOutcome, Sample, SampleAccumulator,
};
use plimsoll_proto::v1::ActsNow;
use tokio::time::Instant;

use crate::{
    ingest::{
        Refusal, Reply,
        open_quota::QuotaShare,
        request::{Append, Finish, NewSamples, RunningAttempt},
        stream_handle::StreamHandle,
    },
    pools::HeldSlot,
    runtime::skipped_facts::SkippedFacts,
};

/// One open attempt.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// The attempt as its agent announced it.
    pub(crate) attempt: Arc<Attempt>,
    /// Everything up to this sequence number is on disk or declared lost.
    pub(crate) acknowledged: u64,
    /// Number of samples declared lost.
    pub(crate) lost: u64,
    /// Number of samples that are on disk, but not yet in a sealed block.
    pub(crate) loose: u64,
    /// Totals of the samples.
    pub(crate) progress: SampleAccumulator,
    /// What the agent has done about the memory limit, if anything; not on disk.
    pub(crate) acts: Option<ActsNow>,
    /// The stream that may write; `None` while no agent is connected.
    pub(crate) holder: Option<StreamHandle>,
    /// Time of the agent's last message.
    pub(crate) last_message: LastMessage,
    /// The attempt's slot in its pool, if that is known.
    pub(crate) slot: Option<HeldSlot>,
    /// The attempt's share of the limits of open attempts; `None` for a trusted attempt restored
    /// when the server started, which counts only toward the common limit.
    pub(crate) quota_share: Option<Arc<QuotaShare>>,
    /// The CI system's report on the attempt's end, if it came before the agent's.
    pub(crate) reported: Option<Arc<ReportedOutcome>>,
}

/// A moment on two clocks: the wall clock shows when an attempt ended; the monotonic clock measures
/// a silence and does not jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastMessage {
    pub(crate) unix_ms: u64,
    pub(crate) moment: Instant,
}

impl Session {
    /// A session for an attempt without samples.
    pub(crate) fn new(attempt: Arc<Attempt>, last_message: LastMessage) -> Self {
        Self {
            attempt,
            acknowledged: 0,
            lost: 0,
            loose: 0,
            progress: SampleAccumulator::default(),
            acts: None,
            holder: None,
            last_message,
            slot: None,
            quota_share: None,
            reported: None,
        }
    }

    /// The attempt with its current state, for watchers.
    pub(crate) fn running(&self) -> RunningAttempt {
        RunningAttempt {
            attempt: Arc::clone(&self.attempt),
            progress: self.progress.clone(),
            acts: self.acts,
        }
    }

    /// Lets `stream` write to the attempt, and ends an older stream of the same agent.
    pub(crate) fn hand_to(&mut self, attempt: &Attempt, stream: &StreamHandle) -> Reply<()> {
        if !self.attempt.is_same_agent(attempt) {
            return Err(Refusal::Held(attempt.id.clone()));
        }
        if let Some(holder) = self.holder.as_ref().filter(|holder| *holder != stream) {
            holder.replaced.cancel();
        }
        self.holder = Some(stream.clone());
        Ok(())
    }

    /// Whether the agent has sent no message for longer than `patience`: it has probably died or
    /// hangs.
    pub(crate) fn is_silent(&self, now: Instant, patience: Duration) -> bool {
        now.saturating_duration_since(self.last_message.moment) > patience
    }

    /// Whether the attempt is untrusted and has no samples.
    pub(crate) fn is_unfed(&self) -> bool {
        self.attempt.opening.untrusted && self.acknowledged == 0
    }

    /// Checks that `stream` may write to the attempt.
    pub(crate) fn check_holder(&self, stream: &StreamHandle) -> Reply<()> {
        match &self.holder {
            Some(holder) if holder == stream => Ok(()),
            _ if stream.taken_over() == Some(&self.attempt.id) => {
                Err(Refusal::TakenOver(self.attempt.id.clone()))
            }
            Some(_) => Err(Refusal::Replaced(self.attempt.id.clone())),
            None => Err(Refusal::NotOpen(self.attempt.id.clone())),
        }
    }

    /// Applies the new part of a batch and returns it; `None` if all of it was acknowledged before.
    /// A sample that cannot follow the one before is skipped and counts as lost. After an error
    /// this session must be dropped, because some samples may have been applied already.
    pub(crate) fn accept_batch(
        &mut self,
        batch: Append,
        skipped: &mut SkippedFacts,
    ) -> Reply<Option<NewSamples>> {
        let expected = self.acknowledged + 1;
        if batch.first_sequence - batch.lost > expected {
            let attempt = batch.attempt;
            return Err(Refusal::Gap { attempt, expected, got: batch.first_sequence - batch.lost });
        }
        let known = usize::try_from(expected.saturating_sub(batch.first_sequence)).unwrap_or(usize::MAX);
        let Some(new) = batch.samples.get(known..).filter(|new| !new.is_empty()) else { return Ok(None) };
        let last = batch.first_sequence + batch.samples.len() as u64 - 1;
        let mut samples = Vec::with_capacity(new.len());
        for (index, sample) in new.iter().enumerate() {
            let next = new.get(index + 1).copied().flatten();
            let mut part = skipped.part("batch.samples");
            let leave_out = |fault| part.leave_out(fault);
            let Some(sample) = sample.and_then(|sample| self.usable_sample(sample, next, leave_out)) else {
                continue;
            };
            self.progress.add(&sample).map_err(|fault| fault.within("batch.samples"))?;
            samples.push(sample);
        }
        let first_sequence = last + 1 - samples.len() as u64;
        let lost = first_sequence - expected;
        self.acknowledged = last;
        self.lost += lost;
        self.acts = batch.acts;
        Ok(Some(NewSamples { first_sequence, lost, samples }))
    }

    /// The sample, adjusted so that it can follow the one before; `None` if that is impossible. If
    /// its time is after the time of the `next` sample, only this sample is dropped.
    fn usable_sample(
        &self,
        sample: Sample,
        next: Option<Sample>,
        mut leave_out: impl FnMut(FieldViolation),
    ) -> Option<Sample> {
        let Some(last) = &self.progress.last else { return Some(sample) };
        let follows = |next: &Sample| next.elapsed > last.elapsed && next.elapsed <= sample.elapsed;
        if let Some(next) = next.filter(follows) {
            let description = format!(
                "is {}, and {} in the sample behind it; time must grow from sample to sample",
                sample.elapsed.0, next.elapsed.0
            );
            leave_out(FieldViolation::new("elapsed_ms", description));
            return None;
        }
        sample.after(last, leave_out)
    }

    /// Checks that all sequence numbers of an ended attempt have arrived or were declared lost, and
    /// counts the lost ones.
    pub(crate) fn close(&mut self, finish: &Finish) -> Reply<()> {
        if finish.last_sequence < self.acknowledged {
            let description =
                format!("is {}, but {} numbers are acknowledged", finish.last_sequence, self.acknowledged);
            return Err(FieldViolation::new("finish.last_sequence", description).into());
        }
        let missing = finish.last_sequence - self.acknowledged;
        if missing > finish.lost {
            let (attempt, expected) = (finish.attempt.clone(), self.acknowledged + 1);
            return Err(Refusal::Gap { attempt, expected, got: finish.last_sequence - finish.lost + 1 });
        }
        self.lost += missing;
        self.acknowledged = finish.last_sequence;
        Ok(())
    }

    /// Duration of the attempt: the agent's value, but no less than its samples and phases show.
    pub(crate) fn wall(&self, finish: &Finish, skipped: &mut SkippedFacts) -> Millis {
        let last = self.progress.last.map(|last| last.elapsed).unwrap_or_default();
        if let Some(wall) = finish.wall.filter(|wall| *wall < last) {
            let description = format!("is {}, but the last sample was taken at {}", wall.0, last.0);
            skipped.push(FieldViolation::new("finish.wall_ms", description));
        }
        let phases = finish.phases.last().map(Phase::ended).unwrap_or_default();
        finish.wall.unwrap_or(phases).max(last)
    }
}

#[cfg(test)]
mod tests;
