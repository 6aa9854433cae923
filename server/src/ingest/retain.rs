//! What happens to samples as they get old: first they become fewer, then they go, by the rules of [`super::aging`]. Summaries stay
//! ([`super::forget`]).
//!
//! A pass walks over all sealed blocks in small steps between the requests, at most one step a tick, and rests for an hour
//! when it is through, or until about an eighth of what may be kept was added. If the samples take more than their bound, the
//! pass finds the time from which on they would fit, and the next one removes what is older.

use std::time::{Duration, Instant};

use super::{
    aging::{Fate, Horizon, Owner},
    start::start,
    worker::Worker,
};
use crate::{
    domain::AttemptId,
    metrics::Kind,
    store::{self, Batch, Entry, SealError, StoreError},
};

/// Between two steps of a pass.
pub(super) const STEP: Duration = Duration::from_millis(200);

/// A block, the time of its samples, its fate, and its smaller form if there is one.
type Packed = (Entry, u64, Fate, Option<Vec<u8>>);

impl Worker {
    /// One step of the pass, if it is not resting; in turn with those of the walk over summaries, which a pass that never rests
    /// would keep waiting.
    pub(super) async fn retain_step(&mut self) {
        let now = self.believed_now();
        let forgets = !self.pass.last_step_forgot && self.is_forgetting(now);
        if forgets || !self.pass.begins(now) {
            self.pass.last_step_forgot = forgets;
            return self.forget_step(now).await;
        }
        self.pass.last_step_forgot = false;
        if let Err(error) = self.retain_page(now).await {
            tracing::warn!(%error, "could not look after old samples; tried again in an hour");
            self.pass.fail(now);
        }
    }

    /// How late it is, milliseconds since 1970, where what is old goes.
    pub(super) fn believed_now(&mut self) -> u64 {
        let learned = &self.parts.learned;
        let newest =
            || learned.read(|history| history.newest_first().next().map(|brief| brief.ended_unix_ms()));
        self.pass.clock.now(self.parts.clock.now_unix_ms(), Instant::now(), newest)
    }

    async fn retain_page(&mut self, now: u64) -> Result<(), SealError> {
        let page = store::blocks_after(&self.parts.store, self.pass.after.as_deref()).await?;
        let (mut batch, mut thinned, mut removed) = (Batch::default(), 0, 0);
        let mut owned = Vec::with_capacity(page.blocks.len());
        for (id, block) in page.blocks {
            owned.push((self.owner(&id).await?, block));
        }
        let horizon = self.pass.horizon(&self.parts.retain, now);
        for (block, time, fate, value) in packed(owned, horizon).await? {
            match (fate, value) {
                (Fate::Goes, _) => {
                    removed += 1;
                    store::replace_block(&mut batch, block, None);
                }
                (Fate::Thins(_), Some(value)) => {
                    thinned += 1;
                    self.pass.count(time, value.len());
                    store::replace_block(&mut batch, block, Some(value));
                }
                _ => self.pass.count(time, block.value.value.len()),
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

    /// Whose blocks those of an attempt are.
    async fn owner(&mut self, id: &AttemptId) -> Result<Owner, SealError> {
        if let Some((_, owner)) = self.pass.last.as_ref().filter(|(last, _)| last == id) {
            return Ok(*owner);
        }
        let owner = match (store::read_summary(&self.parts.store, id).await, self.sessions.get(id)) {
            (Ok(Some(summary)), _) => Owner::Ended(summary.ended_unix_ms()),
            (Ok(None), Some(session)) => {
                let so_far = session.progress.last.map(|last| last.elapsed).unwrap_or_default();
                Owner::Running(start(session.attempt.started_unix_ms, so_far, session.heard.unix_ms).0)
            }
            (Ok(None), None) => Owner::Unknown,
            // its samples stay, and all others get old as if it were whole
            (Err(error @ StoreError::Damaged { .. }), _) => {
                tracing::error!(attempt = %id, %error, "kept the samples of an attempt whose summary is damaged");
                Owner::Unknown
            }
            (Err(error), _) => return Err(error.into()),
        };
        self.pass.last = Some((id.clone(), owner));
        Ok(owner)
    }
}

/// With each block what becomes of it. Packing takes long: not on a thread that serves others, nor on one that yields to all
/// others, for the one writer waits for it.
async fn packed(owned: Vec<(Owner, Entry)>, horizon: Horizon) -> Result<Vec<Packed>, StoreError> {
    let pack = move |(owner, block): (Owner, Entry)| {
        let time = match owner {
            Owner::Ended(time) => time,
            Owner::Running(started) => {
                started.saturating_add(store::last_elapsed(&block).unwrap_or_default().0)
            }
            // stays: to the bound it is as what came last
            Owner::Unknown => u64::MAX,
        };
        let fate = horizon.fate(owner, time);
        let value = match fate {
            Fate::Thins(width) => store::thinned(&block, width),
            Fate::Stays | Fate::Goes => None,
        };
        (block, time, fate, value)
    };
    let packed = tokio::task::spawn_blocking(move || owned.into_iter().map(pack).collect()).await;
    packed.map_err(|error| StoreError::Unavailable(format!("packing samples failed: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Bytes, Millis, Sample, test_summary},
        ingest::{Retain, fixture, session::Session},
        store::{MemoryStore, Store},
    };

    const DAY_MS: u64 = 24 * 3_600_000;

    /// A store with one ended attempt that is years old.
    async fn old() -> MemoryStore {
        let Store::Memory(memory) = Store::memory() else { panic!("in memory") };
        let (store, attempt) = (Store::Memory(memory.clone()), fixture::attempt("a"));
        let summary = test_summary("a", "zlib", "1", 10);
        let mut batch = Batch::default();
        store::append_fragment(&mut batch, &attempt.id, 1, 0, [Sample::default()]).unwrap();
        store.commit(batch).await.unwrap();
        store::seal(&store, &attempt, &summary).await.unwrap();
        memory
    }

    #[tokio::test]
    async fn the_rest_after_an_error_is_not_ended_by_what_is_added() {
        let memory = old().await;
        let (_ingest, mut worker) = fixture::ingest(&Store::Memory(memory.clone()), 10);
        let retain = Retain { max_bytes: Some(Bytes(100)), ..Retain::default() };
        memory.refuse_commits("the disk is full");
        worker.retain_step().await;
        let rest = worker.pass.rest_until_unix_ms;
        assert!(rest > 0);
        worker.pass.add(&retain, 1000);
        assert_eq!(worker.pass.rest_until_unix_ms, rest);
        memory.accept_commits();
        worker.pass.rest_until_unix_ms = 0;
        worker.retain_step().await;
        assert_eq!(worker.parts.metrics.series_blocks.get_or_create(&Kind::of("removed")).get(), 1);
        worker.pass.add(&retain, 1000);
        assert_eq!(worker.pass.rest_until_unix_ms, 0, "after a pass that was through it is");
    }

    /// A worker with an attempt that runs, and two sealed blocks of 600 samples of it: from its start, and from `later` on.
    async fn running(later: u64) -> (Worker, Store) {
        let (store, attempt) = (Store::memory(), fixture::attempt("a"));
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        let mut session = Session::new(attempt.clone().into(), worker.now());
        for (first, since) in [(1, 0), (601, later)] {
            let need = |n: u64| Bytes((n.pow(5) % 10_007) << 12);
            let sample =
                |n: u64| Sample { elapsed: Millis(since + n * 1000), need: need(n), ..Sample::default() };
            let samples: Vec<Sample> = (1..=600).map(sample).collect();
            samples.iter().try_for_each(|sample| session.progress.add(sample)).unwrap();
            let mut batch = Batch::default();
            store::append_fragment(&mut batch, &attempt.id, first, 0, samples).unwrap();
            store.commit(batch).await.unwrap();
            let roll = store::roll(&store, &attempt.id).await.unwrap();
            store.commit(roll.batch).await.unwrap();
        }
        worker.sessions.insert(attempt.id.clone(), session);
        (worker, store)
    }

    #[tokio::test]
    async fn what_is_old_of_a_running_attempt_becomes_fewer_and_its_newest_stays() {
        let (mut worker, store) = running(100 * DAY_MS).await;
        worker.parts.retain.keep_for = Duration::MAX;
        worker.retain_step().await;
        let extent = store::read_series(&store, &fixture::attempt("a").id).await.unwrap().extent;
        assert_eq!((extent.samples, extent.last_sequence), (41 + 600, 1200));
    }

    #[tokio::test]
    async fn however_old_a_running_attempt_is_its_peak_and_its_last_number_stay() {
        let (mut worker, store) = running(1_000_000).await;
        let id = fixture::attempt("a").id;
        worker.parts.retain.keep_for = Duration::ZERO;
        worker.retain_step().await;
        let read = store::read_series(&store, &id).await.unwrap();
        assert_eq!((read.extent.samples, read.extent.last_sequence), (2, 1200), "a row for each block");
        let highest = read.runs.iter().flat_map(|run| &run.samples).filter_map(|row| row.need_max).max();
        assert_eq!(highest, Some(worker.sessions[&id].progress.need_peak));
        let (_ingest, mut again) = fixture::ingest(&store, 10);
        let mut batch = Batch::default();
        store::put_attempt(&mut batch, &fixture::attempt("a")).unwrap();
        store.commit(batch).await.unwrap();
        again.resume().await.unwrap();
        assert_eq!(again.sessions[&id].acknowledged, 1200, "its agent goes on where it was");
        assert_eq!(again.sessions[&id].progress.need_peak, worker.sessions[&id].progress.need_peak);
    }
}
