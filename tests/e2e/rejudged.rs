//! The walk over verdicts of earlier releases, which an upgrade does once, through kills of the server.

use std::path::Path;

use plimsoll_core::domain::{Action, AttemptId, Cause, EvidenceSource, Summary, Verdict, VerdictBasis};
use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient};
use plimsoll_store::{self as store, BATCH_OPERATIONS, Batch, Store, StoreSettings};
use plimsoll_tests::{Programs, Sender, Server, batch, eventually, finish, hello};

/// Attempts with verdicts of an earlier release.
const ATTEMPTS: usize = 600;

fn id(n: usize) -> AttemptId {
    AttemptId::parse(&format!("old-{n:04}")).unwrap()
}

fn open(dir: &Path) -> Store {
    Store::open(&StoreSettings { dir: dir.to_owned(), cache_bytes: 64 << 20 }).unwrap()
}

/// An attempt and a verdict on it by its log, as this release makes them.
async fn made(dir: &Path) -> (Summary, Verdict) {
    let server = Server::start(Programs::for_tests(), dir).unwrap();
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    stream.exchange(hello("made", "zlib")).await.unwrap();
    stream.exchange(batch("made", 1, 1)).await.unwrap();
    stream.exchange(finish("made", 1, Some(1))).await.unwrap();
    let asked = pb::ShouldRetryRequest {
        attempt: "made".into(),
        log_tail: b"x.c:3:1: error: expected ';' before 'return'\n".to_vec(),
        ..pb::ShouldRetryRequest::default()
    };
    PredictorClient::connect(server.url()).await.unwrap().should_retry(asked).await.unwrap();
    server.stop().unwrap();
    let store = open(dir);
    let made = AttemptId::parse("made").unwrap();
    let summary = store::read_summary(&store, &made).await.unwrap().unwrap();
    let verdict = store::read_verdicts(&store, &made, 9).await.unwrap().remove(0);
    store.close().await.unwrap();
    (summary, verdict)
}

/// Puts attempts into the store as an earlier release left them: judged by the log, and then by nothing, which was in force.
async fn age(dir: &Path, (summary, by_log): (Summary, Verdict)) {
    let store = open(dir);
    let mut batch = Batch::default();
    for n in 0..ATTEMPTS {
        let failed =
            Summary { attempt: id(n), cause: Some(Cause::Unknown), cause_source: None, ..summary.clone() };
        let by_log = Verdict {
            attempt: id(n),
            given_unix_ms: Some(10),
            basis: VerdictBasis::default(),
            ..by_log.clone()
        };
        let mut unknown = Verdict { given_unix_ms: Some(20), evidence: Vec::new(), ..by_log.clone() };
        (unknown.cause, unknown.action, unknown.outlook.signature) = (Cause::Unknown, Action::AsIs, None);
        store::put_summary(&mut batch, &failed).unwrap();
        store::put_verdict(&mut batch, 7, &by_log).unwrap();
        store::put_verdict(&mut batch, 8, &unknown).unwrap();
        if batch.operations() + 16 > BATCH_OPERATIONS {
            store.commit(std::mem::take(&mut batch)).await.unwrap();
        }
    }
    store.commit(batch).await.unwrap();
    store.close().await.unwrap();
}

/// Waits until an attempt was judged anew.
async fn judged_anew(server: &Server, n: usize) {
    let earlier = async || server.shown(id(n).as_str()).await.unwrap().earlier_verdicts.len();
    eventually("an attempt is judged anew", earlier, |earlier: &usize| *earlier >= 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_that_is_killed_again_and_again_goes_on_and_judges_each_attempt_once() {
    let dir = tempfile::tempdir().unwrap();
    age(dir.path(), made(dir.path()).await).await;
    // in the first pages, in the middle, and never
    for until in [0, ATTEMPTS / 2] {
        let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
        judged_anew(&server, until).await;
        server.kill().unwrap();
    }
    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    let log = async || server.log().unwrap();
    eventually("the walk ends", log, |log: &String| log.contains("looked at all verdicts")).await;
    server.stop().unwrap();
    let store = open(dir.path());
    for n in 0..ATTEMPTS {
        let mut given = store::read_verdicts(&store, &id(n), 99).await.unwrap();
        given.sort_by_key(|verdict| verdict.given_unix_ms);
        let causes: Vec<Cause> = given.iter().map(|verdict| verdict.cause).collect();
        assert_eq!(causes, [Cause::Deterministic, Cause::Unknown, Cause::Deterministic], "{n}");
        let summary = store::read_summary(&store, &id(n)).await.unwrap().unwrap();
        let expected = (Some(Cause::Deterministic), Some(EvidenceSource::Log));
        assert_eq!((summary.cause, summary.cause_source), expected, "{n}");
    }
    store.close().await.unwrap();
    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    assert!(!server.log().unwrap().contains("looked at all verdicts"), "it runs once");
}
