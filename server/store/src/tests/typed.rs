//! What is kept comes back as it was, and the way from fragments to a sealed attempt loses nothing.

use plimsoll_core::domain::{AttemptId, Summary};

use super::fixture::{attempt, id, samples, stores, summary, verdict};
use crate::{
    Batch, DeleteProgress, KeyKind, LoadReport, MemoryStore, PageLimit, SampleRun, SeriesExtent, SeriesRead,
    Store, append_fragment, compact_samples, compact_samples_up_to, each_run, load, open_attempts, put,
    put_verdict, read_series, read_summary, read_verdict, remove, seal, sweep_late_fragments,
};

/// Stores the samples `from` to `to` as one batch of an agent would.
async fn append(store: &Store, id: &AttemptId, lost: u64, from: u64, to: u64) {
    let mut batch = Batch::default();
    append_fragment(&mut batch, id, from, lost, samples(from, to)).unwrap();
    store.commit(batch).await.unwrap();
}

fn run(lost: u64, from: u64, to: u64) -> SampleRun {
    SampleRun { first_sequence: from, lost, samples: samples(from, to) }
}

/// A series without damage.
fn series(runs: Vec<SampleRun>, last_sequence: u64) -> SeriesRead {
    let count: usize = runs.iter().map(|run| run.samples.len()).sum();
    let (samples, lost) = (count as u64, runs.iter().map(|run| run.lost).sum());
    SeriesRead { runs, extent: SeriesExtent { last_sequence, samples, lost, ..SeriesExtent::default() } }
}

/// A series wherever its samples are.
async fn read(store: &Store, id: &AttemptId) -> SeriesRead {
    let SeriesRead { runs, extent } = read_series(store, id).await.unwrap();
    SeriesRead { runs, extent: SeriesExtent { loose: 0, ..extent } }
}

async fn count(store: &Store, kind: KeyKind) -> usize {
    store.scan(&kind.prefix(), None, PageLimit::PAGE).await.unwrap().entries.len()
}

#[tokio::test]
async fn records_come_back_as_they_were() {
    let (_dir, stores) = stores();
    for store in stores {
        let mut large = attempt("large");
        large.key.variants = "\u{1}".repeat(2048);
        let mut batch = Batch::default();
        put(&mut batch, &large).unwrap();
        put(&mut batch, &attempt("small")).unwrap();
        put(&mut batch, &summary(&large)).unwrap();
        put_verdict(&mut batch, u64::MAX, &verdict("large")).unwrap();
        store.commit(batch).await.unwrap();
        assert_eq!(open_attempts(&store).await.unwrap(), [large.clone(), attempt("small")]);
        assert_eq!(read_summary(&store, &large.id).await.unwrap(), Some(summary(&large)));
        assert_eq!(read_summary(&store, &id("larg")).await.unwrap(), None);
        assert_eq!(read_verdict(&store, &large.id, u64::MAX).await.unwrap(), Some(verdict("large")));
        assert_eq!(read_verdict(&store, &large.id, 1).await.unwrap(), None);
        let mut batch = Batch::default();
        remove(&mut batch, &large).unwrap();
        store.commit(batch).await.unwrap();
        assert_eq!(open_attempts(&store).await.unwrap(), [attempt("small")]);
    }
}

#[tokio::test]
async fn all_summaries_are_loaded_whatever_their_number() {
    let (_dir, stores) = stores();
    for store in stores {
        let names: Vec<String> = (0..2300).map(|n| format!("{n:06}")).collect();
        for names in names.chunks(1000) {
            let mut batch = Batch::default();
            names.iter().try_for_each(|name| put(&mut batch, &summary(&attempt(name)))).unwrap();
            store.commit(batch).await.unwrap();
        }
        let mut found = Vec::new();
        let loaded =
            load::<Summary>(&store, |summary| found.push(summary.attempt.to_string())).await.unwrap();
        assert_eq!(loaded, LoadReport { records: 2300, ..LoadReport::default() });
        assert_eq!(found, names);
    }
}

#[tokio::test]
async fn gaps_are_shown_wherever_they_are() {
    let (_dir, stores) = stores();
    for store in stores {
        let job = id("job");
        assert_eq!(read(&store, &job).await, SeriesRead::default());
        append(&store, &job, 4, 5, 1004).await;
        append(&store, &job, 0, 1005, 1100).await;
        append(&store, &job, 100, 1201, 1300).await;
        let mut end = Batch::default();
        append_fragment(&mut end, &job, 1304, 3, []).unwrap();
        store.commit(end).await.unwrap();
        let last = SampleRun { first_sequence: 1304, lost: 3, samples: Vec::new() };
        let expected = series(vec![run(4, 5, 1100), run(100, 1201, 1300), last], 1303);
        assert_eq!(read(&store, &job).await, expected);
        store.commit(compact_samples(&store, &job).await.unwrap().batch).await.unwrap();
        assert_eq!(read(&store, &job).await, expected, "the same from blocks");
        assert_eq!(count(&store, KeyKind::Fragment).await, 0);
        append(&store, &job, 0, 1304, 1310).await;
        let extent = read(&store, &job).await.extent;
        assert_eq!((extent.last_sequence, extent.samples, extent.lost), (1310, 1203, 107));
    }
}

#[tokio::test]
async fn compaction_during_a_read_loses_nothing() {
    let memory = MemoryStore::default();
    let (store, job) = (Store::Memory(memory.clone()), id("job"));
    append(&store, &job, 0, 1, 100).await;
    store.commit(compact_samples(&store, &job).await.unwrap().batch).await.unwrap();
    append(&store, &job, 0, 101, 200).await;
    let mut compacted = Some(compact_samples(&store, &job).await.unwrap().batch);
    let mut read = 0;
    let extent = each_run(&store, &job, |run| {
        read += run.samples.len();
        // the first block has just been read: now the fragments behind it become the second
        compacted.take().map(|batch| memory.commit(batch).unwrap());
    });
    let extent = extent.await.unwrap();
    assert_eq!((compacted, read, extent.samples, extent.lost), (None, 200, 200, 0));
    assert_eq!(count(&store, KeyKind::Fragment).await, 0, "the roll has happened");
}

#[tokio::test]
async fn compaction_keeps_samples_beyond_its_bound() {
    let (_dir, stores) = stores();
    for store in stores {
        let job = id("job");
        append(&store, &job, 0, 1, 100).await;
        append(&store, &job, 0, 101, 200).await;
        let compaction = compact_samples_up_to(&store, &job, 100).await.unwrap();
        assert!(!compaction.more, "the rest is not meant");
        // the same key with more samples, as after a commit whose fate was unknown
        append(&store, &job, 0, 101, 300).await;
        store.commit(compaction.batch).await.unwrap();
        assert_eq!(read(&store, &job).await, series(vec![run(0, 1, 300)], 300));
        assert_eq!((count(&store, KeyKind::Block).await, count(&store, KeyKind::Fragment).await), (1, 1));
    }
}

#[tokio::test]
async fn samples_that_were_sent_twice_count_once() {
    let (_dir, stores) = stores();
    for store in stores {
        let job = id("job");
        append(&store, &job, 0, 1, 100).await;
        append(&store, &job, 0, 101, 700).await;
        append(&store, &job, 0, 101, 350).await;
        append(&store, &job, 0, 351, 800).await;
        let expected = series(vec![run(0, 1, 800)], 800);
        assert_eq!(read(&store, &job).await, expected);
        store.commit(compact_samples(&store, &job).await.unwrap().batch).await.unwrap();
        append(&store, &job, 0, 701, 900).await;
        assert_eq!(read(&store, &job).await, series(vec![run(0, 1, 900)], 900));
        store.commit(compact_samples(&store, &job).await.unwrap().batch).await.unwrap();
        assert_eq!(read(&store, &job).await, series(vec![run(0, 1, 900)], 900));
    }
}

#[tokio::test]
async fn a_fragment_within_another_one_is_skipped() {
    let (_dir, stores) = stores();
    for store in stores {
        let job = id("job");
        for (from, to) in [(1, 100), (20, 30), (101, 110)] {
            append(&store, &job, 0, from, to).await;
        }
        assert_eq!(read(&store, &job).await, series(vec![run(0, 1, 110)], 110));
    }
}

#[tokio::test]
async fn attempts_of_many_fragments_are_sealed_whole() {
    let (_dir, stores) = stores();
    for store in stores {
        let job = attempt("job");
        for from in (1..=1500).step_by(500) {
            let mut batch = Batch::default();
            put(&mut batch, &job).unwrap();
            let mut one = |n| append_fragment(&mut batch, &job.id, n, 0, samples(n, n));
            (from..from + 500).try_for_each(&mut one).unwrap();
            store.commit(batch).await.unwrap();
        }
        seal(&store, &job, &summary(&job)).await.unwrap();
        assert_eq!(read(&store, &job.id).await, series(vec![run(0, 1, 1500)], 1500));
        assert_eq!((count(&store, KeyKind::Fragment).await, count(&store, KeyKind::Attempt).await), (0, 0));
        assert!(count(&store, KeyKind::Block).await < 20);
        assert_eq!(read_summary(&store, &job.id).await.unwrap(), Some(summary(&job)));
    }
}

#[tokio::test]
async fn sealing_twice_changes_nothing() {
    let (_dir, stores) = stores();
    for store in stores {
        let job = attempt("job");
        append(&store, &job.id, 0, 1, 10).await;
        for _ in 0..2 {
            seal(&store, &job, &summary(&job)).await.unwrap();
            assert_eq!(read(&store, &job.id).await, series(vec![run(0, 1, 10)], 10));
        }
    }
}

#[tokio::test]
async fn late_fragments_are_swept_unless_still_open() {
    let (_dir, stores) = stores();
    for store in stores {
        let (sealed, running) = (attempt("job"), attempt("job-1"));
        seal(&store, &sealed, &summary(&sealed)).await.unwrap();
        append(&store, &sealed.id, 0, 1, 10).await;
        append(&store, &sealed.id, 0, 11, 20).await;
        append(&store, &running.id, 0, 1, 10).await;
        append(&store, &id("unknown"), 0, 1, 10).await;
        let mut batch = Batch::default();
        put(&mut batch, &running).unwrap();
        store.commit(batch).await.unwrap();
        assert_eq!(sweep_late_fragments(&store).await.unwrap(), DeleteProgress { items: 2, more: false });
        assert_eq!(read(&store, &sealed.id).await.extent.samples, 0);
        assert_eq!(read(&store, &running.id).await.extent.samples, 10);
        assert_eq!(read(&store, &id("unknown")).await.extent.samples, 10);
    }
}
