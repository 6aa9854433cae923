//! Attempts that are judged anew without being asked about.

use plimsoll_core::domain::{
    Action, Cause, EvidenceLine, EvidenceSource, Exit, Outcome, Summary, Verdict, test_summary,
};
use plimsoll_store::{MemoryStore, Store};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::*;
use crate::sessions::fixture;

/// An attempt that failed for a reason that is not known.
fn failed(id: &str) -> Summary {
    let (outcome, exit) = (Outcome::Failed, Some(Exit::Code(1)));
    Summary { outcome, exit, cause: Some(Cause::Unknown), ..test_summary(id, "zlib", "1", 10) }
}

/// Two verdicts as an earlier release left them: by the log, and later by nothing, which is the one in force.
fn overwritten(id: &str) -> [(u64, Verdict); 2] {
    let unknown = Verdict { given_unix_ms: Some(20), ..fixture::verdict(&AttemptId::parse(id).unwrap()) };
    let line = EvidenceLine {
        source: EvidenceSource::Log,
        text: "compile-error: x.c:1:2: error: no".into(),
        supports: true,
    };
    let (cause, action) = (Cause::Deterministic, Action::No);
    let by_log = Verdict { cause, action, evidence: vec![line], given_unix_ms: Some(10), ..unknown.clone() };
    let mut unnamed = unknown;
    unnamed.outlook.signature = None;
    [(7, by_log), (8, unnamed)]
}

async fn with_overwritten(ids: &[&str]) -> (MemoryStore, Store) {
    let memory = MemoryStore::default();
    let store = Store::Memory(memory.clone());
    let mut batch = Batch::default();
    for id in ids {
        store::put_summary(&mut batch, &failed(id)).unwrap();
        for (question, verdict) in overwritten(id) {
            store::put_verdict(&mut batch, question, &verdict).unwrap();
        }
    }
    store.commit(batch).await.unwrap();
    (memory, store)
}

/// A server over the store, and its walk.
async fn started(store: &Store) -> (Ingest, Rejudging, JoinHandle<()>) {
    let (ingest, mut worker) = fixture::ingest(store, 1000);
    worker.resume().await.unwrap();
    let rejudging = Rejudging::new(ingest.clone(), &mut worker);
    (ingest, rejudging, TaskTracker::new().spawn(worker.run(CancellationToken::new())))
}

async fn cause(store: &Store, id: &str) -> (Option<Cause>, Option<EvidenceSource>) {
    let summary = store::read_summary(store, &AttemptId::parse(id).unwrap()).await.unwrap().unwrap();
    (summary.cause, summary.cause_source)
}

const BY_LOG: (Option<Cause>, Option<EvidenceSource>) =
    (Some(Cause::Deterministic), Some(EvidenceSource::Log));

#[tokio::test]
async fn a_verdict_of_an_earlier_release_that_knew_less_than_one_before_it_is_judged_anew_once() {
    let (_memory, store) = with_overwritten(&["a"]).await;
    let (ingest, rejudging, worker) = started(&store).await;
    walk(&rejudging.ingest).await.unwrap();
    let id = AttemptId::parse("a").unwrap();
    let given = ingest.verdicts(&id, "").await.unwrap();
    assert_eq!((given.len(), given[0].cause), (3, Cause::Deterministic), "{given:?}");
    assert_eq!(cause(&store, "a").await, BY_LOG);
    let counted = ingest.parts.learned.read(|history| history.get(&id).and_then(|brief| brief.cause));
    assert_eq!(counted, Some(Cause::Deterministic), "statistics have it without a restart");
    worker.abort();
    let before = store.status().commits;
    let (_ingest, rejudging, worker) = started(&store).await;
    walk(&rejudging.ingest).await.unwrap();
    assert_eq!(store.status().commits, before, "it runs once");
    worker.abort();
}

#[tokio::test]
async fn a_walk_that_a_stop_cut_short_goes_on_and_judges_nothing_twice() {
    let ids: Vec<String> = (100..200).map(|n| n.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let (memory, store) = with_overwritten(&ids).await;
    let (ingest, rejudging, worker) = started(&store).await;
    assert!(ingest.bring_up_to_date(&AttemptId::parse("100").unwrap()).await.unwrap());
    memory.refuse_commits("the disk is full");
    assert!(walk(&rejudging.ingest).await.is_err(), "how far it is cannot be written");
    memory.accept_commits();
    worker.abort();
    drop(ingest);
    let (ingest, rejudging, worker) = started(&store).await;
    walk(&rejudging.ingest).await.unwrap();
    for id in ids {
        let given = ingest.verdicts(&AttemptId::parse(id).unwrap(), "").await.unwrap();
        assert_eq!((given.len(), given[0].cause), (3, Cause::Deterministic), "{id}");
        assert_eq!(cause(&store, id).await, BY_LOG, "{id}");
    }
    worker.abort();
}

#[tokio::test]
async fn the_only_verdict_of_an_earlier_release_stands_and_its_cause_becomes_that_of_the_attempt() {
    let store = Store::memory();
    let [(question, by_log), _] = overwritten("a");
    let mut batch = Batch::default();
    store::put_summary(&mut batch, &failed("a")).unwrap();
    store::put_verdict(&mut batch, question, &by_log).unwrap();
    store.commit(batch).await.unwrap();
    let (ingest, rejudging, worker) = started(&store).await;
    walk(&rejudging.ingest).await.unwrap();
    assert_eq!(cause(&store, "a").await, BY_LOG);
    assert_eq!(ingest.verdicts(&by_log.attempt, "").await.unwrap(), [by_log]);
    worker.abort();
}

#[tokio::test]
async fn a_page_of_the_walk_shares_its_commits() {
    let store = Store::memory();
    let mut batch = Batch::default();
    for n in 0..60 {
        let id = format!("{n:02}");
        let [(question, by_log), _] = overwritten(&id);
        store::put_summary(&mut batch, &failed(&id)).unwrap();
        store::put_verdict(&mut batch, question, &by_log).unwrap();
    }
    store.commit(batch).await.unwrap();
    let (_ingest, rejudging, worker) = started(&store).await;
    let before = store.status().commits;
    walk(&rejudging.ingest).await.unwrap();
    let commits = store.status().commits - before;
    assert!(commits <= 20, "{commits} commits for 60 causes");
    assert_eq!(cause(&store, "59").await, BY_LOG);
    worker.abort();
}

#[tokio::test]
async fn an_attempt_that_ends_during_the_walk_does_not_wait_for_it() {
    let ids: Vec<String> = (100..400).map(|n| n.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let (_memory, store) = with_overwritten(&ids).await;
    let (ingest, mut worker) = fixture::ingest(&store, 1000);
    worker.resume().await.unwrap();
    let rejudging = Rejudging::new(ingest.clone(), &mut worker);
    let judged_early = worker.judged_early.clone().unwrap();
    // the last one of the walk, as if it had just ended
    judged_early.try_send(AttemptId::parse("399").unwrap()).unwrap();
    let worker = TaskTracker::new().spawn(worker.run(CancellationToken::new()));
    let end = CancellationToken::new();
    let running = TaskTracker::new().spawn(rejudging.run(end.clone()));
    let verdicts = async |id: &str| ingest.verdicts(&AttemptId::parse(id).unwrap(), "").await.unwrap().len();
    while verdicts("399").await < 3 {
        tokio::task::yield_now().await;
    }
    let mut left = 0;
    for id in &ids {
        left += usize::from(verdicts(id).await == 2);
    }
    assert!(left > 0, "the walk is still under way");
    end.cancel();
    running.await.unwrap();
    worker.abort();
}

#[tokio::test]
async fn attempts_beyond_those_that_may_wait_are_counted() {
    let (_memory, store) = with_overwritten(&["a"]).await;
    let (ingest, mut worker) = fixture::ingest(&store, 10);
    let _rejudging = Rejudging::new(ingest.clone(), &mut worker);
    let id = AttemptId::parse("a").unwrap();
    for _ in 0..WAITING + 3 {
        worker.judge_after_end(&id);
    }
    assert_eq!(ingest.parts.metrics.verdicts_left_old.get(), 3);
}
