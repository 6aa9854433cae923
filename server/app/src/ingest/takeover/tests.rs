//! A caller without proof comes before a job's own agent.

use plimsoll_core::domain::{Millis, Rung, Sample, SessionId};
use plimsoll_store::{MemoryStore, Store};
use tokio::sync::oneshot;

use super::*;
use crate::ingest::{
    Append, Finish, Refusal, StreamHandle, fixture,
    request::{OpenedAttempt, Request},
};

/// An attempt of a caller that proves no job, whatever it says.
fn squatted() -> Attempt {
    let mut attempt = Attempt { session: SessionId::parse("squatter").unwrap(), ..fixture::attempt("h:7") };
    attempt.key.project = "evil/fork".into();
    attempt
}

/// The same one, opened by the agent of the job.
fn proven() -> Attempt {
    let mut attempt = Attempt { session: SessionId::parse("own").unwrap(), ..fixture::attempt("h:7") };
    attempt.key.project = "team/x".into();
    attempt.opening.proven = true;
    attempt
}

async fn asked<T>(
    worker: &mut Worker,
    request: impl FnOnce(oneshot::Sender<Reply<T>>) -> Request,
) -> Reply<T> {
    let (answer, answered) = oneshot::channel();
    worker.handle_requests([request(answer)].into_iter()).await;
    worker.commit_all().await;
    answered.await.unwrap()
}

async fn open(worker: &mut Worker, attempt: Attempt, stream: &StreamHandle) -> Reply<OpenedAttempt> {
    let attempt = Box::new(attempt);
    asked(worker, |answer| Request::Open { attempt, stream: stream.clone(), takes_new_id: false, answer })
        .await
}

fn opens(acknowledged: u64, sealed: bool) -> OpenedAttempt {
    OpenedAttempt { acknowledged, sealed, attempt: proven().id }
}

fn samples(numbers: std::ops::RangeInclusive<u64>) -> Append {
    let sample = |n: u64| Sample { elapsed: Millis(n * 1000), ..Sample::default() };
    let first_sequence = *numbers.start();
    Append {
        attempt: proven().id,
        first_sequence,
        lost: 0,
        samples: numbers.map(|n| Some(sample(n))).collect(),
        acts: None,
    }
}

async fn append(worker: &mut Worker, append: Append, stream: &StreamHandle) -> Reply<u64> {
    asked(worker, |answer| Request::Append { append, stream: stream.clone(), answer }).await
}

async fn finish(worker: &mut Worker, last_sequence: u64, stream: &StreamHandle) -> Reply<u64> {
    let finish = Finish { last_sequence, ..fixture::finish(proven().id) };
    let finish = Box::new(finish);
    asked(worker, |answer| Request::Finish { finish, stream: stream.clone(), answer }).await
}

/// A worker on this store, after its start.
async fn started(memory: &MemoryStore) -> Worker {
    let (_ingest, mut worker) = fixture::ingest(&Store::Memory(memory.clone()), 10);
    worker.resume().await.unwrap();
    worker
}

/// A worker with an attempt under the job's id of which five samples came, and the stream of their sender.
async fn with_squatter(memory: &MemoryStore) -> (Worker, StreamHandle) {
    let (mut worker, stream) = (started(memory).await, StreamHandle::new());
    open(&mut worker, squatted(), &stream).await.unwrap();
    assert_eq!(append(&mut worker, samples(1..=5), &stream).await, Ok(5));
    (worker, stream)
}

/// The projects that attempts in memory are of, and samples on the disk.
async fn known(worker: &Worker) -> (Vec<String>, u64) {
    let open = worker.open().map(|attempt| attempt.key.project.clone());
    let ended = worker.parts.history.newest_first();
    let all = open.chain(ended.iter().map(|brief| brief.key.project.clone())).collect();
    let run = store::each_run(&worker.parts.store, &proven().id, |_run| {}).await.unwrap();
    (all, run.samples)
}

fn of_job(samples: u64) -> (Vec<String>, u64) {
    (vec!["team/x".to_owned()], samples)
}

#[tokio::test]
async fn a_jobs_own_agent_takes_over_its_attempt() {
    let memory = MemoryStore::default();
    let (mut worker, squatter) = with_squatter(&memory).await;
    let own = StreamHandle::new();
    assert_eq!(open(&mut worker, proven(), &own).await, Ok(opens(0, false)));
    assert_eq!(known(&worker).await, of_job(0));
    let taken_over = Err(Refusal::TakenOver(proven().id));
    assert!(squatter.replaced.is_cancelled());
    assert_eq!(append(&mut worker, samples(6..=7), &squatter).await, taken_over);
    assert_eq!(finish(&mut worker, 5, &squatter).await, taken_over);
    let again = open(&mut worker, squatted(), &StreamHandle::new()).await.unwrap();
    assert_eq!(again.attempt.as_str(), "h:7.2", "a caller that came before does not get it back");
    assert_eq!(append(&mut worker, samples(1..=2), &own).await, Ok(2));
    assert_eq!(worker.parts.metrics.taken_over.get_or_create(&KindLabel::of("open")).get(), 1);
    drop(worker);

    let mut worker = started(&memory).await;
    assert_eq!(known(&worker).await.1, 2);
    let again = open(&mut worker, squatted(), &StreamHandle::new()).await.unwrap();
    assert_eq!(again.attempt.as_str(), "h:7.2", "nor after a restart");
    let own = StreamHandle::new();
    assert_eq!(open(&mut worker, proven(), &own).await, Ok(opens(2, false)));
    finish(&mut worker, 2, &own).await.unwrap();
    let summary = store::read_summary(&worker.parts.store, &proven().id).await.unwrap().unwrap();
    assert_eq!((summary.key.project.as_str(), summary.samples, summary.opening.proven), ("team/x", 2, true));
}

#[tokio::test]
async fn a_squatters_ended_attempt_is_removed_with_verdicts() {
    let memory = MemoryStore::default();
    let (mut worker, squatter) = with_squatter(&memory).await;
    finish(&mut worker, 5, &squatter).await.unwrap();
    let verdict = Box::new(fixture::verdict(&proven().id));
    asked(&mut worker, |answer| Request::Record { fingerprint: 7, verdict, answer }).await.unwrap();
    assert_eq!(known(&worker).await, (vec!["evil/fork".to_owned()], 5));
    let own = StreamHandle::new();
    assert_eq!(open(&mut worker, proven(), &own).await, Ok(opens(0, false)));
    assert_eq!(known(&worker).await, of_job(0));
    assert_eq!(store::read_verdicts(&worker.parts.store, &proven().id).await.unwrap(), []);
    append(&mut worker, samples(1..=3), &own).await.unwrap();
    finish(&mut worker, 3, &own).await.unwrap();
    assert_eq!(known(&worker).await, of_job(3), "the job's own is learnt");
    assert_eq!(known(&started(&memory).await).await, of_job(3));
}

#[tokio::test]
async fn an_untrusted_takeover_replaces_no_trusted_attempt() {
    for (taught, may_teach) in [(true, true), (true, false), (false, false), (false, true)] {
        let (mut worker, stream) = (started(&MemoryStore::default()).await, StreamHandle::new());
        let (mut before, mut own) = (squatted(), proven());
        (before.opening.untrusted, own.opening.untrusted) = (!taught, !may_teach);
        open(&mut worker, before, &stream).await.unwrap();
        finish(&mut worker, 0, &stream).await.unwrap();
        let opened = open(&mut worker, own, &StreamHandle::new()).await.unwrap();
        let has_another_id = opened.attempt != proven().id;
        assert_eq!(has_another_id, taught && !may_teach, "{taught} {may_teach}: {opened:?}");
        let key = squatted().key;
        let left = worker.parts.history.read(|history| history.on_rung(Rung::Exact, &key).count());
        assert_eq!(left, usize::from(taught && !may_teach));
    }
}

#[tokio::test]
async fn the_first_of_two_agents_keeps_the_attempt() {
    let (mut worker, first) = (started(&MemoryStore::default()).await, StreamHandle::new());
    open(&mut worker, proven(), &first).await.unwrap();
    append(&mut worker, samples(1..=2), &first).await.unwrap();
    let other = Attempt { session: SessionId::parse("other").unwrap(), ..proven() };
    let held = Err(Refusal::Held(proven().id));
    assert_eq!(open(&mut worker, other.clone(), &StreamHandle::new()).await, held);
    finish(&mut worker, 2, &first).await.unwrap();
    assert_eq!(open(&mut worker, other, &StreamHandle::new()).await, held);
    let again = open(&mut worker, proven(), &first).await;
    assert_eq!(again, Ok(opens(2, true)), "its own agent may ask again");
}

#[tokio::test]
async fn a_failed_takeover_changes_nothing_and_can_retry() {
    let memory = MemoryStore::default();
    let (mut worker, squatter) = with_squatter(&memory).await;
    memory.refuse_commits("the disk is full");
    let refused = open(&mut worker, proven(), &StreamHandle::new()).await;
    assert!(matches!(refused, Err(Refusal::Unwritable(_))), "{refused:?}");
    assert!(!squatter.replaced.is_cancelled());
    assert_eq!(known(&worker).await, (vec!["evil/fork".to_owned()], 5));
    memory.accept_commits();
    assert_eq!(append(&mut worker, samples(6..=7), &squatter).await, Ok(7));
    open(&mut worker, proven(), &StreamHandle::new()).await.unwrap();
    assert_eq!(known(&worker).await, of_job(0));
}

#[tokio::test]
async fn appends_after_a_takeover_are_refused() {
    let memory = MemoryStore::default();
    let (mut worker, squatter) = with_squatter(&memory).await;
    let own = StreamHandle::new();
    let (answer, more) = oneshot::channel();
    let before = Request::Append { append: samples(6..=9), stream: squatter.clone(), answer };
    let (answer, opened) = oneshot::channel();
    let opening =
        Request::Open { attempt: Box::new(proven()), stream: own.clone(), takes_new_id: false, answer };
    let (answer, late) = oneshot::channel();
    let behind = Request::Append { append: samples(10..=11), stream: squatter, answer };
    worker.handle_requests([before, opening, behind].into_iter()).await;
    worker.commit_all().await;
    assert_eq!(more.await.unwrap(), Ok(9), "it was there first");
    assert_eq!(opened.await.unwrap(), Ok(opens(0, false)));
    assert_eq!(late.await.unwrap(), Err(Refusal::TakenOver(proven().id)));
    assert_eq!(known(&worker).await, of_job(0));
}
