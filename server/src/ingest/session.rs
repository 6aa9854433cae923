//! One open attempt: which numbers are acknowledged, who holds it, and which part of a batch is new. Pure rules; the
//! worker commits what they accept.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{refusal::Refusal, shares::Share};
use crate::{
    domain::{Attempt, AttemptId, Exit, Fault, Millis, Phase, Progress, Sample, Told, Totals},
    identity::Identity,
    placing::Held,
};

/// One stream of one agent. Cheap to clone; clones are the same stream.
#[derive(Debug, Clone)]
pub(crate) struct StreamHandle {
    id: u64,
    /// Ends the stream because the same agent has opened a newer one, or the agent of a job its own attempt.
    pub(crate) replaced: CancellationToken,
    ousted: Arc<OnceLock<AttemptId>>,
    /// Whose it is.
    pub(super) caller: Arc<Identity>,
}

impl StreamHandle {
    /// A new stream of somebody for whom nothing is bounded.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self::of(Identity::anyone())
    }

    /// A new stream of this caller.
    pub(crate) fn of(caller: Arc<Identity>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { id, replaced: CancellationToken::new(), ousted: Arc::default(), caller }
    }

    /// Ends the stream, because an attempt that it wrote is that of a job whose own agent has come.
    pub(super) fn oust(&self, attempt: &AttemptId) {
        // the first one is the reason
        let _earlier = self.ousted.set(attempt.clone());
        self.replaced.cancel();
    }

    /// The attempt for which the stream was ended; `None` if it was not, or by a newer stream of its own agent.
    pub(crate) fn ousted(&self) -> Option<&AttemptId> {
        self.ousted.get()
    }
}

impl PartialEq for StreamHandle {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// Samples to append. `lost` numbers before `first_sequence` were dropped by the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Append {
    pub(crate) attempt: AttemptId,
    pub(crate) first_sequence: u64,
    pub(crate) lost: u64,
    pub(crate) samples: Vec<Sample>,
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finish {
    pub(crate) attempt: AttemptId,
    pub(crate) last_sequence: u64,
    pub(crate) lost: u64,
    pub(crate) wall: Millis,
    pub(crate) exit: Option<Exit>,
    pub(crate) totals: Totals,
    /// In order, not overlapping, within `wall`.
    pub(crate) phases: Vec<Phase>,
    /// Another try may follow in the place of its ticket, which holds it.
    pub(crate) keeps_ticket: bool,
}

/// One open attempt.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// What the agent announced.
    pub(crate) attempt: Arc<Attempt>,
    /// Everything up to this number is on disk or declared lost.
    pub(crate) acknowledged: u64,
    /// Numbers declared lost.
    pub(crate) lost: u64,
    /// Samples that are on disk and not yet in a sealed block.
    pub(crate) loose: u64,
    /// Sums over the samples.
    pub(crate) progress: Progress,
    /// The stream that may write; `None` while nobody is connected.
    pub(crate) holder: Option<StreamHandle>,
    /// When the agent was last heard of.
    pub(crate) heard: Heard,
    /// Its place in the pool it runs in, where that is known.
    pub(crate) place: Option<Held>,
    /// Its part of what may be open at once; `None` for one that was taken up at a start and counts among none but all.
    pub(crate) share: Option<Arc<Share>>,
    /// What a CI system told of its end, which its agent has not told yet.
    pub(crate) told: Option<Arc<Told>>,
}

/// A moment, by two clocks: that of the wall says when an attempt ended, the other one how long its agent is silent, whatever
/// is done to the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) unix_ms: u64,
    pub(crate) moment: Instant,
}

impl Session {
    /// An attempt without samples.
    pub(crate) fn new(attempt: Arc<Attempt>, heard: Heard) -> Self {
        Self {
            attempt,
            acknowledged: 0,
            lost: 0,
            loose: 0,
            progress: Progress::default(),
            holder: None,
            heard,
            place: None,
            share: None,
            told: None,
        }
    }

    /// Hands the attempt to `stream`. A stream of the same agent that held it is told to end.
    pub(crate) fn take(&mut self, attempt: &Attempt, stream: &StreamHandle) -> Result<(), Refusal> {
        if !self.attempt.is_same_agent(attempt) {
            return Err(Refusal::Held(attempt.id.clone()));
        }
        if let Some(holder) = self.holder.as_ref().filter(|holder| *holder != stream) {
            holder.replaced.cancel();
        }
        self.holder = Some(stream.clone());
        Ok(())
    }

    /// Nobody was heard of for longer than `patience`: the agent is gone, or connected and stuck.
    pub(crate) fn is_silent(&self, now: Instant, patience: Duration) -> bool {
        now.saturating_duration_since(self.heard.moment) > patience
    }

    /// It was opened, teaches nothing, and nothing was ever measured of it.
    pub(crate) fn is_unfed(&self) -> bool {
        self.attempt.opening.untrusted && self.acknowledged == 0
    }

    /// Checks that `stream` may write.
    pub(crate) fn check_holder(&self, stream: &StreamHandle) -> Result<(), Refusal> {
        match &self.holder {
            Some(holder) if holder == stream => Ok(()),
            _ if stream.ousted() == Some(&self.attempt.id) => Err(Refusal::Ousted(self.attempt.id.clone())),
            Some(_) => Err(Refusal::Replaced(self.attempt.id.clone())),
            None => Err(Refusal::NotOpen(self.attempt.id.clone())),
        }
    }

    /// Takes in what is new of a batch and returns it; `None` if all of it was acknowledged before. After a refusal this
    /// session must be dropped: some samples may have been counted.
    pub(crate) fn accept(&mut self, mut batch: Append) -> Result<Option<Append>, Refusal> {
        let expected = self.acknowledged + 1;
        if batch.first_sequence - batch.lost > expected {
            let attempt = batch.attempt;
            return Err(Refusal::Gap { attempt, expected, got: batch.first_sequence - batch.lost });
        }
        let known = usize::try_from(expected.saturating_sub(batch.first_sequence)).unwrap_or(usize::MAX);
        if known >= batch.samples.len() {
            return Ok(None);
        }
        batch.samples.drain(..known);
        batch.lost = batch.first_sequence.saturating_sub(expected);
        batch.first_sequence = batch.first_sequence.max(expected);
        for (index, sample) in batch.samples.iter().enumerate() {
            let place = |fault: Fault| fault.within(&format!("batch.samples[{}]", index + known));
            self.progress.add(sample).map_err(place)?;
        }
        let added = batch.samples.len() as u64;
        self.acknowledged = batch.first_sequence + added - 1;
        self.lost += batch.lost;
        Ok(Some(batch))
    }

    /// Checks that all numbers of a finished attempt are here or declared lost, and counts the lost ones.
    pub(crate) fn close(&mut self, finish: &Finish) -> Result<(), Refusal> {
        if finish.last_sequence < self.acknowledged {
            let description =
                format!("is {}, but {} numbers are acknowledged", finish.last_sequence, self.acknowledged);
            return Err(Fault::new("finish.last_sequence", description).into());
        }
        let missing = finish.last_sequence - self.acknowledged;
        if missing > finish.lost {
            let (attempt, expected) = (finish.attempt.clone(), self.acknowledged + 1);
            return Err(Refusal::Gap { attempt, expected, got: finish.last_sequence - finish.lost + 1 });
        }
        if let Some(last) = &self.progress.last
            && finish.wall < last.elapsed
        {
            let description =
                format!("is {}, but the last sample was taken at {}", finish.wall.0, last.elapsed.0);
            return Err(Fault::new("finish.wall_ms", description).into());
        }
        self.lost += missing;
        self.acknowledged = finish.last_sequence;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Key, Opening, Resources, SessionId, Source};

    fn attempt(session: &str) -> Attempt {
        Attempt {
            id: AttemptId::parse("a").unwrap(),
            session: SessionId::parse(session).unwrap(),
            key: Key { package: "zlib".into(), ..Key::default() },
            number: 1,
            retries: None,
            source: Source::CgroupV2,
            resources: Resources::default(),
            started_unix_ms: 0,
            opening: Opening::default(),
        }
    }

    fn heard() -> Heard {
        Heard { unix_ms: 0, moment: Instant::now() }
    }

    fn batch(first_sequence: u64, lost: u64, count: u64) -> Append {
        let sample = |n| Sample { elapsed: Millis(n * 1000), ..Sample::default() };
        let samples = (first_sequence..first_sequence + count).map(sample).collect();
        Append { attempt: AttemptId::parse("a").unwrap(), first_sequence, lost, samples }
    }

    fn finish(last_sequence: u64, lost: u64, wall: u64) -> Finish {
        let attempt = AttemptId::parse("a").unwrap();
        let (wall, totals) = (Millis(wall), Totals::default());
        Finish {
            attempt,
            last_sequence,
            lost,
            wall,
            exit: None,
            totals,
            phases: Vec::new(),
            keeps_ticket: false,
        }
    }

    #[test]
    fn a_repeated_number_is_not_taken_twice() {
        let mut session = Session::new(Arc::new(attempt("s")), heard());
        assert!(session.accept(batch(1, 0, 5)).unwrap().is_some());
        assert_eq!(session.accept(batch(1, 0, 5)).unwrap(), None);
        let new = session.accept(batch(3, 0, 5)).unwrap().unwrap();
        assert_eq!((new.first_sequence, new.lost, new.samples.len()), (6, 0, 2));
        assert_eq!((session.acknowledged, session.progress.samples), (7, 7));
    }

    #[test]
    fn a_missing_number_is_an_error_unless_declared_lost() {
        let mut session = Session::new(Arc::new(attempt("s")), heard());
        let gap = session.clone().accept(batch(3, 1, 1)).unwrap_err();
        assert!(matches!(gap, Refusal::Gap { expected: 1, got: 2, .. }), "{gap:?}");
        let new = session.accept(batch(3, 2, 1)).unwrap().unwrap();
        assert_eq!((new.lost, session.lost, session.acknowledged), (2, 2, 3));
        let again = session.accept(batch(4, 3, 1)).unwrap().unwrap();
        assert_eq!((again.lost, session.lost), (0, 2), "numbers declared lost before are not counted again");
    }

    #[test]
    fn time_that_goes_back_between_batches_is_refused() {
        let mut session = Session::new(Arc::new(attempt("s")), heard());
        session.accept(batch(1, 0, 5)).unwrap();
        let mut back = batch(6, 0, 2);
        back.samples[1].elapsed = Millis(1);
        let refusal = session.accept(back).unwrap_err();
        assert!(
            matches!(&refusal, Refusal::Fault(f) if f.field == "batch.samples[1].elapsed_ms"),
            "{refusal:?}"
        );
    }

    #[test]
    fn an_end_needs_all_numbers() {
        let mut session = Session::new(Arc::new(attempt("s")), heard());
        session.accept(batch(1, 0, 5)).unwrap();
        assert!(matches!(session.clone().close(&finish(6, 0, 9000)), Err(Refusal::Gap { expected: 6, .. })));
        assert!(session.clone().close(&finish(4, 0, 9000)).is_err());
        assert!(session.clone().close(&finish(5, 0, 4999)).is_err(), "it cannot end before its last sample");
        session.close(&finish(7, 2, 9000)).unwrap();
        assert_eq!((session.acknowledged, session.lost), (7, 2));
    }

    #[test]
    fn an_agent_is_silent_by_the_time_that_passes_whatever_the_clock_on_the_wall_says() {
        let (hour, year_ms) = (Duration::from_hours(1), 365 * 24 * 3_600_000);
        let mut session = Session::new(Arc::new(attempt("s")), heard());
        session.take(&attempt("s"), &StreamHandle::new()).unwrap();
        let now = session.heard.moment;
        for unix_ms in [0, year_ms, u64::MAX] {
            session.heard.unix_ms = unix_ms;
            assert!(!session.is_silent(now + hour, hour));
            assert!(
                session.is_silent(now + hour + hour, hour),
                "also one that is connected and says nothing"
            );
        }
    }

    #[test]
    fn only_the_same_agent_takes_an_attempt_over() {
        let mut session = Session::new(Arc::new(attempt("s")), heard());
        let (old, new) = (StreamHandle::new(), StreamHandle::new());
        session.take(&attempt("s"), &old).unwrap();
        assert_eq!(session.take(&attempt("other"), &new), Err(Refusal::Held(AttemptId::parse("a").unwrap())));
        let mut forged = attempt("s");
        forged.key.project = "another".into();
        assert_eq!(session.take(&forged, &new), Err(Refusal::Held(AttemptId::parse("a").unwrap())));
        let mut forged = attempt("s");
        forged.opening.untrusted = true;
        assert_eq!(session.take(&forged, &new), Err(Refusal::Held(AttemptId::parse("a").unwrap())));
        assert!(!old.replaced.is_cancelled(), "a stranger disturbs nobody");
        session.take(&attempt("s"), &new).unwrap();
        assert!(old.replaced.is_cancelled());
        assert!(session.check_holder(&old).is_err());
        assert!(session.check_holder(&new).is_ok());
    }
}
