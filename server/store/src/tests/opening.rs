//! Which directories are opened, and which are refused untouched.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use super::fixture::{one, open, refusal, settings};
use crate::{Store, fixtures::contents, store_id_at};

/// Changes the marker's text.
fn edit_marker(dir: &Path, change: impl Fn(&str) -> String) {
    let path = settings(dir).dir.join("plimsoll.json");
    let text = change(&fs::read_to_string(&path).unwrap());
    fs::write(path, text).unwrap();
}

/// A directory whose store held one commit and was closed.
async fn closed_store() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(one(b"k", b"v")).await.unwrap();
    store.close().await.unwrap();
    dir
}

#[tokio::test]
async fn what_was_committed_is_there_after_a_restart() {
    let dir = closed_store().await;
    for round in 1..4 {
        let store = open(dir.path());
        assert_eq!(store.get(b"k").await.unwrap().unwrap().version, 1);
        assert_eq!(store.status().commits, round, "numbers go on where they stopped");
        store.commit(one(b"other", b"v")).await.unwrap();
        if round < 3 {
            store.close().await.unwrap();
        } else {
            drop(store);
        }
    }
    // The last one was not closed: its writer ends by itself, and lets the lock go.
    let lock = fs::File::open(settings(dir.path()).dir.join("plimsoll.lock")).unwrap();
    lock.lock().unwrap();
    drop(lock);
    assert_eq!(open(dir.path()).status().commits, 4);
}

#[test]
fn a_directory_of_another_program_is_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let data = settings(dir.path()).dir;
    fs::create_dir(&data).unwrap();
    fs::write(data.join("thesis.tex"), "years").unwrap();
    let foreign_log = ::sled::Config::new().path(data.join("cache")).open().unwrap();
    foreign_log.insert(b"key", b"value").unwrap();
    foreign_log.flush().unwrap();
    drop(foreign_log);
    let before = contents(&data).unwrap();
    let error = refusal(dir.path());
    assert!(error.contains("not a plimsoll data directory"), "{error}");
    assert!(error.contains("point the data directory at an empty directory"), "{error}");
    assert_eq!((error.lines().count(), contents(&data).unwrap()), (1, before));
    assert!(!fs::exists(data.join("plimsoll.lock")).unwrap());
}

#[tokio::test]
async fn foreign_logs_and_markers_are_refused_untouched() {
    let dir = closed_store().await;
    edit_marker(dir.path(), |_| r#"{"name": "plimsoll", "version": "1.0.0"}"#.to_owned());
    let before = contents(dir.path()).unwrap();
    let error = refusal(dir.path());
    assert!(error.contains("plimsoll.json is damaged") && error.contains("format_version"), "{error}");
    assert_eq!((error.lines().count(), contents(dir.path()).unwrap()), (1, before));
    let dir = closed_store().await;
    let log = settings(dir.path()).dir.join("sled/db");
    fs::write(&log, b"SQLite format 3\0".repeat(1000)).unwrap();
    let before = contents(dir.path()).unwrap();
    let error = refusal(dir.path());
    assert!(error.contains("is damaged") && error.contains("plimsoll-server repair"), "{error}");
    assert_eq!((error.lines().count(), contents(dir.path()).unwrap()), (1, before));
}

#[tokio::test]
async fn an_emptied_store_is_refused_as_data_loss() {
    let dir = closed_store().await;
    fs::remove_dir_all(settings(dir.path()).dir.join("sled")).unwrap();
    let before = contents(dir.path()).unwrap();
    let error = refusal(dir.path());
    assert!(error.contains("has lost what it held") && error.contains("restore a backup"), "{error}");
    assert_eq!(contents(dir.path()).unwrap(), before);
}

#[tokio::test]
async fn an_emptied_directory_is_no_new_one() {
    for left in ["", "plimsoll.lock", "lost+found"] {
        let dir = closed_store().await;
        let data = settings(dir.path()).dir;
        let (dirs, files): (Vec<_>, Vec<_>) = fs::read_dir(&data)
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(|path| !path.ends_with(left) || left.is_empty())
            .partition(|path| path.is_dir());
        dirs.iter().try_for_each(fs::remove_dir_all).unwrap();
        files.iter().try_for_each(fs::remove_file).unwrap();
        if left == "lost+found" {
            fs::create_dir(data.join(left)).unwrap();
        }
        if rustix::fs::getxattr(&data, "user.plimsoll.store", &mut [0; 64]).is_err() {
            eprintln!("skipped: this file system has no extended attributes");
            return;
        }
        let before = contents(dir.path()).unwrap();
        let error = refusal(dir.path());
        assert!(error.contains("has lost what it held: all files of the store"), "{left}: {error}");
        let way = format!("setfattr -x user.plimsoll.store {}", data.display());
        assert!(error.contains("name a subfolder of it") && error.contains(&way), "{left}: {error}");
        assert!(store_id_at(&data).unwrap_err().to_string().contains("has lost"), "{left}");
        assert_eq!(contents(dir.path()).unwrap(), before, "{left}");
        fs::rename(&data, data.with_extension("old")).unwrap();
        open(dir.path());
    }
}

#[tokio::test]
async fn a_store_that_sled_emptied_is_noticed() {
    let dir = closed_store().await;
    let sled = settings(dir.path()).dir.join("sled");
    fs::remove_dir_all(&sled).unwrap();
    let fresh = ::sled::Config::new().path(&sled).open().unwrap();
    fresh.flush().unwrap();
    drop(fresh);
    let error = refusal(dir.path());
    assert!(error.contains("the store is empty, after 1 commits"), "{error}");
}

#[tokio::test]
async fn a_rolled_back_or_swapped_store_is_refused() {
    let dir = closed_store().await;
    edit_marker(dir.path(), |text| text.replace("\"commit_sequence\": 1", "\"commit_sequence\": 9"));
    let error = refusal(dir.path());
    assert!(error.contains("ends at commit 1, plimsoll.json knows of 9"), "{error}");
    let other = closed_store().await;
    let marker = settings(other.path()).dir.join("plimsoll.json");
    fs::copy(marker, settings(dir.path()).dir.join("plimsoll.json")).unwrap();
    let error = refusal(dir.path());
    assert!(error.contains("has the id"), "{error}");
}

#[tokio::test]
async fn stored_files_are_private_to_the_owner() {
    let dir = closed_store().await;
    let data = settings(dir.path()).dir;
    for private in [data.clone(), data.join("sled")] {
        let mode = fs::metadata(&private).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", private.display());
    }
}

#[test]
fn a_file_instead_of_a_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("data"), "").unwrap();
    let error = refusal(dir.path());
    assert!(error.contains("is not a directory"), "{error}");
    let below = settings(&dir.path().join("data"));
    assert!(Store::open(&below).unwrap_err().to_string().contains("is not a directory"));
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let error = Store::open(&settings(Path::new("/proc/self"))).unwrap_err().to_string();
    assert!(error.contains("cannot create /proc/self/data"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o500)).unwrap();
    // Root may write everywhere; other users get an error.
    if let Err(error) = Store::open(&settings(dir.path())) {
        assert!(error.to_string().contains("belongs to the user"), "{error}");
    }
}

#[tokio::test]
async fn an_unfinished_snapshot_does_not_block_opening() {
    let dir = closed_store().await;
    let snapshot = settings(dir.path()).dir.join("sled/snap.0000000000000ABC.generating");
    fs::write(&snapshot, "").unwrap();
    let store = open(dir.path());
    assert!(store.get(b"k").await.unwrap().is_some());
    assert!(!fs::exists(&snapshot).unwrap());
}

#[tokio::test]
async fn unsynced_blob_values_are_refused() {
    let dir = closed_store().await;
    let blobs = settings(dir.path()).dir.join("sled/blobs");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join("123"), "").unwrap();
    assert!(refusal(dir.path()).contains("never syncs them"));
}

#[tokio::test]
async fn an_interrupted_first_start_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let data = settings(dir.path()).dir;
    fs::create_dir(&data).unwrap();
    fs::create_dir(data.join("lost+found")).unwrap();
    fs::write(data.join("plimsoll.lock"), "1\n").unwrap();
    fs::write(data.join("plimsoll.json.new"), "{").unwrap();
    open(dir.path()).close().await.unwrap();
    // Again, cut between the marker and the engine.
    edit_marker(dir.path(), |text| text.replace("ready", "creating"));
    fs::remove_dir_all(data.join("sled")).unwrap();
    open(dir.path()).commit(one(b"k", b"v")).await.unwrap();
}

#[tokio::test]
async fn a_removed_directory_is_not_recreated() {
    let dir = tempfile::tempdir().unwrap();
    let data = settings(dir.path()).dir;
    let store = open(dir.path());
    store.commit(one(b"k", b"v")).await.unwrap();
    // as remove_dir_all does, file by file
    fs::remove_file(data.join("plimsoll.json")).unwrap();
    store.close().await.unwrap();
    assert!(!fs::exists(data.join("plimsoll.json")).unwrap());
    fs::create_dir(dir.path().join("other")).unwrap();
    let store = open(&dir.path().join("other"));
    fs::remove_dir_all(settings(&dir.path().join("other")).dir).unwrap();
    store.close().await.unwrap();
    assert!(!fs::exists(settings(&dir.path().join("other")).dir).unwrap());
}
