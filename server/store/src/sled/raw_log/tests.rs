//! The log without the engine says what the engine says; and in a damaged one, what is not damaged.

use std::{collections::BTreeMap, fs, ops::Range, path::Path};

use super::{
    OpenForecast, RawLog, forecast, foresight::identity_of_sound, message::SEGMENT_BYTES, survey::LogSurvey,
};
use crate::{
    Batch, OfflineStore, RepairLoss, Store, StoreSettings, VersionedValue, append_fragment,
    keys::KeyKind,
    put,
    sled::{repair, small_files::read_up_to},
    tests::fixture::{self, attempt, id, open, samples, settings, summary},
};

/// Numbers that look drawn, and are the same each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn key(kind: KeyKind, n: u64) -> Vec<u8> {
    [&kind.prefix_of(&id(&format!("gitlab.example.com:{n:05}")))[..], &[0]].concat()
}

/// Puts, replaces and removes entries of many lengths.
async fn work(store: &Store, draw: &mut Draw, commits: u64, longest: u64) {
    for _ in 0..commits {
        let mut batch = Batch::default();
        for _ in 0..=draw.below(12) {
            let kind = [KeyKind::Summary, KeyKind::Attempt, KeyKind::Ticket]
                [usize::try_from(draw.below(3)).unwrap()];
            let key = key(kind, draw.below(400));
            if draw.below(3) == 0 {
                batch.delete(key);
            } else {
                let byte = u8::try_from(draw.below(256)).unwrap();
                let len = usize::try_from(draw.below(longest)).unwrap();
                batch.put(key, vec![byte; len]);
            }
        }
        store.commit(batch).await.unwrap();
    }
}

fn log(dir: &Path) -> std::path::PathBuf {
    settings(dir).dir.join("sled/db")
}

fn entries(log: &RawLog) -> BTreeMap<Vec<u8>, VersionedValue> {
    let mut all = BTreeMap::new();
    log.each(|entry| {
        all.insert(entry.key, entry.value);
        Ok(())
    })
    .unwrap();
    all
}

#[tokio::test]
async fn a_clean_restart_scans_only_the_unnoted_log() {
    let dir = tempfile::tempdir().unwrap();
    // the last starts have nothing to do
    for commits in [300, 0, 1, 0, 0] {
        let store = open(dir.path());
        work(&store, &mut Draw(7), commits, 900).await;
        store.close().await.unwrap();
        let known = RawLog::read(&log(dir.path()), false).unwrap().newest_version();
        let since = read_up_to(log(dir.path()).parent().unwrap()).unwrap();
        let survey = LogSurvey::of(&log(dir.path()), since).unwrap();
        let found = identity_of_sound(&log(dir.path()), &survey, since).unwrap();
        assert!(found.is_some_and(|found| found.sequence >= known), "{commits}: {found:?}, {known}");
    }
}

#[tokio::test]
async fn a_whole_raw_log_agrees_with_the_engine() {
    for (seed, commits, longest) in [(1, 300, 40), (2, 200, 4000), (3, 60, 900)] {
        let (dir, mut draw) = (tempfile::tempdir().unwrap(), Draw(seed));
        for _ in 0..3 {
            let store = open(dir.path());
            work(&store, &mut draw, commits, longest).await;
            store.close().await.unwrap();
            let read = RawLog::read(&log(dir.path()), false).unwrap();
            assert_eq!(read.losses(), []);
            // values are read when they are asked for, and an open engine moves them
            let (known, found) = (read.newest_version(), entries(&read));
            let foreseen = forecast(&log(dir.path()), 0, known).unwrap();
            let store = OfflineStore::open(&settings(dir.path())).unwrap();
            assert_eq!(foreseen, OpenForecast::Opens(Some(store.identity())));
            let engine = fixture::entries(&store);
            let missing = engine.iter().find(|(key, value)| found.get(*key) != Some(*value));
            assert_eq!(missing, None, "seed {seed}");
            let back: Vec<_> = found.keys().filter(|key| !engine.contains_key(*key)).collect();
            assert!(back.is_empty(), "seed {seed}: {} removed entries", back.len());
            assert_eq!(known, store.identity().sequence);
        }
    }
}

/// Ends attempts with samples, in no order.
async fn end_with_samples(store: &Store, draw: &mut Draw, commits: u64) {
    for n in 0..commits {
        let name = format!("gitlab.example.com:{:05}", 1000 + n * 7919 % 1000);
        let mut batch = Batch::default();
        let mut summary = summary(&attempt(&name));
        summary.key.variants = "v".repeat(usize::try_from(draw.below(900)).unwrap());
        put(&mut batch, &summary).unwrap();
        append_fragment(&mut batch, &id(&name), 1, 0, samples(1, 1 + draw.below(60))).unwrap();
        store.commit(batch).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_lost_sector_costs_is_named() {
    let (dir, mut draw) = (tempfile::tempdir().unwrap(), Draw(11));
    let store = open(dir.path());
    end_with_samples(&store, &mut draw, 400).await;
    store.close().await.unwrap();
    let path = log(dir.path());
    let whole = RawLog::read(&path, false).unwrap();
    let (before, bytes) = (entries(&whole), fs::read(&path).unwrap());
    let end = whole.spans().into_iter().map(|(_, span)| span.end).max().unwrap();
    for hit in (0..80).map(|n| n * end / 80..n * end / 80 + 4096) {
        let read = read_without(&path, &bytes, &hit);
        let found = entries(&read);
        assert!(
            found.keys().all(|key| before.contains_key(key)),
            "{hit:?}: a value stands under a wrong key"
        );
        assert!(found == before || !read.losses().is_empty(), "{hit:?}: what is lost is named");
    }
}

/// What is read of a log without these bytes.
fn read_without(path: &Path, whole: &[u8], hit: &Range<u64>) -> RawLog {
    let mut damaged = whole.to_vec();
    let [start, end] = [hit.start, hit.end].map(|place| usize::try_from(place).unwrap().min(whole.len()));
    damaged[start..end].fill(0);
    fs::write(path, &damaged).unwrap();
    RawLog::read(path, false).unwrap()
}

/// Ends attempts, changes some of them again, and forgets others.
async fn end_attempts(store: &Store, draw: &mut Draw, commits: u64) {
    for _ in 0..commits {
        let mut batch = Batch::default();
        for _ in 0..=draw.below(5) {
            let name = format!("gitlab.example.com:{:05}", draw.below(300));
            let mut summary = summary(&attempt(&name));
            summary.key.variants = "v".repeat(usize::try_from(draw.below(600)).unwrap());
            match draw.below(4) {
                0 => batch.delete([&KeyKind::Summary.prefix_of(&id(&name))[..], &[0]].concat()),
                _ => put(&mut batch, &summary).unwrap(),
            }
        }
        store.commit(batch).await.unwrap();
    }
}

#[tokio::test]
async fn a_wrong_byte_costs_one_named_page() {
    let (dir, mut draw) = (tempfile::tempdir().unwrap(), Draw(7));
    let store = open(dir.path());
    end_attempts(&store, &mut draw, 500).await;
    store.close().await.unwrap();
    let path = log(dir.path());
    let whole = RawLog::read(&path, false).unwrap();
    let (before, spans, bytes) = (entries(&whole), whole.spans(), fs::read(&path).unwrap());
    let last = whole.last_whole_commit().unwrap();
    let ends: Vec<u64> =
        spans.iter().filter(|(key, _)| key.len() > 1).map(|(_, span)| span.end - 1).collect();
    let mut hit = 0;
    // the last byte of a message that counts, and any byte: much of the log is older than what counts
    for turn in 0..60 {
        let any = draw.below(bytes.len() as u64);
        let at = if turn % 3 == 0 { ends[usize::try_from(any).unwrap() % ends.len()] } else { any };
        let mut damaged = bytes.clone();
        damaged[usize::try_from(at).unwrap()] ^= 1 << draw.below(8);
        fs::write(&path, &damaged).unwrap();
        let read = RawLog::read(&path, false).unwrap();
        let found = entries(&read);
        let lost: Vec<_> = before
            .iter()
            .filter(|(key, value)| found.get(*key) != Some(*value))
            .map(|(key, _)| key)
            .collect();
        assert!(whole.replay.is_one_page(&lost), "byte {at}: {lost:?}");
        let changed = found != before;
        hit += u32::from(changed);
        // a log that lacks its end ends earlier, as after a power cut: `repair` knows which commit was the last
        let is_named = !read.losses().is_empty() || read.last_whole_commit().unwrap() < last;
        assert!(!changed || is_named, "byte {at} of {}: what is lost is named", bytes.len());
    }
    assert!(hit >= 10, "{hit} of 60 hit something");
}

#[tokio::test]
async fn a_truncated_commit_is_reported_as_incomplete() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    end_attempts(&store, &mut Draw(3), 40).await;
    let mut batch = Batch::default();
    for name in ["a", "b", "c"] {
        put(&mut batch, &summary(&attempt(name))).unwrap();
    }
    store.commit(batch).await.unwrap();
    store.close().await.unwrap();
    let (path, bytes) = (log(dir.path()), fs::read(log(dir.path())).unwrap());
    let whole = RawLog::read(&path, false).unwrap();
    let last = whole.last_whole_commit().unwrap();
    let (first, end) = *whole.survey.batches.last().unwrap();
    let slot = whole.survey.slots.iter().find(|slot| slot.number == first / SEGMENT_BYTES as u64).unwrap();
    let place = |lsn: u64| usize::try_from(slot.at + lsn % SEGMENT_BYTES as u64).unwrap();
    for cut in (place(first) + 1..place(end)).step_by(7) {
        fs::write(&path, &bytes[..cut]).unwrap();
        let torn = RawLog::read(&path, false).unwrap();
        assert_eq!(torn.last_whole_commit().unwrap(), last - 1, "{cut} of {first} to {end}");
    }
    let into = StoreSettings { dir: dir.path().join("repaired"), ..settings(dir.path()) };
    let repaired = repair(&settings(dir.path()).dir, &into, |_bytes| {}).unwrap();
    let named = RepairLoss::Commits { found: last - 1, known: last };
    assert!(repaired.losses.contains(&named), "{:?}", repaired.losses);
}
