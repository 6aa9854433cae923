//! Work on a whole store: checked, copied, compacted, read while it changes.

use std::{collections::BTreeMap, fs};

use super::fixture::{attempt, entries, id, one, open, refusal, samples, settings, summary, verdict};
use crate::{
    Batch, CheckFinding, KeyKind, KeyValue, OfflineStore, OpenError, PageLimit, Store, StoreFiller,
    VersionedValue, append_fragment, bytes_below, put, put_verdict, sled::engine::Engine,
};

/// A store with something of every kind, closed.
async fn filled() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut batch = Batch::default();
    put(&mut batch, &attempt("running")).unwrap();
    put(&mut batch, &summary(&attempt("ended"))).unwrap();
    put_verdict(&mut batch, 7, &verdict("ended")).unwrap();
    append_fragment(&mut batch, &id("running"), 1, 0, samples(1, 40)).unwrap();
    store.commit(batch).await.unwrap();
    store.close().await.unwrap();
    dir
}

fn offline(dir: &tempfile::TempDir) -> OfflineStore {
    OfflineStore::open(&settings(dir.path())).unwrap()
}

fn flaws(store: &OfflineStore) -> (u64, Vec<CheckFinding>) {
    let mut flaws = Vec::new();
    let checked = store.check(|flaw| flaws.push(flaw), |_| {});
    (checked.damaged, flaws)
}

#[tokio::test]
async fn a_whole_store_checks_without_findings() {
    let dir = filled().await;
    let store = offline(&dir);
    let checked = store.check(|flaw| panic!("{flaw:?}"), |_| {});
    let counts = (checked.open, checked.summaries, checked.verdicts, checked.samples, checked.damaged);
    assert_eq!(counts, (1, 1, 1, 40, 0));
}

#[tokio::test]
async fn each_damaged_record_is_named() {
    let dir = filled().await;
    let store = open(dir.path());
    let mut batch = Batch::default();
    batch.put([&KeyKind::Summary.prefix_of(&id("bad"))[..], &[0]].concat(), b"\x01nonsense".to_vec());
    batch.put(
        [&KeyKind::Block.prefix_of(&id("bad"))[..], &1_u64.to_be_bytes()].concat(),
        b"nonsense".to_vec(),
    );
    batch.put(b"?what".to_vec(), b"nonsense".to_vec());
    store.commit(batch).await.unwrap();
    store.close().await.unwrap();
    let (damaged, flaws) = flaws(&offline(&dir));
    let keys: Vec<String> = flaws.iter().map(|flaw| flaw.key.to_string()).collect();
    assert_eq!((damaged, keys.len()), (3, 3), "{flaws:?}");
    assert!(keys[0].starts_with('?'), "{keys:?}");
    assert!(keys[1].starts_with("bbad"), "{keys:?}");
    assert!(keys[2].starts_with("sbad"), "{keys:?}");
}

#[tokio::test]
async fn compaction_keeps_entries_and_versions_in_fewer_bytes() {
    let dir = filled().await;
    let store = open(dir.path());
    for n in 0..2000_u64 {
        let value = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().repeat(100);
        store.commit(one(format!("bx{:04}", n % 500).as_bytes(), &value)).await.unwrap();
    }
    store.close().await.unwrap();
    let store = offline(&dir);
    let (before, identity, bytes) = (entries(&store), store.identity(), store.bytes_on_disk());
    store.compact(4 << 20, |_| {}).unwrap();
    let store = offline(&dir);
    assert_eq!((entries(&store), store.identity()), (before, identity));
    assert!(store.bytes_on_disk() < bytes, "{} after {bytes}", store.bytes_on_disk());
    drop(store);
    let names = fs::read_dir(settings(dir.path()).dir).unwrap().map(|file| file.unwrap().file_name());
    assert!(names.into_iter().all(|name| name != "sled.old" && name != "sled.new"));
    open(dir.path()).commit(one(b"bnew", b"v")).await.unwrap();
}

/// Entries as a server has them, by size: blocks of long and short builds, summaries, verdicts. With their bytes.
fn payload(least: usize) -> (Vec<KeyValue>, usize) {
    let mut bytes = 0;
    let mix = |n: u64| (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sizes = [(b'b', 3900), (b'b', 3200), (b'b', 300), (b's', 900), (b'v', 500)];
    let entries = (0..).zip(sizes.into_iter().cycle()).map_while(|(n, (kind, size)): (u64, (u8, u64))| {
        let noise: Vec<u8> = (0..size / 8).flat_map(|part| mix(mix(n << 16 | part)).to_be_bytes()).collect();
        let key = format!("{}gitlab.example.com:{:09}\0{n:08}", char::from(kind), mix(n / 5) % 1_000_000_000);
        let entry =
            KeyValue { key: key.into_bytes(), value: VersionedValue { version: n + 1, value: noise } };
        bytes += entry.key.len() + entry.value.value.len();
        (bytes < least).then_some(entry)
    });
    let mut entries: Vec<KeyValue> = entries.collect();
    // as a backup has them
    entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    (entries, bytes)
}

#[tokio::test]
async fn restored_and_compacted_stores_take_little_space() {
    let dir = filled().await;
    let identity = offline(&dir).identity();
    let new = tempfile::tempdir().unwrap();
    let mut filling = StoreFiller::begin(&settings(new.path()), identity).unwrap();
    let (entries, bytes) = payload(10 << 20);
    filling.lay_out(&entries).unwrap();
    for entry in entries {
        filling.put(entry).unwrap();
    }
    filling.end().unwrap();
    let store = offline(&new);
    let small = |store: &OfflineStore| {
        let on_disk = store.bytes_on_disk();
        assert!(on_disk * 10 <= bytes as u64 * 16, "{on_disk} bytes for {bytes}");
    };
    small(&store);
    let before = self::entries(&store);
    store.compact(4 << 20, |_| {}).unwrap();
    let store = offline(&new);
    small(&store);
    assert_eq!(self::entries(&store), before);
}

#[tokio::test]
async fn compaction_never_enlarges_a_store_of_short_values() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for n in 0..60_u32 {
        let mut batch = Batch::default();
        for part in 0..100_u32 {
            batch.put(format!("s{n:03}-{part:03}").into_bytes(), part.to_be_bytes().repeat(20));
        }
        store.commit(batch).await.unwrap();
    }
    store.close().await.unwrap();
    // sled writes a snapshot when it opens, and may begin a segment of half a MiB
    let by_opening = 512 << 10;
    let size = || bytes_below(&settings(dir.path()).dir.join("sled")).unwrap();
    let mut sizes = vec![size()];
    for _ in 0..3 {
        offline(&dir).compact(4 << 20, |_| {}).unwrap();
        sizes.push(size());
    }
    assert!(sizes.iter().all(|size| *size <= sizes[0] + by_opening), "{sizes:?}");
    assert_eq!(entries(&offline(&dir)).len(), 6000);
}

#[test]
fn keys_laid_out_without_a_value_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(dir.path(), 4 << 20).unwrap();
    engine.lay_out([b"k".as_slice()].into_iter()).unwrap();
    assert!(engine.get(b"k").unwrap_err().reason.contains("has no version"));
    assert!(engine.scan(b"", None, PageLimit::PAGE).is_err());
}

#[tokio::test]
async fn an_interrupted_swap_leaves_one_whole_store() {
    let dir = filled().await;
    let before = entries(&offline(&dir));
    let data = settings(dir.path()).dir;
    let half_written = || {
        fs::create_dir(data.join("sled.new")).unwrap();
        fs::write(data.join("sled.new/db"), "half").unwrap();
    };
    let left = |name: &str| fs::exists(data.join(name)).unwrap();
    half_written();
    open(dir.path()).close().await.unwrap();
    assert_eq!(entries(&offline(&dir)), before, "while the copy is written");
    assert!(!left("sled.new"), "while the copy is written");
    half_written();
    fs::rename(data.join("sled"), data.join("sled.old")).unwrap();
    open(dir.path()).close().await.unwrap();
    assert_eq!(entries(&offline(&dir)), before, "between the two renames");
    assert!(!left("sled.old"), "between the two renames");
    fs::create_dir(data.join("sled.old")).unwrap();
    open(dir.path()).close().await.unwrap();
    assert_eq!(entries(&offline(&dir)), before, "before the old files are removed");
    assert!(!left("sled.old"), "before the old files are removed");
    // the crash was in the command that goes on
    fs::rename(data.join("sled"), data.join("sled.old")).unwrap();
    offline(&dir).compact(4 << 20, |_| {}).unwrap();
    assert!(!left("sled.old") || !left("sled"), "one of the two");
}

#[tokio::test]
async fn half_restored_and_occupied_directories_are_refused() {
    let dir = filled().await;
    let identity = offline(&dir).identity();
    let occupied = StoreFiller::begin(&settings(dir.path()), identity).unwrap_err();
    assert!(matches!(occupied, OpenError::Occupied { .. }), "{occupied}");
    let new = tempfile::tempdir().unwrap();
    let mut filling = StoreFiller::begin(&settings(new.path()), identity).unwrap();
    let value = VersionedValue { version: 3, value: b"v".to_vec() };
    filling.put(KeyValue { key: b"k".to_vec(), value: value.clone() }).unwrap();
    drop(filling);
    assert!(refusal(new.path()).contains("half restored"), "{}", refusal(new.path()));
    fs::remove_dir_all(settings(new.path()).dir).unwrap();
    let mut filling = StoreFiller::begin(&settings(new.path()), identity).unwrap();
    filling.put(KeyValue { key: b"k".to_vec(), value: value.clone() }).unwrap();
    filling.end().unwrap();
    assert_eq!(open(new.path()).get(b"k").await.unwrap(), Some(value));
}

#[test]
fn opening_offline_creates_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let error = OfflineStore::open(&settings(dir.path())).unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

fn key(kind: u8, n: u64) -> Vec<u8> {
    [&[kind][..], format!("x{n:05}").as_bytes()].concat()
}

#[tokio::test]
async fn a_snapshot_is_one_moment_despite_concurrent_changes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut expected = BTreeMap::new();
    for (kind, first) in [(b'f', 0), (b'b', 0), (b'b', 1000), (b's', 0), (b's', 1000)] {
        let mut batch = Batch::default();
        for n in first..first + 1000 {
            batch.put(key(kind, n), b"old".to_vec());
            expected.insert(key(kind, n), b"old".to_vec());
        }
        store.commit(batch).await.unwrap();
    }
    let mut snapshot = store.snapshot().await.unwrap();
    assert_eq!(snapshot.identity().sequence, 5);
    assert!(store.snapshot().await.is_err(), "one at a time");
    let (mut found, mut step) = (BTreeMap::new(), 0);
    loop {
        // from both ends: what the pages have passed and what they have not
        for n in [step * 50, 1999 - step * 50] {
            let mut batch = Batch::default();
            batch.delete(key(b'f', n % 1000));
            batch.put(key(b'b', n), b"new".to_vec());
            batch.delete(key(b's', n));
            batch.put(key(b'v', n), b"new".to_vec());
            store.commit(batch).await.unwrap();
        }
        step += 1;
        let Some(entries) = snapshot.next().await.unwrap() else { break };
        found.extend(entries.into_iter().map(|entry| (entry.key, entry.value.value)));
    }
    assert!(step > 4, "changes came in between: {step}");
    assert_eq!(found.len(), expected.len());
    assert!(found == expected, "only what was there at the moment");
    drop(snapshot);
    store.snapshot().await.unwrap();
    assert!(!store.scan(b"v", None, PageLimit::PAGE).await.unwrap().entries.is_empty());
}

#[tokio::test]
async fn a_store_in_memory_gives_a_snapshot_too() {
    let store = Store::memory();
    store.commit(one(b"k", b"v")).await.unwrap();
    let mut snapshot = store.snapshot().await.unwrap();
    assert_eq!(snapshot.next().await.unwrap().unwrap().len(), 1);
    assert_eq!(snapshot.next().await.unwrap(), None);
}
