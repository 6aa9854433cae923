//! A disk that is full: commits fail with a reason, reads go on, and writing is taken up without a restart.

use std::fs;

use plimsoll_support::small_disk::SmallDisk;

use super::fixture::{one, open};
use crate::{CommitError, Store, StoreMode, StoreStatus};

/// Commits values until one fails; returns the number of the ones that were acknowledged, and the failure.
async fn fill(store: &Store, mut next: u32) -> (u32, CommitError) {
    loop {
        match store.commit(one(&[b"k", &next.to_be_bytes()[..]].concat(), &[7; 4000])).await {
            Ok(_) => next += 1,
            Err(error) => return (next, error),
        }
    }
}

/// Waits for a status, without a call that makes the store try to take up writing.
async fn wait_for(store: &Store, is_wanted: impl FnMut(&StoreStatus) -> bool) {
    let Store::Sled(sled) = store else { panic!("in files") };
    sled.watch_status().wait_for(is_wanted).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_loses_no_acknowledged_commits() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path(), "24m") else { return };
    let ballast = dir.path().join("ballast");
    fs::write(&ballast, vec![1; 12 << 20]).unwrap();
    let store = open(dir.path());
    let (acknowledged, error) = fill(&store, 0).await;
    assert!(acknowledged > 100, "{acknowledged} commits, then {error}");
    assert!(error.to_string().contains("cannot write now"), "{error}");
    assert!(error.to_string().contains("No space left on device"), "{error}");
    assert!(matches!(store.status().mode, StoreMode::ReadOnly { .. }));
    // the store tries to take up writing while the disk is still full, and must not claim that it can
    let before = store.status().tries;
    wait_for(&store, |status| status.tries > before).await;
    fill(&store, acknowledged).await;
    assert!(store.get(b"k\0\0\0\0").await.unwrap().is_some(), "reads go on");

    fs::remove_file(&ballast).unwrap();
    wait_for(&store, |status| status.mode == StoreMode::Writable).await;
    store.commit(one(b"again", b"v")).await.unwrap();
    for n in 0..acknowledged {
        let found = store.get(&[b"k", &n.to_be_bytes()[..]].concat()).await.unwrap();
        assert_eq!(found.map(|found| found.value), Some(vec![7; 4000]), "value {n} of {acknowledged}");
    }
    store.close().await.unwrap();
    let store = open(dir.path());
    assert!(store.get(b"again").await.unwrap().is_some());
    store.close().await.unwrap();
}
