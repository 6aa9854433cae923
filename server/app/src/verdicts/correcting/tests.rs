//! Causes that persons correct: in force everywhere, kept, carried on, taken back.

use plimsoll_core::domain::{Bytes, EvidenceSource, Exit, Resources, Summary, test_summary};
use plimsoll_store::Store;

use super::*;
use crate::{
    access::privacy::ReadableWords,
    ingest::{Ingest, fixture, startup::history::HistoryLoader},
    verdicts::VerdictParts,
};

const BROKEN: &str = "a.c:1:1: error: no such thing\n";
const HOUR: u64 = 3_600_000;

fn id(id: &str) -> AttemptId {
    AttemptId::parse(id).unwrap()
}

/// An attempt that the kernel stopped at its limit if it `killed` something, else one that failed.
fn failed(attempt: &str, killed: bool) -> Summary {
    let resources = Resources { memory_limit: Some(Bytes(100 << 20)), ..Resources::default() };
    let cause = if killed { Cause::Oom } else { Cause::Unknown };
    Summary {
        outcome: Outcome::Failed,
        exit: Some(Exit::Code(2)),
        oom_kill: Some(u64::from(killed)),
        cause: Some(cause),
        cause_source: killed.then_some(EvidenceSource::Kernel),
        censored: killed,
        resources,
        ..test_summary(attempt, "zlib", "1", 100)
    }
}

async fn stored(summaries: &[Summary]) -> Store {
    let store = Store::memory();
    fixture::put(&store, summaries, &[]).await;
    store
}

fn correcting(attempt: &str, cause: Option<Cause>, why: &str) -> CorrectionRequest {
    CorrectionRequest { attempt: id(attempt), cause, why: why.to_owned(), signature_for_ms: None }
}

fn asked(attempt: &str, log: &str) -> Evidence {
    Evidence { exit: Some(Exit::Code(2)), log_tail: log.into(), ..Evidence::about(id(attempt)) }
}

async fn cause_of(ingest: &Ingest, attempt: &str) -> (Option<Cause>, Option<EvidenceSource>, bool) {
    let summary = plimsoll_store::read_summary(&fixture::verdict_parts(ingest).store, &id(attempt))
        .await
        .unwrap()
        .unwrap();
    (summary.cause, summary.cause_source, summary.censored)
}

async fn judge(ingest: &Ingest, asked: Evidence) -> Reply<Verdict> {
    fixture::verdicts(ingest).judge(asked, Asker::TRUSTED).await
}

async fn correct(ingest: &Ingest, request: CorrectionRequest) -> Reply<Verdict> {
    let found = ingest.find(&request.attempt).await.unwrap();
    fixture::verdicts(ingest).store_correction(request, String::new(), Asker::TRUSTED, found).await
}

/// Runs `test` beside the writer over these attempts.
async fn with<F: Future<Output = ()>>(summaries: &[Summary], test: impl FnOnce(Ingest) -> F) {
    let store = stored(summaries).await;
    fixture::with_server(&store, 10, async |ingest| test(ingest.clone()).await).await;
}

const PERSON: Option<EvidenceSource> = Some(EvidenceSource::Person);

#[tokio::test]
async fn corrections_keep_kernel_evidence_and_censoring() {
    with(&[failed("a", true)], async |ingest| {
        let verdict = correct(&ingest, correcting("a", Some(Cause::Infra), "node was broken")).await.unwrap();
        assert_eq!(cause_of(&ingest, "a").await, (Some(Cause::Infra), PERSON, true));
        let kernel = |verdict: &Verdict| {
            verdict.evidence.iter().any(|line| line.source == EvidenceSource::Kernel && !line.supports)
        };
        assert!(kernel(&verdict), "{:?}", verdict.evidence);
        correct(&ingest, correcting("a", None, "")).await.unwrap();
        assert_eq!(cause_of(&ingest, "a").await, (Some(Cause::Oom), Some(EvidenceSource::Kernel), true));
    })
    .await;
    with(&[failed("b", false)], async |ingest| {
        correct(&ingest, correcting("b", Some(Cause::Oom), "looks like it")).await.unwrap();
        assert_eq!(cause_of(&ingest, "b").await, (Some(Cause::Oom), PERSON, false), "a word proves no need");
        correct(&ingest, correcting("b", None, "")).await.unwrap();
        assert_eq!(cause_of(&ingest, "b").await, (Some(Cause::Unknown), None, false));
    })
    .await;
}

#[tokio::test]
async fn corrections_are_redacted_for_jobs_without_access() {
    with(&[failed("a", false), failed("b", false), failed("c", false)], async |ingest| {
        judge(&ingest, asked("a", BROKEN)).await.unwrap();
        let both = CorrectionRequest {
            signature_for_ms: Some(HOUR),
            ..correcting("a", Some(Cause::Infra), "mirror")
        };
        correct(&ingest, both).await.unwrap();
        for (attempt, logs) in [("b", true), ("c", false)] {
            let asker =
                Asker { readable_words: ReadableWords { logs, corrections: false }, ..Asker::TRUSTED };
            let verdict = fixture::verdicts(&ingest).judge(asked(attempt, BROKEN), asker).await.unwrap();
            assert_eq!(verdict.evidence[0].text, "corrected by a person");
            assert!(verdict.reason.contains("(corrected by a person)"), "{}", verdict.reason);
            let line = verdict.outlook.signature.as_ref().map(|known| known.line.as_str());
            assert!(line.is_some_and(|line| line.contains("no such thing")), "{line:?}");
            let shown = format!("{} {:?}", verdict.reason, verdict.evidence);
            assert!(!shown.contains("mirror") && !shown.contains("attempt a"), "{shown}");
            let kept = fixture::verdicts(&ingest).given(&id(attempt), "").await.unwrap();
            assert!(kept[0].reason.contains("mirror"), "it is kept in full: {}", kept[0].reason);
        }
        let asker =
            Asker { readable_words: ReadableWords { logs: true, corrections: false }, ..Asker::TRUSTED };
        let corrected = fixture::verdicts(&ingest).judge(asked("a", BROKEN), asker).await.unwrap();
        let correction = corrected.correction().unwrap();
        assert_eq!((correction.why.as_str(), correction.by.as_str()), ("***", ""));
        assert!(!corrected.reason.contains("mirror"), "{}", corrected.reason);
    })
    .await;
}

#[tokio::test]
async fn only_ended_failed_known_attempts_are_correctable() {
    let fine = test_summary("fine", "zlib", "1", 100);
    with(&[fine], async |ingest| {
        let refused = async |attempt: &str| {
            correct(&ingest, correcting(attempt, Some(Cause::Infra), "x")).await.unwrap_err().to_string()
        };
        assert!(refused("fine").await.contains("succeeded"), "{}", refused("fine").await);
        assert!(refused("new").await.contains("was not measured"), "{}", refused("new").await);
        let running = fixture::attempt("run");
        ingest.open(running, &crate::ingest::StreamHandle::new(), false).await.unwrap();
        assert_eq!(
            correct(&ingest, correcting("run", Some(Cause::Infra), "x")).await,
            Err(Refusal::Running(id("run")))
        );
        let none = correct(&ingest, correcting("new", None, "")).await.unwrap_err().to_string();
        assert!(none.contains("was not measured"), "{none}");
    })
    .await;
}

#[tokio::test]
async fn unmeasured_attempts_corrections_survive_a_restart() {
    let store = stored(&[]).await;
    fixture::with_server(&store, 10, async |ingest| {
        judge(ingest, asked("a", BROKEN)).await.unwrap();
        let both =
            CorrectionRequest { signature_for_ms: Some(HOUR), ..correcting("a", Some(Cause::Infra), "x") };
        assert_eq!(correct(ingest, both).await.unwrap().cause, Cause::Infra);
    })
    .await;
    let (later, _worker) = fixture::ingest(&store, 10);
    let VerdictParts { history, metrics, classifier, .. } = fixture::verdict_parts(&later);
    let loader = HistoryLoader { store, history, metrics, classifier: classifier.clone(), now_unix_ms: 0 };
    loader.load().await.unwrap();
    assert_eq!(classifier.wrong_verdicts(|_| true).len(), 1);
    assert_eq!(classifier.classify(&asked("b", BROKEN)).cause, Some(Cause::Infra));
    assert!(fixture::metrics(&later).encode().unwrap().contains("plimsoll_verdicts_wrong{rule="));
}

#[tokio::test]
async fn an_imported_cause_stays_as_evidence() {
    let recorded = Summary {
        outcome: Outcome::Failed,
        cause: Some(Cause::Timeout),
        cause_source: Some(EvidenceSource::Ci),
        ..Summary::recorded(id("a"), test_summary("a", "zlib", "1", 1).key)
    };
    let says = "the imported history says timeout, from the CI system";
    with(&[recorded], async |ingest| {
        let evicted = Evidence { pod_reason: "Evicted".into(), ..Evidence::about(id("a")) };
        let verdict = judge(&ingest, evicted).await.unwrap();
        assert_eq!(verdict.cause, Cause::EvictedByNode, "{verdict:?}");
        let log = Evidence { log_tail: BROKEN.into(), ..Evidence::about(id("a")) };
        let later = judge(&ingest, log).await.unwrap();
        assert_eq!(later.cause, Cause::EvictedByNode);
        for verdict in [&verdict, &later] {
            let lines: Vec<&str> = verdict.evidence.iter().map(|line| line.text.as_str()).collect();
            let imported: Vec<&&str> = lines.iter().filter(|line| line.contains("imported")).collect();
            assert_eq!(imported, [&says], "{lines:?}");
        }
    })
    .await;
    let recorded = Summary {
        outcome: Outcome::Failed,
        cause: Some(Cause::Timeout),
        cause_source: Some(EvidenceSource::Ci),
        ..Summary::recorded(id("b"), test_summary("b", "zlib", "1", 1).key)
    };
    with(&[recorded], async |ingest| {
        correct(&ingest, correcting("b", Some(Cause::Infra), "mirror was down")).await.unwrap();
        let log = Evidence { log_tail: BROKEN.into(), ..Evidence::about(id("b")) };
        assert_eq!(judge(&ingest, log).await.unwrap().cause, Cause::Infra);
        let undone = correct(&ingest, correcting("b", None, "")).await.unwrap();
        assert_eq!(undone.cause, Cause::Timeout, "it weighs more than a line of the log");
        assert_eq!(cause_of(&ingest, "b").await, (Some(Cause::Timeout), Some(EvidenceSource::Ci), false));
    })
    .await;
}
