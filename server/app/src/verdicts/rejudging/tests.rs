//! Attempts that are judged anew without being asked about.

use plimsoll_core::domain::{
    Cause, EvidenceSource, Exit, MatchedLine, Outcome, Summary, Verdict, test_summary,
};
use plimsoll_store::{self as store, Batch, Store};
use tokio_util::task::TaskTracker;

use super::*;
use crate::ingest::fixture;

/// A failed attempt, and a verdict on it that was given before its end was known.
async fn judged_before_its_end(id: &AttemptId) -> Store {
    let (store, mut batch) = (Store::memory(), Batch::default());
    let failed = test_summary(id.as_str(), "zlib", "1", 10);
    let failed = Summary { outcome: Outcome::Failed, exit: Some(Exit::Code(1)), cause: None, ..failed };
    store::put(&mut batch, &failed).unwrap();
    let mut early = Verdict { given_unix_ms: Some(10), ..fixture::verdict(id) };
    let line = "x.c:1:2: error: no".to_owned();
    early.basis.reported.log = vec![MatchedLine {
        rule: "compile-error".into(),
        cause: Cause::Deterministic,
        first: line.clone(),
        line,
        root: None,
        order: plimsoll_core::domain::LogOrder::Alone,
    }];
    store::put_verdict(&mut batch, 7, &early).unwrap();
    store.commit(batch).await.unwrap();
    store
}

#[tokio::test]
async fn an_ended_attempt_is_rejudged_with_all_evidence() {
    let id = AttemptId::parse("a").unwrap();
    let store = judged_before_its_end(&id).await;
    let (ingest, mut worker) = fixture::ingest(&store, 10);
    worker.resume().await.unwrap();
    let (rejudging, ended) = Rejudging::new(fixture::verdicts(&ingest));
    worker.judged_early = Some(ended);
    worker.judge_after_end(&id);
    let (end, tasks) = (CancellationToken::new(), TaskTracker::new());
    let worker = tasks.spawn(worker.run(end.clone()));
    let running = tasks.spawn(rejudging.run(end.clone()));
    let mut given = Vec::new();
    while given.len() < 2 {
        tokio::task::yield_now().await;
        given = fixture::verdicts(&ingest).given(&id, "").await.unwrap();
    }
    assert_eq!(given[0].cause, Cause::Deterministic, "{given:?}");
    end.cancel();
    running.await.unwrap();
    worker.await.unwrap();
    let summary = store::read_summary(&store, &id).await.unwrap().unwrap();
    let by_log = (Some(Cause::Deterministic), Some(EvidenceSource::Log));
    assert_eq!((summary.cause, summary.cause_source), by_log);
}

#[tokio::test]
async fn attempts_beyond_those_that_may_wait_are_counted() {
    let id = AttemptId::parse("a").unwrap();
    let (ingest, mut worker) = fixture::ingest(&Store::memory(), 10);
    let (_rejudging, ended) = Rejudging::new(fixture::verdicts(&ingest));
    worker.judged_early = Some(ended);
    for _ in 0..MAX_WAITING + 3 {
        worker.judge_after_end(&id);
    }
    assert_eq!(fixture::metrics(&ingest).verdicts_left_old.get(), 3);
}
