//! What a store takes on the disk, beside what is in it.

use std::{io, path::Path, time::Instant};

use anyhow::Result;
use plimsoll_store::{KeyKind, KeyValue, OfflineStore, PageLimit, Store, StoreSettings, bytes_below};

const LIMIT_COMPACT: f64 = 1.6;
const CACHE_BYTES: u64 = 64 << 20;

/// Bytes of all keys, versions and values.
pub(crate) async fn payload(store: &Store) -> Result<u64> {
    let mut bytes = 0;
    for kind in [KeyKind::Attempt, KeyKind::Fragment, KeyKind::Block, KeyKind::Summary, KeyKind::Verdict] {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = store.scan(&kind.prefix(), after.as_deref(), PageLimit::PAGE).await?;
            bytes += page.entries.iter().map(size).sum::<u64>();
            after = page.entries.last().filter(|_| page.more).map(|last| last.key.clone());
            if after.is_none() {
                break;
            }
        }
    }
    Ok(bytes)
}

pub(crate) fn size(entry: &KeyValue) -> u64 {
    (entry.key.len() + 8 + entry.value.value.len()) as u64
}

/// How many times the payload.
#[expect(clippy::cast_precision_loss, reason = "bytes far below 2^52")]
pub(crate) fn times(bytes: u64, payload: u64) -> f64 {
    bytes as f64 / payload.max(1) as f64
}

pub(crate) fn settings(dir: &Path) -> StoreSettings {
    StoreSettings { dir: dir.to_owned(), cache_bytes: CACHE_BYTES }
}

/// Compacts a closed store; false if it stays too large.
pub(crate) fn compacted(dir: &Path, payload: u64, out: &mut impl io::Write) -> Result<bool> {
    let before = times(bytes_below(dir)?, payload);
    let began = Instant::now();
    OfflineStore::open(&settings(dir))?.compact(CACHE_BYTES, |_| {})?;
    let (seconds, copied) = (began.elapsed().as_secs_f64(), times(bytes_below(dir)?, payload));
    // the first opening adds a snapshot of the engine's
    drop(OfflineStore::open(&settings(dir))?);
    let (mib, opened) = (payload >> 20, times(bytes_below(dir)?, payload));
    writeln!(
        out,
        "compact: {mib} MiB of payload, {before:.2} times before, {copied:.2} after, {opened:.2} opened again (limit {LIMIT_COMPACT}); {seconds:.1} s"
    )?;
    Ok(opened <= LIMIT_COMPACT)
}
