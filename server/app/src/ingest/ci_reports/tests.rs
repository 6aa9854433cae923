//! Reports on attempts that are open, that ended, and that are not known yet.

use plimsoll_core::domain::{
    AttemptId, Cause, JobStatus, Outcome, Reporter, Summary, test_report, test_summary,
};
use plimsoll_store::{self as store, Batch, MemoryStore, Store};

use super::*;
use crate::ingest::{
    abandoned::end_of_abandoned,
    ending::tests::held,
    fixture,
    request::{EndRequest, Finish},
    stream_handle::StreamHandle,
};

fn word(id: &str, end: JobStatus) -> (CiReport, oneshot::Receiver<OutcomeStatus>) {
    let (answer, answered) = oneshot::channel();
    (CiReport { reported: test_report(id, end), answer: Some(answer) }, answered)
}

/// A store with ended attempts whose end was not seen.
async fn with_lost(ids: impl Iterator<Item = String>) -> (MemoryStore, Store) {
    let memory = MemoryStore::default();
    let store = Store::Memory(memory.clone());
    for id in ids {
        let mut batch = Batch::default();
        let lost = Summary { outcome: Outcome::Lost, exit: None, ..test_summary(&id, "zlib", "1", 10) };
        store::put(&mut batch, &lost).unwrap();
        store.commit(batch).await.unwrap();
    }
    (memory, store)
}

#[tokio::test]
async fn reports_share_a_commit_and_are_answered_durably() {
    let (memory, store) = with_lost((0..100).map(|n| n.to_string())).await;
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    let before = store.status().commits;
    let (words, answers): (Vec<_>, Vec<_>) =
        (0..101).map(|n| word(&n.to_string(), JobStatus::Canceled)).unzip();
    memory.refuse_commits("the disk is full");
    let (refused, reported) = word("0", JobStatus::Canceled);
    worker.apply_reports(vec![refused]).await;
    assert_eq!(reported.await, Ok(OutcomeStatus::Unwritable));
    memory.accept_commits();
    worker.apply_reports(words).await;
    assert_eq!(store.status().commits, before + 1);
    for (n, answer) in answers.into_iter().enumerate() {
        let changed = answer.await.unwrap();
        assert_eq!(changed == OutcomeStatus::Now, n < 100, "{n}");
        assert_eq!(changed == OutcomeStatus::Remembered, n == 100, "{n}");
    }
    let summary = store::read_summary(&store, &AttemptId::parse("99").unwrap()).await.unwrap().unwrap();
    assert_eq!(summary.cause, Some(Cause::Canceled));
}

#[tokio::test]
async fn a_damaged_summarys_report_counts_as_known() {
    let (_memory, store) = with_lost(["a".to_owned()].into_iter()).await;
    fixture::damage_summary(&store, &fixture::attempt("a").id).await;
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    let (word, became) = word("a", JobStatus::Failed);
    worker.apply_reports(vec![word]).await;
    assert_eq!(became.await, Ok(OutcomeStatus::Known));
}

#[tokio::test]
async fn the_first_of_two_reports_counts() {
    let (_memory, store) = with_lost(["a".to_owned()].into_iter()).await;
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    let [(first, of_first), (second, of_second)] =
        [JobStatus::Succeeded, JobStatus::Failed].map(|end| word("a", end));
    worker.apply_reports(vec![first, second]).await;
    assert_eq!((of_first.await, of_second.await), (Ok(OutcomeStatus::Now), Ok(OutcomeStatus::Known)));
    let summary = store::read_summary(&store, &AttemptId::parse("a").unwrap()).await.unwrap().unwrap();
    assert_eq!(summary.outcome, Outcome::Succeeded);
}

#[tokio::test]
async fn an_open_attempts_report_outlasts_unmeasured_ones() {
    let (store, stream) = (Store::memory(), StreamHandle::new());
    let (mut worker, _new) = held(&store, &stream);
    let mut preempted = word("a", JobStatus::Failed).0;
    "runner_system_failure".clone_into(&mut preempted.reported.reason);
    worker.apply_reports(vec![preempted, word("later", JobStatus::Canceled).0]).await;
    let others = (0..30_000).map(|n| word(&n.to_string(), JobStatus::Succeeded).0);
    worker.apply_reports(others.collect()).await;
    let finish = end_of_abandoned(&worker.sessions.values().next().unwrap().clone());
    let (id, ending) = (finish.attempt.clone(), EndRequest { finish, stream: None, answer: None });
    worker.seal_all(vec![ending]).await;
    let summary = store::read_summary(&store, &id).await.unwrap().unwrap();
    assert_eq!((summary.outcome, summary.cause), (Outcome::Failed, Some(Cause::Infra)));
    assert!(worker.ci_reports.waiting_for(&AttemptId::parse("later").unwrap(), "").is_none());
}

#[tokio::test]
async fn reports_settle_attempts_that_ended_without_exit_status() {
    for (ended, outcome) in [(true, Outcome::Ended), (false, Outcome::Lost)] {
        let (store, stream) = (Store::memory(), StreamHandle::new());
        let (mut worker, _new) = held(&store, &stream);
        let finish = end_of_abandoned(&worker.sessions.values().next().unwrap().clone());
        let (id, finish) = (finish.attempt.clone(), Finish { ended, ..finish });
        worker.seal_all(vec![EndRequest { finish, stream: None, answer: None }]).await;
        let summary = store::read_summary(&store, &id).await.unwrap().unwrap();
        assert_eq!((summary.outcome, summary.exit), (outcome, None));
        worker.apply_reports(vec![word(&id.to_string(), JobStatus::Succeeded).0]).await;
        let summary = store::read_summary(&store, &id).await.unwrap().unwrap();
        assert_eq!((summary.outcome, summary.exit), (Outcome::Succeeded, None));
    }
}

#[tokio::test]
async fn reports_of_another_project_settle_nothing() {
    let (_memory, store) = with_lost(["a".to_owned()].into_iter()).await;
    let mut batch = Batch::default();
    let lost = Summary { outcome: Outcome::Lost, exit: None, ..test_summary("own", "zlib", "1", 10) };
    let opening = plimsoll_core::domain::OpeningRecord { proven: true, ..Default::default() };
    store::put(&mut batch, &Summary { opening, ..lost }).unwrap();
    store.commit(batch).await.unwrap();
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    for (id, expected) in [
        ("a", OutcomeStatus::Remembered),
        ("own", OutcomeStatus::Foreign),
        ("new", OutcomeStatus::Remembered),
    ] {
        let (CiReport { reported, answer }, became) = word(id, JobStatus::Succeeded);
        worker
            .apply_reports(vec![CiReport {
                reported: ReportedOutcome { by: Reporter::of("x", vec!["x".into()]), ..reported },
                answer,
            }])
            .await;
        assert_eq!(became.await, Ok(expected), "{id}");
        let summary = store::read_summary(&store, &AttemptId::parse(id).unwrap()).await.unwrap();
        assert!(summary.is_none_or(|summary| summary.outcome == Outcome::Lost), "{id}");
    }
}

#[tokio::test]
async fn reports_reach_their_projects_attempt_under_reused_ids() {
    let store = Store::Memory(MemoryStore::default());
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    let mut ended = Batch::default();
    for (id, project) in [("h:7", "a/theirs"), ("h:7.2", "b/ours")] {
        let mut lost = Summary { outcome: Outcome::Lost, exit: None, ..test_summary(id, "zlib", "1", 10) };
        lost.key.project = project.to_owned();
        store::put(&mut ended, &lost).unwrap();
    }
    store.commit(ended).await.unwrap();
    let (mut word, became) = word("h:7", JobStatus::Canceled);
    word.reported.by = Reporter::of("hook", vec!["b/*".to_owned()]);
    worker.apply_reports(vec![word]).await;
    assert_eq!(became.await, Ok(OutcomeStatus::Now));
    let cause = async |id: &str| {
        let summary = store::read_summary(&store, &AttemptId::parse(id).unwrap()).await.unwrap();
        summary.unwrap().cause
    };
    assert_eq!((cause("h:7").await, cause("h:7.2").await), (None, Some(Cause::Canceled)));
}

#[tokio::test]
async fn a_report_reaches_the_newest_run() {
    let lost =
        |ids: &[&str]| with_lost(ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>().into_iter());
    let (_memory, store) = lost(&["h:7", "h:7.2", "h:7.3"]).await;
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    let (word, became) = word("h:7", JobStatus::Canceled);
    worker.apply_reports(vec![word]).await;
    assert_eq!(became.await, Ok(OutcomeStatus::Now));
    for (id, cause) in [("h:7", None), ("h:7.2", None), ("h:7.3", Some(Cause::Canceled))] {
        let summary = store::read_summary(&store, &AttemptId::parse(id).unwrap()).await.unwrap();
        assert_eq!(summary.unwrap().cause, cause, "{id}");
    }
}
