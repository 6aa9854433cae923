//! Samples become fewer and go.

use std::time::Duration;

use plimsoll_core::domain::{Bytes, Millis, RetentionPolicy, Sample, test_summary};
use plimsoll_store::{MemoryStore, Store};

use super::*;
use crate::ingest::{Worker, fixture, session::Session};

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
async fn new_samples_do_not_end_an_error_pause() {
    let memory = old().await;
    let (_ingest, mut worker) = fixture::ingest(&Store::Memory(memory.clone()), 10);
    let retain = RetentionPolicy { max_bytes: Some(Bytes(100)), ..RetentionPolicy::default() };
    memory.refuse_commits("the disk is full");
    worker.retain_step().await;
    let rest = worker.retention.samples.paused_until_unix_ms;
    assert!(rest > 0);
    worker.retention.samples.add(&retain, 1000);
    assert_eq!(worker.retention.samples.paused_until_unix_ms, rest);
    memory.accept_commits();
    worker.retention.samples.paused_until_unix_ms = 0;
    worker.retain_step().await;
    assert_eq!(worker.parts.metrics.series_blocks.get_or_create(&KindLabel::of("removed")).get(), 1);
    worker.retention.samples.add(&retain, 1000);
    assert_eq!(worker.retention.samples.paused_until_unix_ms, 0, "after a pass that was through it is");
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
        let compaction = store::compact_samples(&store, &attempt.id).await.unwrap();
        store.commit(compaction.batch).await.unwrap();
    }
    worker.sessions.insert(session);
    (worker, store)
}

#[tokio::test]
async fn a_running_attempts_old_samples_are_thinned() {
    let (mut worker, store) = running(100 * DAY_MS).await;
    worker.retention.parts.policy.keep_for = Duration::MAX;
    worker.retain_step().await;
    let extent = store::read_series(&store, &fixture::attempt("a").id).await.unwrap().extent;
    assert_eq!((extent.samples, extent.last_sequence), (41 + 600, 1200));
}

#[tokio::test]
async fn a_running_attempt_keeps_peak_and_last_sequence() {
    let (mut worker, store) = running(1_000_000).await;
    let id = fixture::attempt("a").id;
    worker.retention.parts.policy.keep_for = Duration::ZERO;
    worker.retain_step().await;
    let read = store::read_series(&store, &id).await.unwrap();
    assert_eq!((read.extent.samples, read.extent.last_sequence), (2, 1200), "a row for each block");
    let highest = read.runs.iter().flat_map(|run| &run.samples).filter_map(|row| row.need_max).max();
    assert_eq!(highest, Some(worker.sessions[&id].progress.need_peak));
    let (_ingest, mut again) = fixture::ingest(&store, 10);
    let mut batch = Batch::default();
    store::put(&mut batch, &fixture::attempt("a")).unwrap();
    store.commit(batch).await.unwrap();
    again.resume().await.unwrap();
    assert_eq!(again.sessions[&id].acknowledged, 1200, "its agent goes on where it was");
    assert_eq!(again.sessions[&id].progress.need_peak, worker.sessions[&id].progress.need_peak);
}
