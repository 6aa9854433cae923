//! A store is read where nothing can be written, and nothing in it changes.

use std::{fs, io, path::Path};

use plimsoll_support::small_disk::SmallDisk;

use super::fixture::{one, open, settings};
use crate::{OfflineStore, OpenError, Store, StoreCopy, sled::directory::Directory};

/// A store with one entry, closed.
async fn filled(dir: &Path) {
    let store = open(dir);
    store.commit(one(b"key", b"value")).await.unwrap();
    store.close().await.unwrap();
}

/// What a copy of the store holds.
async fn value_in(copied: &StoreCopy) -> Vec<u8> {
    let store = copied.open().unwrap();
    let found = store.get(b"key").await.unwrap().unwrap().value;
    store.close().await.unwrap();
    found
}

#[tokio::test]
async fn copies_use_the_given_directory_and_are_removed() {
    let (dir, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    filled(dir.path()).await;
    let log = settings(dir.path()).dir.join("sled/db");
    let before = fs::read(&log).unwrap();
    let looked = OfflineStore::open_copy(&settings(dir.path()), Some(scratch.path())).unwrap();
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    drop(looked);
    let copied = StoreCopy::of(&settings(dir.path()), Some(scratch.path())).unwrap();
    assert_eq!(value_in(&copied).await, b"value");
    let again = Store::open(&settings(dir.path()));
    assert!(matches!(again, Err(OpenError::Locked { .. })), "meanwhile it is in use");
    drop(copied);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    assert_eq!(fs::read(&log).unwrap(), before);
}

#[tokio::test]
async fn unwritable_stores_are_readable_unless_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let path = settings(dir.path()).dir;
    assert!(matches!(Directory::open_unwritable(&path), Err(OpenError::Locked { .. })));
    store.close().await.unwrap();
    let opened = Directory::open_unwritable(&path).unwrap();
    assert!(matches!(Directory::open_unwritable(&path), Err(OpenError::Locked { .. })));
    drop(opened);
    fs::remove_file(path.join("plimsoll.lock")).unwrap();
    Directory::open_unwritable(&path).unwrap();
    assert!(!fs::exists(path.join("plimsoll.lock")).unwrap(), "nothing was written");
}

#[test]
fn only_refused_writes_lead_to_a_copy() {
    let refused =
        |kind: io::ErrorKind| OpenError::io("create", "plimsoll.lock")(kind.into()).is_write_refused();
    assert!(refused(io::ErrorKind::ReadOnlyFilesystem) && refused(io::ErrorKind::PermissionDenied));
    assert!(!refused(io::ErrorKind::NotFound) && !refused(io::ErrorKind::StorageFull));
}

#[tokio::test]
async fn a_read_only_mount_is_read_by_copying() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path(), "24m") else { return };
    filled(dir.path()).await;
    disk.read_only();
    assert!(OfflineStore::open(&settings(dir.path())).unwrap_err().is_write_refused());
    let looked = OfflineStore::open_copy(&settings(dir.path()), None).unwrap();
    assert!(looked.server_refusal().is_none() && looked.identity().sequence > 0);
    drop(looked);
    assert_eq!(value_in(&StoreCopy::of(&settings(dir.path()), None).unwrap()).await, b"value");
}

#[tokio::test]
async fn a_full_disk_is_read_by_copying() {
    let (dir, small) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(_disk) = SmallDisk::mount(dir.path(), "24m") else { return };
    filled(dir.path()).await;
    // all of it, to the last byte
    let mut ballast = fs::File::create(dir.path().join("ballast")).unwrap();
    assert!(io::copy(&mut io::repeat(1), &mut ballast).is_err());
    drop(OfflineStore::open_copy(&settings(dir.path()), None).unwrap());
    assert_eq!(value_in(&StoreCopy::of(&settings(dir.path()), None).unwrap()).await, b"value");
    let Some(_other) = SmallDisk::mount(small.path(), "24m") else { return };
    fs::write(small.path().join("ballast"), vec![1; 23 << 20]).unwrap();
    let text = StoreCopy::of(&settings(dir.path()), Some(small.path())).unwrap_err().to_string();
    assert!(text.contains("--scratch DIR") && text.contains(&small.path().display().to_string()), "{text}");
}
