//! Commands that read leave a store as it was, to the last byte.

use std::{collections::BTreeMap, path::Path};

use plimsoll_store::{FORMAT_VERSION, OfflineStore, StoreCopy, StoreSettings, backup, fixtures, repair};

use super::settings;
use crate::admin::tasks::export;

/// The bytes of all files, by their names.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = |path: &Path| path.strip_prefix(dir).unwrap().display().to_string();
    fixtures::contents(dir).unwrap().into_iter().map(|(path, bytes)| (name(&path), bytes)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_read_leave_the_store_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path(), "data");
    fixtures::unpack(&settings.dir).unwrap();
    let before = files(&settings.dir);
    let unchanged = |command: &str| assert!(files(&settings.dir) == before, "{command} changed it");

    let looked = OfflineStore::open_copy(&settings, None).unwrap();
    assert_eq!(looked.identity().format, FORMAT_VERSION);
    assert_eq!(looked.check(|flaw| panic!("{flaw:?}"), |_| {}).damaged, 0);
    drop(looked);
    unchanged("verify");

    let looked = OfflineStore::open_copy(&settings, None).unwrap();
    assert!(backup::write(&looked, &mut Vec::new(), |_| {}).unwrap() > 5);
    drop(looked);
    unchanged("backup");

    let copied = StoreCopy::of(&settings, None).unwrap();
    let (store, mut lines) = (copied.open().unwrap(), Vec::new());
    export::history(&store, &mut lines, |_| {}, |gap| panic!("{gap}")).await.unwrap();
    store.close().await.unwrap();
    drop(copied);
    assert!(!lines.is_empty());
    unchanged("export");

    let into = StoreSettings { dir: dir.path().join("repaired"), ..settings.clone() };
    let repaired = repair(&settings.dir, &into, |_| {}).unwrap();
    assert!(repaired.by_engine, "{repaired:?}");
    assert!(repaired.losses.is_empty(), "{repaired:?}");
    assert_eq!(repaired.checked.summaries, 1, "{repaired:?}");
    unchanged("repair");
}
