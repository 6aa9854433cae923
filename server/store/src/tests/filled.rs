//! A store that was filled and not served yet, cut short; and the files that a compact copy replaced, beside a damaged one.

use std::{collections::BTreeMap, fs, path::Path};

use plimsoll_core::domain::Summary;

use super::fixture::{attempt, open, refusal, settings, summary};
use crate::{
    Batch, OfflineStore, OpenError, RepairLoss, Store, StoreCopy, StoreFiller, StoreSettings, fixtures, load,
    put, repair,
};

const ATTEMPTS: u64 = 400;
/// Each attempt is written twice: there is something to make compact.
const COMMITS: u64 = 2 * ATTEMPTS;

/// A store of so many attempts that ended, closed.
async fn served(dir: &Path) {
    let store = open(dir);
    for n in 0..COMMITS {
        let mut batch = Batch::default();
        let mut summary = summary(&attempt(&format!("job-{:04}", n * 7919 % ATTEMPTS)));
        summary.key.variants = format!("v{n}").repeat(usize::try_from((COMMITS - n) % 300).unwrap());
        put(&mut batch, &summary).unwrap();
        store.commit(batch).await.unwrap();
    }
    store.close().await.unwrap();
}

/// What `restore` makes of a backup of the store.
pub(super) fn restore(from: &Path, to: &Path) {
    let store = OfflineStore::open_copy(&settings(from), None).unwrap();
    let mut filling = StoreFiller::begin(&settings(to), store.identity()).unwrap();
    let mut entries = Vec::new();
    let each = store.each_entry(|entry| {
        entries.push(entry);
        Ok(())
    });
    each.unwrap();
    filling.lay_out(&entries).unwrap();
    for entry in entries {
        filling.put(entry).unwrap();
    }
    filling.end().unwrap();
}

fn copy(from: &Path, to: &Path) {
    fixtures::copy(from, to, false).unwrap();
}

/// Cuts the log to so many eighths.
fn cut(dir: &Path, eighths: u64) {
    let log = fs::OpenOptions::new().write(true).open(settings(dir).dir.join("sled/db")).unwrap();
    log.set_len(log.metadata().unwrap().len() * eighths / 8).unwrap();
}

fn repaired_beside(dir: &Path) -> StoreSettings {
    StoreSettings { dir: dir.join("repaired"), ..settings(dir) }
}

/// By a start, by `verify` and by `repair`, or by none of them.
fn is_seen_as_damaged(dir: &Path, attempts: Option<u64>, case: &str) -> bool {
    let repaired = repair(&settings(dir).dir, &repaired_beside(dir), |_| {});
    let looked = OfflineStore::open_copy(&settings(dir), None);
    let is_behind = looked.as_ref().map_or(true, |looked| looked.server_refusal().is_some());
    drop(looked);
    let Err(refused) = Store::open(&settings(dir)).map(drop) else {
        // the end of the file was not in use
        let repaired = repaired.unwrap();
        assert!(!is_behind, "{case}");
        assert!(repaired.losses.is_empty(), "{case}: {:?}", repaired.losses);
        assert_eq!(repaired.checked.summaries, ATTEMPTS, "{case}");
        return false;
    };
    assert!(is_behind && refused.to_string().contains("plimsoll-server repair"), "{case}: {refused}");
    match repaired {
        Err(OpenError::NothingLeft { .. }) => {}
        repaired => {
            let repaired = repaired.unwrap();
            let is_end = |loss: &RepairLoss| matches!(loss, RepairLoss::Commits { known: COMMITS, .. });
            assert!(repaired.losses.iter().any(is_end), "{case}: {:?}", repaired.losses);
            assert!(repaired.attempts == attempts && repaired.checked.summaries < ATTEMPTS, "{case}");
        }
    }
    true
}

#[tokio::test]
async fn missing_attempts_of_a_truncated_store_are_counted() {
    let made = tempfile::tempdir().unwrap();
    let way = |name: &str| made.path().join(name);
    served(&way("served")).await;
    restore(&way("served"), &way("restore"));
    copy(&way("served"), &way("compact"));
    assert!(OfflineStore::open(&settings(&way("compact"))).unwrap().compact(4 << 20, |_| {}).unwrap());
    let into = StoreSettings { dir: way("repair").join("data"), ..settings(made.path()) };
    fs::create_dir(way("repair")).unwrap();
    assert_eq!(repair(&settings(&way("served")).dir, &into, |_| {}).unwrap().losses, []);
    for (name, is_counted) in [("restore", true), ("repair", true), ("compact", false)] {
        let cuts = (1..8).filter(|eighths| {
            let dir = tempfile::tempdir().unwrap();
            copy(&way(name), dir.path());
            cut(dir.path(), *eighths);
            let attempts = is_counted.then_some(ATTEMPTS);
            is_seen_as_damaged(dir.path(), attempts, &format!("{name}, {eighths} of 8"))
        });
        assert!(cuts.count() >= 4, "{name}: most cuts cost something");
        let store = open(&way(name));
        assert_eq!(load::<Summary>(&store, |_| {}).await.unwrap().records, ATTEMPTS, "{name}, whole");
        assert_eq!(store.status().commits, COMMITS, "{name}, whole");
        store.close().await.unwrap();
    }
}

/// What may happen to the engine's own files while those that they replaced are still there.
type Damage = (&'static str, fn(&Path));

const DAMAGES: [Damage; 3] = [
    ("emptied", |engine| fs::write(engine.join("db"), []).unwrap()),
    ("cut", |engine| {
        let log = fs::read(engine.join("db")).unwrap();
        fs::write(engine.join("db"), &log[..log.len() / 3]).unwrap();
    }),
    ("zeros in it", |engine| {
        let mut log = fs::read(engine.join("db")).unwrap();
        let third = log.len() / 3;
        log[third..third * 2].fill(0);
        fs::write(engine.join("db"), log).unwrap();
    }),
];

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let of_locks = |path: &str| path.ends_with("plimsoll.lock");
    let contents = fixtures::contents(dir).unwrap().into_iter();
    let named = contents.map(|(path, bytes)| (path.display().to_string(), bytes));
    named.filter(|(path, _)| !of_locks(path)).collect()
}

#[tokio::test]
async fn readers_and_refused_starts_keep_replaced_files() {
    let whole = tempfile::tempdir().unwrap();
    served(whole.path()).await;
    for (damage, apply) in DAMAGES {
        let dir = tempfile::tempdir().unwrap();
        copy(whole.path(), dir.path());
        let data = settings(dir.path()).dir;
        copy(&data.join("sled"), &data.join("sled.old"));
        apply(&data.join("sled"));
        let before = files(&data);
        let unchanged = |step: &str| assert!(files(&data) == before, "{step}, {damage}");
        drop(OfflineStore::open_copy(&settings(dir.path()), None));
        unchanged("verify and backup");
        assert!(StoreCopy::of(&settings(dir.path()), None).and_then(|copied| copied.open()).is_err());
        unchanged("export");
        refusal(dir.path());
        unchanged("a refused start");
        OfflineStore::open(&settings(dir.path())).unwrap_err();
        unchanged("verify of the files themselves");
        let repaired = repair(&data, &repaired_beside(dir.path()), |_| {}).unwrap();
        unchanged("repair");
        assert_eq!((repaired.losses, repaired.checked.summaries), (Vec::new(), ATTEMPTS), "{damage}");
    }
}

#[tokio::test]
async fn only_a_readable_start_removes_replaced_files() {
    let dir = tempfile::tempdir().unwrap();
    served(dir.path()).await;
    let data = settings(dir.path()).dir;
    let is_kept = || fs::exists(data.join("sled.old")).unwrap();
    copy(&data.join("sled"), &data.join("sled.old"));
    drop(OfflineStore::open_copy(&settings(dir.path()), None).unwrap());
    drop(OfflineStore::open(&settings(dir.path())).unwrap());
    assert!(is_kept(), "a whole store that was only read");
    open(dir.path()).close().await.unwrap();
    assert!(!is_kept(), "a server started");
    // a crash between the two renames of a swap
    fs::rename(data.join("sled"), data.join("sled.old")).unwrap();
    let looked = OfflineStore::open_copy(&settings(dir.path()), None).unwrap();
    assert_eq!((looked.server_refusal().is_none(), looked.identity().sequence), (true, COMMITS));
    drop(looked);
    assert!(is_kept() && !fs::exists(data.join("sled")).unwrap(), "it was only read");
    let store = open(dir.path());
    assert_eq!(store.status().commits, COMMITS);
    assert!(!is_kept(), "it has its own name again");
    store.close().await.unwrap();
}
