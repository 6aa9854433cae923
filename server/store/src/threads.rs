//! Low-priority threads: if they compete with threads that answer callers, answers come first, and agents wait for acknowledgements.
//! Agents spool meanwhile, and everything that waits for a sync shares it.

use std::io;

use rustix::process::{getpid, getpriority_process, setpriority_process};
use tokio::runtime::{Builder, Runtime};

/// Added to the niceness of the process: the thread gets a third of the CPU of a normal one when both want a core (each step takes a
/// fifth, `sched(7)`).
pub const NICER: i32 = 5;

/// Makes the calling thread, and those that it starts, nicer than the process.
pub(crate) fn yield_to_others() {
    let nicer = getpriority_process(Some(getpid())).map(|own| own + NICER);
    if let Err(error) = nicer.and_then(|nicer| setpriority_process(None, nicer)) {
        tracing::debug!(%error, "threads that should yield are as any other");
    }
}

/// Creates the threads that serve agent streams: thousands of streams wake at once after a sync, and on the common threads a request would
/// wait behind them. They must end before the server's runtime.
///
/// # Errors
/// No file descriptors are left.
///
/// # Panics
/// No threads are left.
pub fn agent_threads() -> io::Result<Runtime> {
    Builder::new_multi_thread().thread_name("agents").enable_all().on_thread_start(yield_to_others).build()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;
    use crate::{Batch, Store, StoreSettings};

    /// Field 19 of proc(5), after the name.
    fn niceness(stat: &str) -> Option<i32> {
        stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
    }

    /// Niceness of this process.
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

    #[test]
    fn who_serves_agents_yields_to_others_and_so_does_what_works_for_them() {
        let threads = agent_threads().unwrap();
        let nice = || niceness(&fs::read_to_string("/proc/thread-self/stat").unwrap());
        let nicer = own().map(|own| (own + NICER).min(19));
        let (serves, works) = threads.block_on(async {
            let serves = threads.spawn(async move { nice() });
            let works = threads.spawn(async move { tokio::task::spawn_blocking(nice).await.unwrap() });
            (serves.await.unwrap(), works.await.unwrap())
        });
        assert_eq!((serves, works), (nicer, nicer));
    }
}
