//! Threads that yield to those that answer somebody: where both want a core, what is asked is answered first, and agents wait for their
//! acknowledgements. They spool meanwhile, and what waits for one sync is written by one.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// Added to the niceness of the process: a third of the time of a thread that is not nice, where both want a core (each step takes
/// a fifth, `sched(7)`).
pub(crate) const NICER: i32 = 5;

/// The calling thread is nicer from now on, and so are those that it starts.
pub(crate) fn yield_to_others() {
    if let Err(error) = rustix::process::nice(NICER) {
        tracing::debug!(%error, "threads that should yield are as any other");
    }
}

/// The threads that serve the streams of agents, as many as there are cores. Thousands of streams are awake at once when a sync was done
/// for them, and on the threads of all others a question would wait for its turn behind them. Where the system has no more threads,
/// those of the caller serve agents, too.
///
/// # Panics
/// There are none, and the caller runs on no runtime either.
pub(crate) fn of_agents() -> Handle {
    // never dropped: a runtime cannot be where others wait
    static AGENTS: OnceLock<Option<Runtime>> = OnceLock::new();
    AGENTS.get_or_init(start).as_ref().map_or_else(Handle::current, |agents| agents.handle().clone())
}

fn start() -> Option<Runtime> {
    let mut builder = Builder::new_multi_thread();
    let started = builder.thread_name("agents").enable_all().on_thread_start(yield_to_others).build();
    started.map_err(|error| tracing::warn!(%error, "no threads of their own for streams of agents")).ok()
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

    /// Of this process.
    fn own() -> Option<i32> {
        niceness(&fs::read_to_string("/proc/self/stat").ok()?)
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
        let own = own().unwrap();
        assert!(writers.contains(&(own + NICER).min(19)), "{writers:?} beside {own}");
        store.close().await.unwrap();
    }

    #[tokio::test]
    async fn who_serves_agents_yields_to_others() {
        let nice = of_agents().spawn(async { rustix::process::nice(0).unwrap() });
        assert_eq!(nice.await.unwrap(), (own().unwrap() + NICER).min(19));
    }
}
