//! One flipped bit anywhere in the log: `verify` and `repair` say the same of it, and what is not in use is no damage.

use std::{collections::BTreeMap, fs, path::Path};

use super::fixture::{attempt, open, settings, summary};
use crate::{Batch, OfflineStore, StoreError, StoreSettings, VersionedValue, fixtures, put_summary, repair};

const PLACES: usize = 60;

/// A store whose summaries were written more than once, closed; all of its log was noted by the engine.
async fn noted(dir: &Path) {
    let store = open(dir);
    for n in 0..700_usize {
        let mut batch = Batch::default();
        let mut summary = summary(&attempt(&format!("job-{:03}", n * 89 % 300)));
        summary.key.variants = "v".repeat(n % 7 * 100);
        put_summary(&mut batch, &summary).unwrap();
        store.commit(batch).await.unwrap();
    }
    store.close().await.unwrap();
    for _ in 0..2 {
        open(dir).close().await.unwrap();
    }
}

fn entries(store: &OfflineStore) -> BTreeMap<Vec<u8>, VersionedValue> {
    let mut all = BTreeMap::new();
    let each = store.each::<StoreError>(|entry| {
        all.insert(entry.key, entry.value);
        Ok(())
    });
    each.unwrap();
    all
}

/// Whether `verify` finds nothing against a store.
fn is_clean(settings: &StoreSettings) -> bool {
    let Ok(looked) = OfflineStore::look(settings, None) else { return false };
    let checked = looked.check(|_flaw| {}, |_bytes| {});
    looked.behind().is_none() && checked.damaged + checked.unreadable == 0
}

#[tokio::test]
async fn verify_and_repair_agree_on_a_flipped_bit_and_none_that_is_not_in_use_is_a_loss() {
    let whole = tempfile::tempdir().unwrap();
    noted(whole.path()).await;
    let before = entries(&OfflineStore::look(&settings(whole.path()), None).unwrap());
    let bytes = fs::read(settings(whole.path()).dir.join("sled/db")).unwrap();
    let (mut unused, mut lost, mut wrong) = (0, 0, Vec::new());
    for n in 0..PLACES {
        let dir = tempfile::tempdir().unwrap();
        fixtures::copy(whole.path(), dir.path(), false).unwrap();
        let (at, mut damaged) = (bytes.len() * n / PLACES + n * 37 % 500, bytes.clone());
        damaged[at] ^= 1 << (n % 8);
        fs::write(settings(dir.path()).dir.join("sled/db"), damaged).unwrap();
        let is_clean = is_clean(&settings(dir.path()));
        let into = StoreSettings { dir: dir.path().join("repaired"), ..settings(dir.path()) };
        let repaired = repair(&settings(dir.path()).dir, &into, |_| {}).unwrap();
        let is_whole = entries(&OfflineStore::open(&into).unwrap()) == before;
        let claims = !repaired.losses.is_empty();
        // a page above others may be damaged and all records there: then claims are made of a store that does not start
        if is_clean == claims || !(is_whole || claims) {
            wrong.push((at, is_clean, is_whole, repaired.losses));
        }
        unused += usize::from(is_clean);
        lost += usize::from(claims);
    }
    assert!(wrong.is_empty(), "{} of {PLACES}: {wrong:?}", wrong.len());
    assert!(unused >= 30 && lost >= 5, "{unused} not in use, {lost} lost");
}
