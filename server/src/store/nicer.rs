//! Threads that yield to those that answer somebody: where both want a core, what is asked is answered first, and agents wait for their
//! acknowledgements. They spool meanwhile, and what waits for one sync is written by one.

/// Added to the niceness of the process: a third of the time of a thread that is not nice, where both want a core (each step takes
/// a fifth, `sched(7)`).
pub(super) const NICER: i32 = 5;

/// The calling thread is nicer from now on, and so are those that it starts.
pub(super) fn yield_to_others() {
    if let Err(error) = rustix::process::nice(NICER) {
        tracing::debug!(%error, "threads of the store are as any other");
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::{Batch, Store, StoreSettings};

    /// Field 19 of proc(5), behind the name.
    fn niceness(stat: &str) -> Option<i32> {
        stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
    }

    #[tokio::test]
    async fn who_writes_the_store_yields_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&StoreSettings { dir: dir.path().to_owned(), cache_bytes: 1 << 20 }).unwrap();
        let mut batch = Batch::default();
        batch.put(b"key".to_vec(), b"value".to_vec());
        store.commit(batch).await.unwrap();
        let stats = fs::read_dir("/proc/self/task").unwrap().filter_map(|task| {
            // threads of other tests come and go
            fs::read_to_string(task.ok()?.path().join("stat")).ok()
        });
        let writers: Vec<i32> =
            stats.filter(|stat| stat.contains("(store-writer)")).filter_map(|stat| niceness(&stat)).collect();
        let own = niceness(&fs::read_to_string("/proc/self/stat").unwrap()).unwrap();
        assert!(writers.contains(&(own + NICER).min(19)), "{writers:?} beside {own}");
        store.close().await.unwrap();
    }
}
