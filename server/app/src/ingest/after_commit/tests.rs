//! What is staged on a round that is on its way, and what becomes of it.

use plimsoll_core::domain::{Millis, Sample, Verdict};
use plimsoll_store::{self as store, MemoryStore, Store};
use tokio::sync::oneshot::{self, Receiver};

use super::*;
use crate::ingest::{Append, Refusal, Reply, StreamHandle, fixture, request::Request, session::Session};

/// A worker with an open attempt, and the stream that holds it.
fn held(memory: &MemoryStore) -> (Worker, AttemptId, StreamHandle) {
    let (_ingest, mut worker) = fixture::ingest(&Store::Memory(memory.clone()), 10);
    let (attempt, stream) = (fixture::attempt("a"), StreamHandle::new());
    let mut session = Session::new(attempt.clone().into(), worker.now());
    session.hand_to(&attempt, &stream).unwrap();
    worker.sessions.insert(session);
    (worker, attempt.id, stream)
}

/// Hands samples to the worker, which does not wait for the disk.
async fn append(
    worker: &mut Worker,
    stream: &StreamHandle,
    numbers: std::ops::RangeInclusive<u64>,
) -> Receiver<Reply<u64>> {
    let (answer, answered) = oneshot::channel();
    let sample = |n: u64| Sample { elapsed: Millis(n * 1000), ..Sample::default() };
    let append = Append {
        attempt: fixture::attempt("a").id,
        first_sequence: *numbers.start(),
        lost: 0,
        samples: numbers.map(|n| Some(sample(n))).collect(),
        acts: None,
    };
    worker.handle_requests([Request::Append { append, stream: stream.clone(), answer }].into_iter()).await;
    answered
}

#[tokio::test]
async fn samples_during_a_commit_are_acknowledged_after_it() {
    let memory = MemoryStore::default();
    let (mut worker, id, stream) = held(&memory);
    let mut first = append(&mut worker, &stream, 1..=5).await;
    let mut again = append(&mut worker, &stream, 1..=5).await;
    let mut second = append(&mut worker, &stream, 6..=9).await;
    assert!(!worker.commits.is_idle() && !worker.commits.filling().is_empty());
    for answer in [&mut first, &mut again, &mut second] {
        assert!(answer.try_recv().is_err(), "it is not on the disk yet");
    }
    worker.commit_all().await;
    assert_eq!([first.await, again.await, second.await].map(Result::unwrap), [Ok(5), Ok(5), Ok(9)]);
    let session = &worker.sessions[&id];
    assert_eq!((session.acknowledged, session.progress.samples, session.loose), (9, 9, 9));
    assert_eq!(worker.parts.metrics.open_attempts.get(), 1, "counted when it is on disk");
    let extent = store::read_series(&Store::Memory(memory), &id).await.unwrap().extent;
    assert_eq!((extent.samples, extent.lost), (9, 0));
}

#[tokio::test]
async fn samples_staged_on_a_failed_commit_also_fail() {
    let memory = MemoryStore::default();
    let (mut worker, id, stream) = held(&memory);
    memory.refuse_commits("the disk is full");
    let first = append(&mut worker, &stream, 1..=5).await;
    memory.accept_commits();
    let second = append(&mut worker, &stream, 6..=9).await;
    worker.commit_all().await;
    for answer in [first, second] {
        assert!(matches!(answer.await.unwrap(), Err(Refusal::Unwritable(_))));
    }
    assert_eq!(worker.sessions[&id].acknowledged, 0);
    let extent = store::read_series(&Store::Memory(memory), &id).await.unwrap().extent;
    assert_eq!(extent.last_sequence, 0, "the second is not on disk without the first");
    let again = append(&mut worker, &stream, 1..=9).await;
    worker.commit_all().await;
    assert_eq!(again.await.unwrap(), Ok(9));
}

#[tokio::test]
async fn compaction_and_leaving_count_during_a_commit() {
    let (mut worker, id, stream) = held(&MemoryStore::default());
    worker.sessions.get_mut(&id).unwrap().loose = 900;
    let _answer = append(&mut worker, &stream, 1..=5).await;
    let _answer = append(&mut worker, &stream, 6..=9).await;
    worker.sessions.get_mut(&id).unwrap().loose = 0;
    let leave = Request::Leave { stream: stream.clone(), attempts: vec![id.clone()] };
    worker.handle_requests([leave].into_iter()).await;
    worker.commit_all().await;
    let session = &worker.sessions[&id];
    assert_eq!((session.loose, session.acknowledged), (9, 9));
    assert!(session.holder.is_none(), "its agent may come back on another stream");
}

#[tokio::test]
async fn the_open_limit_includes_attempts_not_yet_committed() {
    let (mut worker, _id, stream) = held(&MemoryStore::default());
    let most = worker.parts.open_attempts;
    let mut answers = Vec::new();
    // one is open; the first round flies with four, each asked for twice, and the second waits for it
    for (first, count) in [(0, 4), (0, 4), (4, most)] {
        let requests: Vec<Request> = (first..first + count)
            .map(|n| {
                let (answer, answered) = oneshot::channel();
                answers.push(answered);
                let attempt = fixture::attempt(&format!("new{n}")).into();
                Request::Open { attempt, stream: stream.clone(), takes_new_id: false, answer }
            })
            .collect();
        worker.handle_requests(requests.into_iter()).await;
    }
    assert!(!worker.commits.is_idle() && !worker.commits.filling().is_empty());
    worker.commit_all().await;
    let mut refused = 0;
    for answer in answers {
        refused += usize::from(matches!(answer.await.unwrap(), Err(Refusal::Full(_))));
    }
    assert_eq!((worker.sessions.len(), refused), (most, 5));
}

#[tokio::test]
async fn the_first_verdict_on_an_attempt_counts() {
    let (mut worker, _id, stream) = held(&MemoryStore::default());
    let record = |id: &str, reason: &str| {
        let (answer, answered) = oneshot::channel();
        let verdict = fixture::verdict(&AttemptId::parse(id).unwrap());
        let verdict = Verdict { reason: reason.to_owned(), ..verdict }.into();
        (Request::Record { fingerprint: 1, verdict, answer }, answered)
    };
    let mut samples = append(&mut worker, &stream, 1..=5).await;
    let [(x, mut of_x), (y, mut of_y), (again, of_again)] =
        [("x", "first"), ("y", "first"), ("x", "second")].map(|(id, reason)| record(id, reason));
    worker.handle_requests([x, y].into_iter()).await;
    assert!(samples.try_recv().is_err() && of_x.try_recv().is_err() && of_y.try_recv().is_err());
    worker.handle_requests([again].into_iter()).await;
    for answered in [of_x, of_y, of_again] {
        assert_eq!(answered.await.unwrap().unwrap().reason, "first");
    }
    assert_eq!(samples.await.unwrap(), Ok(5));
}
