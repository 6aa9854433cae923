//! A flipped bit is found, and harms what it hit and nothing else.

use std::{collections::BTreeSet, fs};

use plimsoll_core::domain::Summary;

use super::fixture::{attempt, id, open, refusal, samples, settings, stores, summary};
use crate::{
    Batch, KeyKind, LoadReport, OfflineStore, PAGE_ITEMS, PageLimit, Store, StoreError, StoreMode,
    append_fragment, compact_samples, each_summary, load, load_past_damage, put, read_series, read_summary,
};

/// Flips one bit in the middle of the entry at `index` among those with the prefix.
async fn flip(store: &Store, prefix: &[u8], index: usize) {
    let mut page = store.scan(prefix, None, PageLimit::PAGE).await.unwrap();
    let entry = page.entries.remove(index);
    let mut value = entry.value.value;
    let middle = value.len() / 2;
    value[middle] ^= 0x10;
    let mut batch = Batch::default();
    batch.put(entry.key, value);
    store.commit(batch).await.unwrap();
}

#[tokio::test]
async fn a_flipped_bit_costs_only_one_summary() {
    let (_dir, stores) = stores();
    for store in stores {
        let mut batch = Batch::default();
        for name in ["a", "b", "c"] {
            put(&mut batch, &summary(&attempt(name))).unwrap();
        }
        store.commit(batch).await.unwrap();
        flip(&store, &KeyKind::Summary.prefix(), 1).await;
        let mut found = Vec::new();
        let loaded = load::<Summary>(&store, |summary| found.push(summary.attempt)).await.unwrap();
        assert_eq!(loaded, LoadReport { records: 2, damaged: 1, unreadable: 0 });
        assert_eq!(found, [id("a"), id("c")]);
        let error = read_summary(&store, &id("b")).await.unwrap_err();
        assert!(matches!(&error, StoreError::Damaged { key, .. } if key.0 == b"sb\0"), "{error}");
        assert_eq!(store.found_damage().places(), 1, "found twice");
    }
}

#[tokio::test]
async fn a_start_loads_every_undamaged_summary() {
    let (_dir, stores) = stores();
    for store in stores {
        let count = PAGE_ITEMS + PAGE_ITEMS / 2;
        let mut all = Vec::new();
        for n in 0..count {
            let mut one = summary(&attempt(&format!("{n:0>4}")));
            // some end on another page than they begin
            one.key.variants = "v".repeat(n % 7 * 2000);
            let mut batch = Batch::default();
            put(&mut batch, &one).unwrap();
            store.commit(batch).await.unwrap();
            all.push(one);
        }
        flip(&store, &KeyKind::Summary.prefix(), 0).await;
        let (send, read) = std::sync::mpsc::channel();
        let loaded = each_summary(&store, move |summary| send.send(summary.clone()).unwrap()).await.unwrap();
        assert_eq!(loaded, LoadReport { records: count as u64 - 1, damaged: 1, unreadable: 0 });
        assert!(read.try_iter().eq(all.into_iter().skip(1)));
    }
}

#[tokio::test]
async fn a_flipped_bit_in_samples_becomes_a_gap() {
    let (_dir, stores) = stores();
    for store in stores {
        let job = id("job");
        let mut batch = Batch::default();
        for from in [1, 11, 21] {
            append_fragment(&mut batch, &job, from, 0, samples(from, from + 9)).unwrap();
        }
        store.commit(batch).await.unwrap();
        flip(&store, &KeyKind::Fragment.prefix_of(&job), 1).await;
        let read = read_series(&store, &job).await.unwrap();
        assert_eq!((read.extent.damaged, read.extent.samples, read.extent.lost), (1, 20, 10));
        assert_eq!((read.runs[1].first_sequence, read.runs[1].lost), (21, 10));
        assert_eq!(read.runs[1].samples, samples(21, 30));
        store.commit(compact_samples(&store, &job).await.unwrap().batch).await.unwrap();
        let compacted = read_series(&store, &job).await.unwrap();
        assert_eq!((compacted.runs, compacted.extent.damaged), (read.runs, 0));
        assert_eq!(store.found_damage().places(), 1);
    }
}

/// Flips a bit in everything in the engine's log that speaks of `name`.
fn flip_in_the_log(dir: &std::path::Path, name: &str) {
    let log = settings(dir).dir.join("sled/db");
    let mut bytes = fs::read(&log).unwrap();
    let places: Vec<usize> = bytes
        .windows(name.len())
        .enumerate()
        .filter(|(_, part)| *part == name.as_bytes())
        .map(|(at, _)| at)
        .collect();
    for place in places {
        bytes[place] ^= 1;
    }
    fs::write(log, bytes).unwrap();
}

/// The same for one of `names` of which nothing stands in what sled is about to read, into which it moves pages in the background. Says
/// which one.
async fn flip_in_an_old_page<'a>(dir: &std::path::Path, names: &[&'a str]) -> &'a str {
    let log = settings(dir).dir.join("sled/db");
    for _ in 0..20 {
        open(dir).close().await.unwrap();
        let whole = fs::read(&log).unwrap();
        for name in names {
            flip_in_the_log(dir, name);
            if OfflineStore::open_copy(&settings(dir), None)
                .is_ok_and(|store| store.server_refusal().is_none())
            {
                return name;
            }
            fs::write(&log, &whole).unwrap();
        }
    }
    panic!("sled never left one of {names:?} where it was");
}

/// A closed store of some hundred attempts, in which a bit is flipped in the page of one: their names, and that one.
async fn flipped_store(dir: &std::path::Path) -> (BTreeSet<String>, &'static str) {
    let names: BTreeSet<String> = (0..600).map(|n| format!("job-{n:04}")).collect();
    let store = open(dir);
    for name in &names {
        let mut batch = Batch::default();
        put(&mut batch, &summary(&attempt(name))).unwrap();
        store.commit(batch).await.unwrap();
    }
    // sled reads its last segments when it opens: what is damaged is to lie before them
    for n in 0..40_u8 {
        let mut batch = Batch::default();
        for m in 0..10 {
            batch.put([&KeyKind::Verdict.prefix()[..], &[n, m]].concat(), vec![n; 4000]);
        }
        store.commit(batch).await.unwrap();
    }
    store.close().await.unwrap();
    (names, flip_in_an_old_page(dir, &["job-0300", "job-0150", "job-0450", "job-0050"]).await)
}

#[tokio::test]
async fn entries_around_log_damage_stay_readable() {
    let dir = tempfile::tempdir().unwrap();
    let (names, flipped) = flipped_store(dir.path()).await;
    let looked = OfflineStore::open_copy(&settings(dir.path()), None).unwrap();
    let (mut reasons, mut count) = (Vec::new(), 0);
    let checked = looked.check(|flaw| reasons.push(flaw.reason), |_| count += 1);
    assert!(checked.unreadable > 0 && checked.summaries > 400, "{checked:?} {reasons:?}");
    drop(looked);

    let store = open(dir.path());
    // a start reads past it, and nothing is written where nothing can be read
    let (send, started) = std::sync::mpsc::channel();
    let read =
        each_summary(&store, move |summary| send.send(summary.attempt.clone()).unwrap()).await.unwrap();
    assert!(read.unreadable > 0 && read.records == checked.summaries, "{read:?}");
    assert_eq!(started.try_iter().count() as u64, read.records);
    let notice = store.found_damage().notice().unwrap();
    let repair = format!("plimsoll-server repair {}", settings(dir.path()).dir.display());
    assert!(notice.starts_with(&format!("{} damaged place", read.unreadable)), "{notice}");
    assert!(notice.contains(&repair), "{notice}");
    let commit = async |name: &str| {
        let mut batch = Batch::default();
        put(&mut batch, &summary(&attempt(name))).unwrap();
        store.commit(batch).await
    };
    let refused = commit(flipped).await.unwrap_err().to_string();
    assert!(refused.contains(&format!("s{flipped}")), "{refused}");
    assert!(refused.contains("damage"), "{refused}");
    assert!(refused.contains(&repair), "{refused}");
    let unreadable = read_summary(&store, &id(flipped)).await.unwrap_err().to_string();
    assert!(unreadable.contains("damaged") && unreadable.contains(&repair), "{unreadable}");
    commit("job-0599").await.unwrap();
    assert_eq!(store.status().mode, StoreMode::Writable, "others go on");
    let (mut found, mut gaps) = (BTreeSet::new(), Vec::new());
    let take = |summary: Summary| {
        found.insert(summary.attempt.to_string());
    };
    let loaded = load_past_damage(&store, take, |gap| gaps.push(gap)).await.unwrap();
    assert_eq!(loaded.records, checked.summaries);
    assert_eq!(store.found_damage().notice(), Some(notice), "each place counts once");
    let missing: BTreeSet<&String> = names.difference(&found).collect();
    let mut beside = BTreeSet::new();
    for name in &names {
        let absent = read_summary(&store, &id(&format!("{name}."))).await;
        beside.extend(absent.is_err().then_some(name));
    }
    assert_eq!(beside, missing, "an id that is not there, in a page that can be read");
    for name in missing {
        let key = KeyKind::Summary.prefix_of(&id(name));
        let named = |gap: &crate::UnreadableRange| {
            gap.after.0 < key && gap.until.as_ref().is_none_or(|until| key < until.0)
        };
        assert!(gaps.iter().any(named), "{name} is missing, reported was {gaps:?}");
    }
}

#[tokio::test]
async fn accepted_loss_keeps_entries_before_the_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for n in 0..200 {
        let mut batch = Batch::default();
        put(&mut batch, &summary(&attempt(&format!("job-{n:04}")))).unwrap();
        store.commit(batch).await.unwrap();
    }
    store.close().await.unwrap();
    open(dir.path()).close().await.unwrap();
    flip_in_the_log(dir.path(), "job-0100");
    let error = refusal(dir.path());
    assert!(error.contains("plimsoll-server repair") && error.contains("restore a backup"), "{error}");
    let looked = OfflineStore::open_copy(&settings(dir.path()), None).unwrap();
    assert_eq!(looked.server_refusal().unwrap().to_string(), error, "verify says what a server says");
    let left = looked.check(|flaw| panic!("{flaw:?}"), |_| {}).summaries;
    drop(looked);
    OfflineStore::accept_loss(&settings(dir.path()), None).unwrap();
    let loaded = load::<Summary>(&open(dir.path()), |_| {}).await.unwrap();
    assert_eq!(loaded, LoadReport { records: left, ..LoadReport::default() });
    assert!(left > 50, "{left}");
}

#[tokio::test]
async fn garbage_behind_the_log_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut batch = Batch::default();
    put(&mut batch, &summary(&attempt("a"))).unwrap();
    store.commit(batch).await.unwrap();
    store.close().await.unwrap();
    let log = settings(dir.path()).dir.join("sled/db");
    let bytes = [fs::read(&log).unwrap(), vec![0xa5; 3000]].concat();
    fs::write(&log, bytes).unwrap();
    let store = open(dir.path());
    let loaded = load::<Summary>(&store, |_| {}).await.unwrap();
    assert_eq!((loaded.records, store.found_damage().places()), (1, 0));
}
