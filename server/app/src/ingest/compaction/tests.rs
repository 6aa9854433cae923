//! Long attempts are compacted beside the requests.

use std::slice;

use plimsoll_core::domain::{Millis, Sample, test_summary};
use plimsoll_store::{self as store, Batch, MemoryStore, Store};
use tokio::sync::oneshot;

use super::*;
use crate::ingest::{
    compaction_queue::{COMPACT_AFTER, MAX_FRAGMENT_SAMPLES},
    fixture,
    session::Session,
    worker::Worker,
};

/// A worker with an attempt that has so many loose samples on disk.
async fn with_loose(memory: &MemoryStore, samples: u64) -> (Worker, AttemptId) {
    let store = Store::Memory(memory.clone());
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    let attempt = fixture::attempt("a");
    let mut session = Session::new(attempt.clone().into(), worker.now());
    (session.acknowledged, session.loose) = (samples, samples);
    worker.sessions.insert(session);
    append(&store, &attempt.id, 1, samples).await;
    (worker, attempt.id)
}

async fn append(store: &Store, id: &AttemptId, first: u64, last: u64) {
    let sample = |n: u64| Sample { elapsed: Millis(n * 1000), ..Sample::default() };
    let samples: Vec<Sample> = (first..=last).map(sample).collect();
    let mut batch = Batch::default();
    store::append_fragment(&mut batch, id, first, 0, samples).unwrap();
    store.commit(batch).await.unwrap();
}

#[tokio::test]
async fn appends_continue_during_compaction_without_loss() {
    let memory = MemoryStore::default();
    let (mut worker, id) = with_loose(&memory, COMPACT_AFTER).await;
    worker.compactions.compact_long(&mut worker.sessions, slice::from_ref(&id));
    assert!(worker.compactions.queue.is_running(&id), "it has only begun");
    assert_eq!(worker.sessions[&id].loose, 0);
    let store = Store::Memory(memory);
    append(&store, &id, COMPACT_AFTER + 1, 1000).await;
    let ended = worker.compactions.next().await;
    worker.compaction_ended(ended);
    assert!(!worker.compactions.queue.is_running(&id));
    let extent = store::read_series(&store, &id).await.unwrap().extent;
    assert_eq!((extent.samples, extent.lost, extent.loose), (1000, 0, 100));
}

#[tokio::test]
async fn an_attempt_ends_after_its_roll() {
    let memory = MemoryStore::default();
    let (mut worker, id) = with_loose(&memory, COMPACT_AFTER).await;
    worker.compactions.compact_long(&mut worker.sessions, slice::from_ref(&id));
    worker.stop_compactions([&id].into_iter()).await;
    assert!(!worker.compactions.queue.is_busy_with(&id));
    let store = Store::Memory(memory);
    store::seal(&store, &worker.sessions[&id].attempt, &test_summary("a", "zlib", "1", 1)).await.unwrap();
    let extent = store::read_series(&store, &id).await.unwrap().extent;
    assert_eq!((extent.samples, extent.lost, extent.loose), (COMPACT_AFTER, 0, 0));
}

#[tokio::test]
async fn answers_wait_only_for_overdue_compaction() {
    let memory = MemoryStore::default();
    let (mut worker, id) = with_loose(&memory, MAX_FRAGMENT_SAMPLES).await;
    memory.refuse_commits("the disk is full");
    worker.compactions.compact_long(&mut worker.sessions, slice::from_ref(&id));
    assert_eq!(worker.sessions.loose(&id), 0, "begun");
    // more came meanwhile
    worker.sessions.get_mut(&id).unwrap().loose = MAX_FRAGMENT_SAMPLES;
    let mut answered = [id.clone(), fixture::attempt("b").id].map(|id| {
        let (answer, answered) = oneshot::channel();
        worker.compactions.answer_or_hold(&worker.sessions, PromisedAnswer::Acknowledged(id, answer, 5));
        answered
    });
    let answers = answered.each_mut().map(|answered| answered.try_recv().ok());
    assert_eq!(answers, [None, Some(Ok(5))], "others go on");
    let ended = worker.compactions.next().await;
    worker.compaction_ended(ended);
    assert_eq!(worker.sessions.loose(&id), 2 * MAX_FRAGMENT_SAMPLES, "all is still to be rolled");
    assert_eq!(answered[0].try_recv(), Ok(Ok(5)), "what it says is on disk");
    memory.accept_commits();
    worker.compactions.compact_long(&mut worker.sessions, slice::from_ref(&id));
    worker.stop_compactions([&id].into_iter()).await;
    assert_eq!(worker.sessions.loose(&id), 0);
    let store = Store::Memory(memory);
    assert_eq!(store::read_series(&store, &id).await.unwrap().extent.loose, 0);
}
