//! What a start knows.

use std::slice;

use plimsoll_core::domain::{Cause, History, HistoryLimits, JobName, OpeningRecord, Outcome, test_summary};
use plimsoll_core::stats::Stats;
use plimsoll_store::{Batch, Store};

use super::*;
use crate::ingest::{Ingest, fixture, startup::unmeasured::UnmeasuredBound};

/// What a server with room for `capacity` attempts knows after its start.
async fn started(store: &Store, capacity: usize) -> Ingest {
    let (ingest, mut worker) = fixture::ingest(store, capacity);
    worker.resume().await.unwrap();
    ingest
}

fn ended(id: &str, hour: u64) -> Summary {
    let mut summary = test_summary(id, "zlib", "1", 10);
    summary.started_unix_ms += hour * 3_600_000;
    summary.key.hints.build_jobs = Some(8);
    summary.key.git_ref = "main".into();
    summary.key.labels = [("commit".to_owned(), "abc".to_owned())].into();
    summary
}

fn verdict(of: &Summary) -> Verdict {
    fixture::verdict(&of.attempt)
}

/// One attempt that is too old, one that failed, and its retry, which passed.
async fn filled() -> (Store, [Summary; 3]) {
    let store = Store::memory();
    let failed = Summary { outcome: Outcome::Failed, ..ended("1-failed", 1) };
    let retry = Summary { retries: Some(failed.attempt.clone()), ..ended("0-retry", 2) };
    let old = Summary { outcome: Outcome::Failed, ..ended("2-old", 0) };
    let verdicts = [&old, &failed].map(verdict);
    let all = [old, failed, retry];
    fixture::put(&store, &all, &verdicts).await;
    (store, all)
}

#[tokio::test]
async fn a_start_loads_newest_attempts_and_retry_outcomes() {
    let (store, [old, failed, retry]) = filled().await;
    let ingest = started(&store, 2).await;
    let newest: Vec<_> =
        ingest.parts.history.newest_first().iter().map(|brief| brief.attempt.clone()).collect();
    assert_eq!(newest, [retry.attempt, failed.attempt]);
    assert_eq!(ingest.parts.metrics.history_attempts.get(), 2);
    assert!(!ingest.parts.history.knows(&old.attempt));
    let flaky = ingest.parts.classifier.flaky(10);
    assert_eq!(flaky.len(), 1, "{flaky:?}");
    assert_eq!((flaky[0].key.as_str(), flaky[0].helped.passed), ("zlib@1 -j8", 1));
    assert_eq!(ingest.listed(&old.attempt).await.unwrap(), Some(old), "it is still on disk");
}

#[tokio::test]
async fn untrusted_attempts_displace_no_trusted_ones() {
    let store = Store::memory();
    let mut batch = Batch::default();
    let untrusted = |id: String, hour| {
        let opening = OpeningRecord { untrusted: true, ..OpeningRecord::default() };
        Summary { opening, ..ended(&id, hour) }
    };
    for n in 0..40 {
        let failed = Summary { outcome: Outcome::Failed, ..untrusted(format!("x{n}"), 10 + n) };
        let retry = Summary { retries: Some(failed.attempt.clone()), ..untrusted(format!("y{n}"), 100 + n) };
        store::put_verdict(&mut batch, 7, &verdict(&failed)).unwrap();
        store::put(&mut batch, &failed).unwrap();
        store::put(&mut batch, &retry).unwrap();
    }
    let trusted = [ended("1", 0), ended("2", 1)];
    for summary in &trusted {
        store::put(&mut batch, summary).unwrap();
    }
    store.commit(batch).await.unwrap();
    let ingest = started(&store, 2).await;
    assert!(trusted.iter().all(|summary| ingest.parts.history.knows(&summary.attempt)));
    assert_eq!(ingest.parts.history.newest_first().len(), 2 + 1, "one untrusted one beside them");
    assert_eq!(ingest.parts.classifier.flaky(10), []);
}

#[test]
fn loading_long_keys_stays_within_the_memory_limit() {
    let stats = Stats::new(plimsoll_core::stats::Settings::default());
    let mut newest = NewestAttempts::of(HistoryLimits { attempts: 100_000, bytes: 1 << 20 }, stats);
    let mut most = 0;
    for n in 0..3000_u64 {
        // their order is none
        let hour = n * 7 % 3000;
        let mut summary = ended(&n.to_string(), hour);
        summary.key.variants = format!("{hour:0>1000}");
        newest.take(&summary);
        most = most.max(newest.bytes);
        assert!(newest.keys.len() <= newest.kept.len());
    }
    assert!(most <= (1 << 20) / 8 * 9, "{most}");
    let left = newest.finish();
    assert!((300..1000).contains(&left.len()), "{}", left.len());
    assert_eq!(left.last().unwrap().brief.key.variants, format!("{:0>1000}", 2999));
}

#[tokio::test]
async fn only_the_oldest_unmeasured_verdicts_are_dropped() {
    let (store, [_, failed, _]) = filled().await;
    let (open, mut batch) = (fixture::attempt("open"), Batch::default());
    store::put(&mut batch, &open).unwrap();
    let stray = |n: u64| ended(&format!("stray-{n}"), 0);
    for n in 0..25 {
        let given = Verdict { given_unix_ms: (n > 0).then_some(n), ..verdict(&stray(n)) };
        store::put_verdict(&mut batch, 7, &given).unwrap();
    }
    store::put_verdict(&mut batch, 7, &verdict(&ended("open", 0))).unwrap();
    store.commit(batch).await.unwrap();
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    let holds = async |id: &AttemptId| store::read_verdicts(&store, id).await.unwrap().len() == 1;
    for (most, first_kept) in [(25, 0_u64), (20, 7), (20, 7)] {
        let unmeasured = worker.history_loader().load().await.unwrap().unmeasured;
        let bound = UnmeasuredBound { attempts: most, since_unix_ms: worker.retention.summaries_since() };
        unmeasured.drop_oldest(&store, slice::from_ref(&open), bound).await;
        let gone = first_kept.checked_sub(1).map(stray);
        assert!(holds(&stray(first_kept).attempt).await && holds(&stray(24).attempt).await, "of {most}");
        assert!(gone.is_none() || !holds(&gone.unwrap().attempt).await, "of {most}");
        assert!(holds(&failed.attempt).await && holds(&open.id).await);
    }
    // all others are of 1970
    let mut batch = Batch::default();
    let young = Verdict { given_unix_ms: Some(u64::MAX), ..verdict(&stray(99)) };
    store::put_verdict(&mut batch, 7, &young).unwrap();
    store.commit(batch).await.unwrap();
    let summaries_for = Some(std::time::Duration::from_hours(1));
    worker
        .retention
        .set_policy(plimsoll_core::domain::RetentionPolicy { summaries_for, ..Default::default() });
    let unmeasured = worker.history_loader().load().await.unwrap().unmeasured;
    let bound = UnmeasuredBound { attempts: 25, since_unix_ms: worker.retention.summaries_since() };
    unmeasured.drop_oldest(&store, slice::from_ref(&open), bound).await;
    assert!(!holds(&stray(24).attempt).await, "older than summaries may get");
    assert!(holds(&young.attempt).await && holds(&failed.attempt).await && holds(&open.id).await);
}

#[tokio::test]
async fn a_start_loads_unmeasured_jobs_killed_by_memory() {
    let (store, mut batch) = (Store::memory(), Batch::default());
    let labels = [("pipeline", "7"), ("job", "build")].map(|(name, value)| (name.into(), value.into()));
    let key = Key { project: "a/b".into(), labels: labels.into(), ..Key::default() };
    let bigger = |gib: u64| {
        let settings = plimsoll_core::predict::Settings::default();
        let mut next = plimsoll_core::predict::predict(&History::new(1), &key, &settings);
        next.memory_limit.value = gib << 30;
        Some(next)
    };
    // the older one has the later id
    for (id, given, gib) in [("2", 10, 64), ("1", 20, 96)] {
        let (job, given_unix_ms) = (JobName::of(&key), Some(given));
        let killed = Verdict { cause: Cause::Oom, next: bigger(gib), ..verdict(&ended(id, 0)) };
        store::put_verdict(&mut batch, 7, &Verdict { given_unix_ms, job, ..killed }).unwrap();
    }
    store.commit(batch).await.unwrap();
    let ingest = started(&store, 2).await;
    let next = fixture::verdicts(&ingest).after_memory_end(&key).await.unwrap().unwrap().next;
    assert_eq!(next.memory_limit.value, 96 << 30, "the last one counts");
    let other = Key { project: "c/d".into(), ..key };
    assert_eq!(fixture::verdicts(&ingest).after_memory_end(&other).await.unwrap(), None);
}

#[tokio::test]
async fn a_damaged_summary_costs_itself_alone() {
    let (store, [_, failed, _]) = filled().await;
    fixture::damage_summary(&store, &failed.attempt).await;
    let ingest = started(&store, 10).await;
    assert_eq!(ingest.parts.history.newest_first().len(), 2);
    assert_eq!(ingest.parts.classifier.flaky(10), []);
    assert_eq!(ingest.listed(&failed.attempt).await.unwrap(), None, "left out of lists");
}

#[tokio::test]
async fn attempts_from_the_future_count_as_oldest() {
    let now = crate::runtime::clock::Clock.now_unix_ms();
    let at = |id: &str, started_unix_ms: u64| Summary { started_unix_ms, ..ended(id, 0) };
    // received while the clock of the server was ten years ahead
    let future = at("future", now + 10 * 365 * 24 * 3_600_000);
    let (before, after) = (at("before", now - 7_200_000), at("after", now - 3_600_000));
    let store = Store::memory();
    fixture::put(&store, &[future.clone(), before.clone(), after.clone()], &[]).await;
    let newest = |ingest: &Ingest| -> Vec<String> {
        ingest.parts.history.newest_first().iter().map(|brief| brief.attempt.to_string()).collect()
    };
    assert_eq!(newest(&started(&store, 9).await), ["after", "before", "future"]);
    assert_eq!(newest(&started(&store, 2).await), ["after", "before"]);
}
