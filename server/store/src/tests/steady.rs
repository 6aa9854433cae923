//! The directory of a server that works for long stays small.

use std::collections::BTreeMap;

use super::fixture::settings;
use crate::{Batch, Store, StoreSettings, WriteOp, bytes_below};

/// Attempts that run side by side, and how many rounds of them pass.
const SIDE_BY_SIDE: u64 = 32;
const ROUNDS: u64 = 110;
/// Rounds after which a block becomes small, and after which it goes.
const FULL: u64 = 40;
const KEPT: u64 = 60;
const FRAGMENTS: u64 = 4;

/// What is in a store, by key, next to the store.
struct Mirror {
    store: Store,
    sizes: BTreeMap<Vec<u8>, usize>,
}

impl Mirror {
    async fn commit(&mut self, batch: Batch) {
        for write in &batch.writes {
            match write {
                WriteOp::Put { key, value } => self.sizes.insert(key.clone(), key.len() + 8 + value.len()),
                WriteOp::Delete { key } => self.sizes.remove(key),
            };
        }
        self.store.commit(batch).await.unwrap();
    }

    fn payload(&self) -> u64 {
        self.sizes.values().map(|size| *size as u64).sum()
    }
}

fn key(kind: u8, round: u64, attempt: u64, part: u64) -> Vec<u8> {
    [&[kind][..], format!("{:08}\0", round * SIDE_BY_SIDE + attempt).as_bytes(), &part.to_be_bytes()].concat()
}

/// Bytes that do not repeat.
fn noise(seed: u64, length: u64) -> Vec<u8> {
    let mix = |n: u64| (n ^ n >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..length / 8).flat_map(|n| mix(mix(seed << 20 | n)).to_be_bytes()).collect()
}

#[tokio::test]
async fn disk_use_under_churn_stays_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&StoreSettings { cache_bytes: 16 << 20, ..settings(dir.path()) }).unwrap();
    let mut mirror = Mirror { store, sizes: BTreeMap::new() };
    let mut worst = (0, 0, 1);
    for round in 0..ROUNDS {
        for part in 0..FRAGMENTS {
            let mut batch = Batch::default();
            (0..SIDE_BY_SIDE).for_each(|n| batch.put(key(b'f', round, n, part), noise(round * 64 + n, 300)));
            mirror.commit(batch).await;
        }
        let mut batch = Batch::default();
        for n in 0..SIDE_BY_SIDE {
            (0..FRAGMENTS).for_each(|part| batch.delete(key(b'f', round, n, part)));
            batch.put(key(b'b', round, n, 1), noise(round * 64 + n, 3600));
            batch.put(key(b's', round, n, 0), noise(round * 64 + n, 800));
            round
                .checked_sub(FULL)
                .into_iter()
                .for_each(|old| batch.put(key(b'b', old, n, 1), noise(old * 64 + n, 400)));
            round.checked_sub(KEPT).into_iter().for_each(|old| batch.delete(key(b'b', old, n, 1)));
        }
        mirror.commit(batch).await;
        if round > KEPT {
            let (disk, payload) = (bytes_below(&dir.path().join("data/sled")).unwrap(), mirror.payload());
            worst = worst.max((disk * 100 / payload, disk, payload));
        }
    }
    assert!(worst.0 <= 250, "{} bytes on the disk for {}", worst.1, worst.2);
}
