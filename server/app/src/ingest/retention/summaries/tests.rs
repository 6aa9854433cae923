//! What goes after its time, and what stays.

use plimsoll_core::domain::{Attempt, Bytes, EvidenceLine, EvidenceSource, Key, Sample, test_summary};
use plimsoll_store::{Batch, PageLimit};

use super::*;
use crate::ingest::fixture;

/// Puts an attempt with a sample into the store that ended so many hours after 1970.
async fn ended(store: &Store, id: &str, hour: u64) {
    let attempt = fixture::attempt(id);
    let mut summary = test_summary(id, "zlib", "1", 10);
    summary.started_unix_ms = hour * 3_600_000;
    let mut batch = Batch::default();
    store::append_fragment(&mut batch, &attempt.id, 1, 0, [Sample::default()]).unwrap();
    store.commit(batch).await.unwrap();
    store::seal(store, &attempt, &summary).await.unwrap();
}

#[tokio::test]
async fn expired_summaries_are_removed_with_their_data() {
    let store = Store::memory();
    for n in 0..100 {
        ended(&store, &format!("old-{n}"), 10).await;
    }
    ended(&store, "young", 1000).await;
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    let now = 1001 * 3_600_000;
    worker.retention.forget_step(now, &|_| None).await;
    let all = store.scan(&[], None, PageLimit::PAGE).await.unwrap().entries.len();
    worker.retention.parts.policy =
        RetentionPolicy { summaries_for: Some(Duration::from_hours(900)), ..worker.retention.parts.policy };
    for _step in 0..10 {
        worker.retention.forget_step(now, &|_| None).await;
    }
    let left = store.scan(&[], None, PageLimit::PAGE).await.unwrap().entries;
    assert!(all > 200, "nothing goes unless it is configured: {all}");
    assert_eq!(left.len(), 2, "the summary and the block of the young one");
    assert_eq!(worker.parts.metrics.summaries_removed.get(), 100);
    assert!(worker.retention.summaries.paused_until_unix_ms > now);
}

#[tokio::test]
async fn summaries_expire_even_while_samples_exceed_space() {
    let store = Store::memory();
    ended(&store, "old", 10).await;
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    let max_bytes = Some(Bytes(0));
    worker.retention.parts.policy = RetentionPolicy {
        summaries_for: Some(Duration::from_hours(900)),
        max_bytes,
        ..worker.retention.parts.policy
    };
    for _step in 0..4 {
        worker.retention.samples.paused_until_unix_ms = 0;
        worker.retain_step().await;
    }
    assert_eq!(worker.parts.metrics.summaries_removed.get(), 1);
}

#[tokio::test]
async fn a_damaged_summary_does_not_block_retention() {
    let store = Store::memory();
    let ids = ["a", "b", "c"];
    for id in ids {
        ended(&store, id, 10).await;
    }
    let ids = ids.map(|id| fixture::attempt(id).id);
    fixture::damage_summary(&store, &ids[1]).await;
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    worker.retention.parts.policy.keep_for = Duration::from_hours(1);
    worker.retain_step().await;
    assert!(worker.retention.samples.after_key.is_none(), "it is through");
    assert!(worker.retention.samples.paused_until_unix_ms > 0);
    let mut extents = Vec::new();
    for id in &ids {
        extents.push(store::read_series(&store, id).await.unwrap().extent.samples);
    }
    assert_eq!(extents, [0, 1, 0]);
    worker.retention.parts.policy.summaries_for = Some(Duration::from_hours(1));
    worker.retention.forget_step(1000 * 3_600_000, &|_| None).await;
    assert_eq!(worker.parts.metrics.summaries_removed.get(), 2);
    let refused = store::read_summary(&store, &ids[1]).await.unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
}

#[test]
fn the_pause_is_shorter_than_the_retention_time() {
    let of = |summaries_for, log_lines_for| RetentionPolicy {
        summaries_for,
        log_lines_for,
        ..RetentionPolicy::default()
    };
    let [short, long] = [Duration::from_mins(2), Duration::from_hours(24 * 365)].map(Some);
    assert_eq!([of(long, short), of(short, None)].map(|retain| pause_ms(&retain)), [12_000; 2]);
    assert_eq!([of(long, None), of(None, None)].map(|retain| pause_ms(&retain)), [PAUSE_MS; 2]);
}

#[tokio::test]
async fn verdicts_on_unmeasured_attempts_expire_too() {
    let (store, hour) = (Store::memory(), 3_600_000);
    ended(&store, "measured", 990).await;
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    let [open, old, young, measured] = ["open", "old", "young", "measured"].map(fixture::attempt);
    let mut batch = Batch::default();
    for (attempt, given) in [(&open, 1), (&old, 1), (&young, 990), (&measured, 1)] {
        let verdict = Verdict { given_unix_ms: Some(given * hour), ..fixture::verdict(&attempt.id) };
        store::put_verdict(&mut batch, 7, &verdict).unwrap();
    }
    store.commit(batch).await.unwrap();
    worker.retention.parts.policy =
        RetentionPolicy { summaries_for: Some(Duration::from_hours(900)), ..worker.retention.parts.policy };
    for _step in 0..3 {
        worker.retention.forget_step(1000 * hour, &|id| (*id == open.id).then_some(1)).await;
    }
    let holds = async |attempt: &Attempt| store::read_verdicts(&store, &attempt.id).await.unwrap().len() == 1;
    assert!(holds(&open).await && holds(&young).await && holds(&measured).await);
    assert!(!holds(&old).await);
}

#[tokio::test]
async fn expired_log_lines_are_removed_but_not_summaries() {
    let (store, hour) = (Store::memory(), 3_600_000);
    ended(&store, "a", 1).await;
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    let id = fixture::attempt("a").id;
    let line = |source, text: &str| EvidenceLine { source, text: text.into(), supports: true };
    // so long that its record has several parts, of which none may be left behind
    let line_text = "one secret line of the log ".repeat(500);
    let given = |hours: u64| Verdict {
        given_unix_ms: Some(hours * hour),
        evidence: vec![line(EvidenceSource::Log, &line_text), line(EvidenceSource::Exit, "exit code 2")],
        reason: format!("the log says {line_text}"),
        ..fixture::verdict(&id)
    };
    let (old, young) = (given(10), given(990));
    let mut batch = Batch::default();
    for (fingerprint, verdict) in [(7, &old), (8, &young)] {
        store::put_verdict(&mut batch, fingerprint, verdict).unwrap();
        worker.parts.classifier.learn(&Key::default(), verdict);
    }
    store.commit(batch).await.unwrap();
    worker.retention.forget_step(1000 * hour, &|_| None).await;
    assert_eq!(store::read_verdict(&store, &id, 7).await.unwrap().as_ref(), Some(&old), "nothing was said");

    worker.retention.parts.policy =
        RetentionPolicy { log_lines_for: Some(Duration::from_hours(900)), ..worker.retention.parts.policy };
    let before = store.scan(&[], None, PageLimit::PAGE).await.unwrap().entries.len();
    worker.retention.forget_step(1000 * hour, &|_| None).await;
    let kept = store::read_verdict(&store, &id, 7).await.unwrap().unwrap();
    let texts: Vec<&str> = kept.evidence.iter().map(|line| line.text.as_str()).collect();
    let signature = kept.outlook.signature.as_ref().unwrap();
    assert_eq!((texts[1], &*signature.line, &*signature.first), ("exit code 2", "", ""));
    assert!(!texts[0].contains("secret") && !kept.reason.contains("secret"), "{}", kept.reason);
    assert_eq!((kept.cause, kept.action, kept.given_unix_ms), (old.cause, old.action, old.given_unix_ms));
    assert_eq!(store::read_verdict(&store, &id, 8).await.unwrap().as_ref(), Some(&young));
    let left = store.scan(&[], None, PageLimit::PAGE).await.unwrap().entries;
    assert!(left.len() + 5 < before, "no part is left behind: {} of {before}", left.len());
    assert!(store::read_summary(&store, &id).await.unwrap().is_some());
    assert_eq!(worker.parts.metrics.log_lines_removed.get(), 1);
    worker.retention.summaries = SummaryWalk::default();
    worker.retention.forget_step(1000 * hour, &|_| None).await;
    assert_eq!(worker.parts.metrics.log_lines_removed.get(), 1, "once");
}
