//! What happens to samples as they get old: first they become fewer, then they go. Summaries stay ([`super::forget`]).
//!
//! Those of an ended attempt get old from its end on. An attempt that never ends would grow without bound: what is old of it becomes
//! fewer as well, a row for 15 seconds, and stays until it ends, because the newest of it says where its agent goes on.
//!
//! A pass walks over all sealed blocks in small steps between the requests, at most one step a tick, and rests for an hour
//! when it is through, or until about an eighth of what may be kept was added. If the samples take more than their bound, the
//! pass finds the age at which they would fit, and the next one removes what is older.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{start::start, worker::Worker};
use crate::{
    domain::{AttemptId, Bytes, Millis},
    metrics::Kind,
    store::{self, Batch, Entry, SealError, StoreError},
};

/// Between two steps of a pass.
pub(super) const STEP: Duration = Duration::from_millis(200);
/// Time of one row of an attempt whose samples became fewer.
const ROW: Millis = Millis(15_000);
/// Between two passes.
pub(super) const REST_MS: u64 = 3_600_000;
const HOUR_MS: u64 = 3_600_000;
/// Bytes of a sealed sample, rather too many (measured: 4 to 14, and each block has a key).
const SAMPLE_BYTES: u64 = 16;

/// How old samples may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retain {
    /// As they were measured.
    pub full_for: Duration,
    /// At all.
    pub keep_for: Duration,
    /// Most bytes of sealed samples; `None` is no bound.
    pub max_bytes: Option<Bytes>,
    /// Summaries of attempts; `None` is for ever.
    pub summaries_for: Option<Duration>,
}

impl Default for Retain {
    fn default() -> Self {
        Self {
            // long enough to look into what failed lately
            full_for: Duration::from_hours(30 * 24),
            keep_for: Duration::from_hours(365 * 24),
            max_bytes: None,
            summaries_for: None,
        }
    }
}

/// How far a pass is.
#[derive(Debug, Default)]
pub(super) struct Pass {
    after: Option<Vec<u8>>,
    rest_until_unix_ms: u64,
    /// The rest is that after an error, which nothing ends early.
    failed: bool,
    /// Bytes that were sealed since the last pass ended, about.
    added: u64,
    /// The attempt met last, and the age of its end in ms; `None` for one that has no end.
    last: Option<(AttemptId, Option<u64>)>,
    /// Bytes by the age in hours.
    kept: BTreeMap<u64, u64>,
    /// When this process first looked at the clock, and what it said.
    began: Option<(Instant, u64)>,
    /// What is older goes, because all of it does not fit.
    fits_for_ms: Option<u64>,
}

/// What becomes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    /// If its last sample was taken by then, since the start of its attempt.
    Thins(Millis),
    Goes,
}

/// All of an attempt.
const TO_THE_END: Millis = Millis(u64::MAX);

/// A block with its fate, its age in ms, and its smaller form if there is one.
type Packed = (Fate, Option<u64>, Entry, Option<Vec<u8>>);

impl Pass {
    fn fate(&self, retain: &Retain, age_ms: Option<u64>) -> Fate {
        // an attempt without an end
        let Some(age_ms) = age_ms else { return Fate::Stays };
        if age_ms > ms(retain.keep_for).min(self.fits_for_ms.unwrap_or(u64::MAX)) {
            Fate::Goes
        } else if age_ms > ms(retain.full_for) {
            Fate::Thins(TO_THE_END)
        } else {
            Fate::Stays
        }
    }

    /// The time by the clock, unless it jumped ahead since this process began: years must not pass in a moment.
    fn believed(&mut self, now_unix_ms: u64, moment: Instant) -> u64 {
        let (began, said) = *self.began.get_or_insert((moment, now_unix_ms));
        let passed = u64::try_from(moment.saturating_duration_since(began).as_millis()).unwrap_or(u64::MAX);
        now_unix_ms.min(said.saturating_add(passed).saturating_add(HOUR_MS))
    }

    fn count(&mut self, age_ms: Option<u64>, bytes: usize) {
        *self.kept.entry(age_ms.unwrap_or(0) / HOUR_MS).or_default() += bytes as u64;
    }

    /// Notes samples that were sealed. So many that they may not fit end the rest.
    pub(super) fn add(&mut self, retain: &Retain, samples: u64) {
        self.added = self.added.saturating_add(samples.saturating_mul(SAMPLE_BYTES));
        if !self.failed && retain.max_bytes.is_some_and(|most| self.added > most.0 / 8) {
            self.rest_until_unix_ms = 0;
        }
    }

    /// Ends a pass; gives the bytes that were kept.
    fn end(&mut self, retain: &Retain, now_unix_ms: u64) -> u64 {
        let all = self.kept.values().sum();
        let most = retain.max_bytes.map_or(u64::MAX, |bytes| bytes.0);
        self.fits_for_ms = (all > most).then(|| age_that_fits(&self.kept, most));
        // what is too much goes at once
        self.rest_until_unix_ms = if all > most { 0 } else { now_unix_ms.saturating_add(REST_MS) };
        self.kept.clear();
        self.added = 0;
        self.last = None;
        all
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The largest age in ms below which all takes at most `most` bytes.
fn age_that_fits(kept: &BTreeMap<u64, u64>, most: u64) -> u64 {
    let mut sum = 0_u64;
    for (hour, bytes) in kept {
        sum = sum.saturating_add(*bytes);
        if sum > most {
            return hour.saturating_mul(HOUR_MS);
        }
    }
    u64::MAX
}

impl Worker {
    /// One step of the pass, if it is not resting.
    pub(super) async fn retain_step(&mut self) {
        let now = self.pass.believed(self.parts.clock.now_unix_ms(), Instant::now());
        if now < self.pass.rest_until_unix_ms {
            return self.forget_step(now).await;
        }
        self.pass.failed = false;
        if let Err(error) = self.retain_page(now).await {
            tracing::warn!(%error, "could not look after old samples; tried again in an hour");
            let Pass { began, added, .. } = self.pass;
            let rest_until_unix_ms = now.saturating_add(REST_MS);
            self.pass = Pass { rest_until_unix_ms, failed: true, began, added, ..Pass::default() };
        }
    }

    async fn retain_page(&mut self, now: u64) -> Result<(), SealError> {
        let page = store::blocks_after(&self.parts.store, self.pass.after.as_deref()).await?;
        let (mut batch, mut thinned, mut removed) = (Batch::default(), 0, 0);
        let mut fates = Vec::with_capacity(page.blocks.len());
        for (id, block) in page.blocks {
            let age = self.age(&id, now).await?;
            let fate = match age {
                Some(_) => self.pass.fate(&self.parts.retain, age),
                None => self.fate_of_running(&id, now),
            };
            fates.push((fate, age, block));
        }
        for (fate, age, block, value) in packed(fates).await? {
            let bytes = block.value.value.len();
            match (fate, value) {
                (Fate::Goes, _) => {
                    removed += 1;
                    store::replace_block(&mut batch, block, None);
                }
                (Fate::Thins(_), Some(value)) => {
                    thinned += 1;
                    self.pass.count(age, value.len());
                    store::replace_block(&mut batch, block, Some(value));
                }
                _ => self.pass.count(age, bytes),
            }
        }
        if !batch.is_empty() {
            self.parts.store.commit(batch).await?;
        }
        let blocks = &self.parts.metrics.series_blocks;
        blocks.get_or_create(&Kind::of("thinned")).inc_by(thinned);
        blocks.get_or_create(&Kind::of("removed")).inc_by(removed);
        self.pass.after = page.next;
        if self.pass.after.is_none() {
            let kept = self.pass.end(&self.parts.retain, now);
            self.parts.metrics.series_bytes.set(kept);
        }
        Ok(())
    }

    /// What becomes of the blocks of an attempt that has not ended.
    fn fate_of_running(&self, id: &AttemptId, now: u64) -> Fate {
        let Some(session) = self.sessions.get(id) else { return Fate::Stays };
        let so_far = session.progress.last.map(|last| last.elapsed).unwrap_or_default();
        let (started, _) = start(session.attempt.started_unix_ms, so_far, session.heard.unix_ms);
        let old = now.saturating_sub(started).saturating_sub(ms(self.parts.retain.full_for));
        if old == 0 { Fate::Stays } else { Fate::Thins(Millis(old)) }
    }

    /// Time since the end of an attempt, ms; `None` if it has no end.
    async fn age(&mut self, id: &AttemptId, now: u64) -> Result<Option<u64>, SealError> {
        if let Some((_, age)) = self.pass.last.as_ref().filter(|(last, _)| last == id) {
            return Ok(*age);
        }
        let summary = store::read_summary(&self.parts.store, id).await?;
        let age = summary.map(|summary| now.saturating_sub(summary.ended_unix_ms()));
        self.pass.last = Some((id.clone(), age));
        Ok(age)
    }
}

/// With each block what it becomes if it thins. Packing takes long: not on a thread that serves others, nor on one that
/// yields to all others, for the one writer waits for it.
async fn packed(fates: Vec<(Fate, Option<u64>, Entry)>) -> Result<Vec<Packed>, StoreError> {
    let pack = |(fate, age, block): (Fate, Option<u64>, Entry)| {
        let value = match fate {
            Fate::Thins(until) => store::thinned(&block, ROW, until),
            Fate::Stays | Fate::Goes => None,
        };
        (fate, age, block, value)
    };
    let packed = tokio::task::spawn_blocking(move || fates.into_iter().map(pack).collect()).await;
    packed.map_err(|error| StoreError::Unavailable(format!("packing samples failed: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Sample, test_summary},
        ingest::{fixture, session::Session},
        store::{MemoryStore, Store},
    };

    const RETAIN: Retain = Retain {
        full_for: Duration::from_hours(2),
        keep_for: Duration::from_hours(10),
        max_bytes: Some(Bytes(100)),
        summaries_for: None,
    };

    #[test]
    fn samples_become_fewer_and_then_go_and_those_without_an_end_stay() {
        let pass = Pass::default();
        let fate = |age| pass.fate(&RETAIN, age);
        assert_eq!([fate(None), fate(Some(HOUR_MS))], [Fate::Stays; 2]);
        assert_eq!(
            (fate(Some(3 * HOUR_MS)), fate(Some(11 * HOUR_MS))),
            (Fate::Thins(TO_THE_END), Fate::Goes)
        );
    }

    #[test]
    fn a_clock_that_jumps_a_year_ahead_makes_nothing_older() {
        let (mut pass, begin, year) = (Pass::default(), Instant::now(), 365 * 24 * HOUR_MS);
        assert_eq!(pass.believed(year, begin), year);
        let later = begin + Duration::from_hours(1);
        assert_eq!(pass.believed(2 * year, later), year + 2 * HOUR_MS);
        assert_eq!(pass.believed(year / 2, later), year / 2, "back is harmless: all is younger then");
    }

    #[test]
    fn what_does_not_fit_goes_from_the_oldest_end_and_at_once() {
        let mut pass = Pass::default();
        for (hour, bytes) in [(0, 40), (1, 50), (5, 30), (6, 10)] {
            pass.count(Some(hour * HOUR_MS), bytes);
        }
        assert_eq!(pass.end(&RETAIN, 7), 130);
        assert_eq!((pass.fits_for_ms, pass.rest_until_unix_ms), (Some(5 * HOUR_MS), 0));
        assert_eq!(pass.fate(&RETAIN, Some(5 * HOUR_MS + 1)), Fate::Goes);
        assert_ne!(pass.fate(&RETAIN, Some(4 * HOUR_MS)), Fate::Goes);
        pass.count(Some(0), 90);
        pass.end(&RETAIN, 7);
        assert_eq!((pass.fits_for_ms, pass.rest_until_unix_ms), (None, 7 + REST_MS));
    }

    #[test]
    fn a_rest_ends_when_much_was_added() {
        let mut pass = Pass { rest_until_unix_ms: 7, ..Pass::default() };
        let bound = |max_bytes| Retain { max_bytes, ..RETAIN };
        pass.add(&bound(None), 1000);
        pass.add(&bound(Some(Bytes(1 << 20))), 1000);
        assert_eq!(pass.rest_until_unix_ms, 7);
        pass.add(&bound(Some(Bytes(1 << 18))), 1000);
        assert_eq!(pass.rest_until_unix_ms, 0);
    }

    /// A store with one ended attempt that is years old.
    async fn old() -> MemoryStore {
        let Store::Memory(memory) = Store::memory() else { panic!("in memory") };
        let (store, attempt) = (Store::Memory(memory.clone()), fixture::attempt("a"));
        let summary = test_summary("a", "zlib", "1", 10);
        let mut batch = Batch::default();
        store::append_fragment(&mut batch, &attempt.id, 1, 0, &[Sample::default()]).unwrap();
        store.commit(batch).await.unwrap();
        store::seal(&store, &attempt, &summary).await.unwrap();
        memory
    }

    #[tokio::test]
    async fn the_rest_after_an_error_is_not_ended_by_what_is_added() {
        let memory = old().await;
        let (_ingest, mut worker) = fixture::ingest(&Store::Memory(memory.clone()), 10);
        memory.refuse_commits("the disk is full");
        worker.retain_step().await;
        let rest = worker.pass.rest_until_unix_ms;
        assert!(rest > 0);
        worker.pass.add(&RETAIN, 1000);
        assert_eq!(worker.pass.rest_until_unix_ms, rest);
        memory.accept_commits();
        worker.pass.rest_until_unix_ms = 0;
        worker.retain_step().await;
        assert_eq!(worker.parts.metrics.series_blocks.get_or_create(&Kind::of("removed")).get(), 1);
        worker.pass.add(&RETAIN, 1000);
        assert_eq!(worker.pass.rest_until_unix_ms, 0, "after a pass that was through it is");
    }
    #[tokio::test]
    async fn what_is_old_of_a_running_attempt_becomes_fewer_and_its_newest_stays() {
        const DAY_MS: u64 = 24 * HOUR_MS;
        let (store, attempt) = (Store::memory(), fixture::attempt("a"));
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        let mut session = Session::new(attempt.clone().into(), worker.now());
        for (first, since) in [(1, 0), (601, 100 * DAY_MS)] {
            let need = |n: u64| Bytes((n.pow(5) % 10_007) << 12);
            let sample =
                |n: u64| Sample { elapsed: Millis(since + n * 1000), need: need(n), ..Sample::default() };
            let samples: Vec<Sample> = (1..=600).map(sample).collect();
            samples.iter().try_for_each(|sample| session.progress.add(sample)).unwrap();
            let mut batch = Batch::default();
            store::append_fragment(&mut batch, &attempt.id, first, 0, &samples).unwrap();
            store.commit(batch).await.unwrap();
            let roll = store::roll(&store, &attempt.id).await.unwrap();
            store.commit(roll.batch).await.unwrap();
        }
        worker.sessions.insert(attempt.id.clone(), session);
        worker.retain_step().await;
        let extent = store::read_series(&store, &attempt.id).await.unwrap().extent;
        assert_eq!((extent.samples, extent.last_sequence), (41 + 600, 1200));
    }
}
