//! What was acknowledged and is gone is reported, however little it is; a killed process and its half-written log are no damage.

use std::{fs, path::Path};

use super::fixture::{one, open, refusal, settings};
use crate::{OfflineStore, Store};

const COMMITS: u8 = 20;

/// Copies a store while it is open: what a killed server leaves behind.
fn kill(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let path = file.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() { kill(&path, &copy) } else { fs::copy(&path, copy).map(drop).unwrap() }
    }
}

/// A store that was killed after some commits.
async fn killed() -> tempfile::TempDir {
    let (dir, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(dir.path());
    for n in 0..COMMITS {
        store.commit(one(&[b'k', n], &[n; 300])).await.unwrap();
    }
    kill(&settings(dir.path()).dir, &settings(left.path()).dir);
    left
}

/// Flips a bit in the value of the commit `n`.
fn damage(dir: &Path, n: u8) {
    let log = settings(dir).dir.join("sled/db");
    let mut bytes = fs::read(&log).unwrap();
    let place = bytes.windows(200).position(|part| part == [n; 200]).unwrap();
    bytes[place] ^= 1;
    fs::write(log, bytes).unwrap();
}

#[tokio::test]
async fn a_killed_store_keeps_all_acknowledged_commits() {
    let dir = killed().await;
    let looked = OfflineStore::open_copy(&settings(dir.path()), None).unwrap();
    assert!(looked.server_refusal().is_none());
    drop(looked);
    assert_eq!(open(dir.path()).status().commits, u64::from(COMMITS));
}

#[tokio::test]
async fn damage_in_a_killed_store_needs_acceptance() {
    let dir = killed().await;
    damage(dir.path(), COMMITS - 3);
    let log = settings(dir.path()).dir.join("sled/db");
    let before = fs::read(&log).unwrap();
    let looked = OfflineStore::open_copy(&settings(dir.path()), None).unwrap();
    let text = looked.server_refusal().unwrap().to_string();
    let left = looked.identity().sequence;
    assert!(left < u64::from(COMMITS));
    drop(looked);
    assert_eq!(fs::read(&log).unwrap(), before, "verify changes nothing");
    assert!(!fs::exists(settings(dir.path()).dir.join("sled.look")).unwrap());
    for _try in 0..2 {
        let refused = refusal(dir.path());
        assert_eq!(refused, text, "verify says what a server says");
        assert_eq!(fs::read(&log).unwrap(), before, "a start that refuses changes nothing");
        assert!(text.contains("restore a backup") && text.contains("plimsoll-server repair"), "{text}");
    }
    OfflineStore::accept_loss(&settings(dir.path()), None).unwrap();
    assert_eq!(open(dir.path()).status().commits, left);
}

#[tokio::test]
async fn a_stale_or_unreadable_witness_is_no_damage() {
    let dir = killed().await;
    // as a power cut may leave it: the engine has the last commits, the witness does not
    let witness = settings(dir.path()).dir.join("plimsoll.last");
    for left in [Vec::new(), vec![0; 1024]] {
        fs::write(&witness, left).unwrap();
        let store: Store = open(dir.path());
        assert_eq!(store.status().commits, u64::from(COMMITS));
        store.close().await.unwrap();
    }
}
