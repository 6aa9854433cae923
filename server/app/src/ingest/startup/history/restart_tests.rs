//! What is predicted for a package is the same before a restart and after it.

use plimsoll_core::{
    domain::{
        AttemptId, Bytes, Cause, Evidence, EvidenceSource, Exit, Key, Millis, Outcome, Prediction, Resources,
        Sample, Summary, test_summary,
    },
    predict,
};
use plimsoll_proto::reasons::SizeBound;
use plimsoll_store::{self as store, Batch, Store};
use tokio_util::sync::CancellationToken;

use crate::{
    access::privacy::ReadableWords,
    ingest::{Ingest, fixture},
    verdicts::Asker,
};

const HOUR_MS: u64 = 3_600_000;
const MIB: u64 = 1 << 20;
/// The limit at which memory stopped the last attempt of the package.
const LIMIT: Bytes = Bytes(420 * MIB);

fn id(id: &str) -> AttemptId {
    AttemptId::parse(id).unwrap()
}

fn key() -> Key {
    test_summary("0", "zlib", "1", 150).key
}

/// Eight builds of ten minutes that fitted, and what else `batch` has.
async fn stored(mut batch: Batch) -> Store {
    let store = Store::memory();
    for n in 0..8 {
        let fitted = Summary { wall: Millis(600_000), ..test_summary(&format!("fit-{n}"), "zlib", "1", 150) };
        store::put(&mut batch, &fitted).unwrap();
    }
    store.commit(batch).await.unwrap();
    store
}

/// What is predicted after `talk` with one server, and by the next one over the same store.
async fn before_and_after(store: &Store, talk: impl AsyncFnOnce(&Ingest)) -> [Prediction; 2] {
    let predicted = |ingest: &Ingest| {
        let settings = predict::Settings::default();
        ingest.parts.history.read(|history| predict::predict_known(history, &key(), &settings))
    };
    read_before_and_after(store, predicted, talk).await
}

/// What is read of a server after `talk` with it, and of the next one over the same store.
async fn read_before_and_after<T>(
    store: &Store,
    read: impl Fn(&Ingest) -> T,
    talk: impl AsyncFnOnce(&Ingest),
) -> [T; 2] {
    let (ingest, mut worker) = fixture::ingest(store, 100);
    worker.resume().await.unwrap();
    tokio::select! {
        () = worker.run(CancellationToken::new()) => panic!("it works until it is stopped"),
        () = Box::pin(talk(&ingest)) => {}
    }
    let before = read(&ingest);
    let (ingest, mut worker) = fixture::ingest(store, 100);
    worker.resume().await.unwrap();
    [before, read(&ingest)]
}

#[tokio::test]
async fn open_attempts_kills_size_alike_after_a_restart() {
    let mut batch = Batch::default();
    let mut open = fixture::attempt("open");
    (open.key, open.started_unix_ms) = (key(), open.started_unix_ms + HOUR_MS);
    open.resources = Resources { memory_limit: Some(LIMIT), ..Resources::default() };
    store::put(&mut batch, &open).unwrap();
    let store = stored(batch).await;
    let [before, after] = before_and_after(&store, async |ingest| {
        let verdicts = fixture::verdicts(ingest);
        let killed = Evidence {
            exit: Some(Exit::Signal(9)),
            container_reason: "OOMKilled".into(),
            ..Evidence::about(id("open"))
        };
        let verdict = Box::pin(verdicts.judge(killed, Asker::TRUSTED)).await.unwrap();
        assert_eq!((verdict.cause, verdict.outlook.stopped_at), (Cause::Oom, Some(LIMIT)), "{verdict:?}");
        // the job itself has a word, too: its verdict is in force, and its word changes no prediction
        let own = Asker {
            is_trusted: false,
            sees_all: false,
            readable_words: ReadableWords::ALL,
            ..Asker::TRUSTED
        };
        let log = Evidence {
            exit: Some(Exit::Code(2)),
            log_tail: "a.c:1:1: error: no such thing\n".into(),
            ..Evidence::about(id("open"))
        };
        Box::pin(verdicts.judge(log, own)).await.unwrap();
    })
    .await;
    assert!(before.memory_limit.value >= 630 * MIB && before.lower_bound.is_some(), "{before:?}");
    assert_eq!(after, before);
}

#[tokio::test]
async fn extrapolated_needs_size_alike_after_a_restart() {
    let mut batch = Batch::default();
    let killed = test_summary("killed", "zlib", "1", 420);
    let killed = Summary {
        started_unix_ms: killed.started_unix_ms + HOUR_MS,
        resources: Resources { memory_limit: Some(LIMIT), ..Resources::default() },
        outcome: Outcome::Failed,
        exit: Some(Exit::Code(2)),
        oom_kill: Some(1),
        cause: Some(Cause::Oom),
        cause_source: Some(EvidenceSource::Kernel),
        censored: true,
        ..killed
    };
    store::put(&mut batch, &killed).unwrap();
    let store = stored(batch).await;
    let [before, after] = before_and_after(&store, async |ingest| {
        // its need grows by 1 MiB a second up to the limit
        let sample = |second: u64| Sample {
            elapsed: Millis(second * 1000),
            need: Bytes((360 + second) * MIB),
            ..Sample::default()
        };
        let (samples, mut batch) = ((1..=60).map(sample).collect::<Vec<_>>(), Batch::default());
        store::append_fragment(&mut batch, &killed.attempt, 1, 0, samples).unwrap();
        store.commit(batch).await.unwrap();
        let verdicts = fixture::verdicts(ingest);
        let judged = verdicts.judge(Evidence::about(id("killed")), Asker::TRUSTED);
        let verdict = Box::pin(judged).await.unwrap();
        let limit = verdict.next.unwrap().memory_limit;
        assert!(matches!(limit.basis.bound, SizeBound::Grown(_)), "{limit:?}");
    })
    .await;
    assert!(before.memory_limit.value > 630 * MIB, "{before:?}");
    assert_eq!(after, before);
}

#[tokio::test]
async fn suspended_rules_stay_suspended_after_a_restart() {
    let mut batch = Batch::default();
    for n in 0..7 {
        let of = |id: &str| test_summary(&format!("{id}-{n}"), &format!("package-{n}"), "1", 100);
        let failed = Summary { outcome: Outcome::Failed, exit: Some(Exit::Code(1)), ..of("failed") };
        let retried = Summary { retries: Some(failed.attempt.clone()), ..of("passed") };
        store::put(&mut batch, &failed).unwrap();
        store::put(&mut batch, &retried).unwrap();
    }
    let store = stored(batch).await;
    let failed = |n: usize| {
        let log_tail = format!("a.c:1:1: error: no such thing as {}\n", "x".repeat(n + 1));
        Evidence { log_tail, ..Evidence::about(id(&format!("failed-{n}"))) }
    };
    let [before, after] = read_before_and_after(
        &store,
        |ingest| ingest.parts.classifier.silenced(),
        async |ingest| {
            let verdicts = fixture::verdicts(ingest);
            for n in 0..6 {
                let verdict = Box::pin(verdicts.judge(failed(n), Asker::TRUSTED)).await.unwrap();
                assert_eq!(verdict.cause, Cause::Deterministic, "{verdict:?}");
            }
            let verdict = Box::pin(verdicts.judge(failed(6), Asker::TRUSTED)).await.unwrap();
            assert_eq!(verdict.cause, Cause::Unknown, "{verdict:?}");
            let says = "it was wrong here in 6 of 6 cases";
            assert!(verdict.evidence.iter().any(|line| line.text.contains(says)), "{verdict:?}");
        },
    )
    .await;
    assert_eq!(before.iter().map(|one| (one.record.wrong, one.record.cases())).collect::<Vec<_>>(), [(7, 7)]);
    assert_eq!(after, before);
}
