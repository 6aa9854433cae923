//! An ingest over a store in memory, for tests.

use std::{sync::Arc, time::Duration};

/// An attempt of one and the same agent.
pub(crate) use plimsoll_core::domain::test_attempt as attempt;
use plimsoll_core::{
    domain::{AttemptId, Exit, History, Millis, RetentionPolicy, Summary, Verdict, test_verdict},
    predict, retry,
    shared_history::SharedHistory,
};
use plimsoll_store::{Batch, KeyKind, Store, put_verdict};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    causes::{FailureClassifier, RuleSources},
    ingest::{Finish, Ingest, IngestParts, Worker, job_pods::JobPods, request::Request},
    pools::PoolRegistry,
    runtime::{clock::Clock, metrics::Metrics},
    tickets::TicketRegistry,
    verdicts::{VerdictParts, Verdicts},
};

/// Silence after which an attempt is closed as lost.
pub(crate) const ABANDON_AFTER: Duration = Duration::from_hours(1);

/// The handle and the worker, with room for `capacity` attempts in the history.
pub(crate) fn ingest(store: &Store, capacity: usize) -> (Ingest, Worker) {
    let metrics = Arc::new(Metrics::new());
    let sources = RuleSources { rules_dir: None, policy_file: None, policy: retry::RetryPolicy::default() };
    let pools = PoolRegistry::open(None, Arc::clone(&metrics)).unwrap();
    let (tickets, _not_run) = TicketRegistry::new(store.clone(), pools.clone(), Arc::clone(&metrics), Clock);
    let history = SharedHistory::new(History::new(capacity));
    Ingest::new(IngestParts {
        store: store.clone(),
        pools,
        tickets,
        classifier: FailureClassifier::open(sources, &history, Arc::clone(&metrics)).unwrap(),
        job_pods: JobPods::default(),
        history,
        metrics,
        clock: Clock,
        predict: Arc::new(predict::Settings::default()),
        open_attempts: 10,
        retain: RetentionPolicy::default(),
        abandon_after: ABANDON_AFTER,
    })
}

/// The same writer, with the attempts that are looked up through this handle.
pub(crate) fn with_lookups(ingest: &Ingest) -> (Ingest, mpsc::Receiver<AttemptId>) {
    let (noted, looked_up) = mpsc::channel(64);
    let (requests, mut queue) = mpsc::channel(1);
    let writer = ingest.requests.clone();
    TaskTracker::new().spawn(async move {
        while let Some(request) = queue.recv().await {
            if let Request::Find { id, .. } = &request {
                let _full = noted.try_send(id.clone());
            }
            let _stopped = writer.send(request).await;
        }
    });
    (Ingest { requests, parts: ingest.parts.clone() }, looked_up)
}

/// The verdicts on what the writer behind `ingest` keeps.
pub(crate) fn verdicts(ingest: &Ingest) -> Verdicts {
    Verdicts::new(ingest.clone(), verdict_parts(ingest), Arc::default())
}

/// What verdicts on what the writer behind `ingest` keeps are decided from.
pub(crate) fn verdict_parts(ingest: &Ingest) -> VerdictParts {
    let IngestParts { store, history, metrics, clock, predict, classifier, job_pods, pools, .. } =
        ingest.parts.clone();
    VerdictParts { store, history, metrics, clock, predict, classifier, job_pods, pools }
}

/// Runs `story` with the verdicts of a server that starts over this store.
pub(crate) async fn with_verdicts(store: &Store, story: impl AsyncFnOnce(&Verdicts)) {
    with_server(store, 10, async |ingest| Box::pin(story(&verdicts(ingest))).await).await;
}

/// Runs `story` beside the writer of a server that starts over this store.
pub(crate) async fn with_server<T>(
    store: &Store,
    capacity: usize,
    story: impl AsyncFnOnce(&Ingest) -> T,
) -> T {
    let (ingest, mut worker) = ingest(store, capacity);
    worker.resume().await.unwrap();
    tokio::select! {
        () = worker.run(CancellationToken::new()) => panic!("it works until it is stopped"),
        done = Box::pin(story(&ingest)) => done,
    }
}

/// The end of an attempt without samples, after a minute and with exit code 0.
pub(crate) fn finish(attempt: AttemptId) -> Finish {
    Finish { wall: Some(Millis(60_000)), exit: Some(Exit::Code(0)), ..Finish::unknown(attempt, 0) }
}

pub(crate) async fn put(store: &Store, summaries: &[Summary], verdicts: &[Verdict]) {
    let mut batch = Batch::default();
    for summary in summaries {
        plimsoll_store::put(&mut batch, summary).unwrap();
    }
    for (fingerprint, verdict) in (1..).zip(verdicts) {
        put_verdict(&mut batch, fingerprint, verdict).unwrap();
    }
    store.commit(batch).await.unwrap();
}

/// What it counts.
pub(crate) fn metrics(ingest: &Ingest) -> Arc<Metrics> {
    Arc::clone(&ingest.parts.metrics)
}

/// A verdict on an attempt whose failure has a name.
pub(crate) fn verdict(attempt: &AttemptId) -> Verdict {
    let mut verdict = test_verdict(attempt.as_str(), Some("make: *** Error 2"));
    verdict.outlook.signature.as_mut().unwrap().id = "0123456789abcdef".into();
    verdict
}

/// Flips a bit in the summary of an ended attempt.
pub(crate) async fn damage_summary(store: &Store, id: &AttemptId) {
    let key = [&KeyKind::Summary.prefix_of(id)[..], &[0]].concat();
    let mut value = store.get(&key).await.unwrap().unwrap().value;
    value[20] ^= 1;
    let mut batch = Batch::default();
    batch.put(key, value);
    store.commit(batch).await.unwrap();
}
