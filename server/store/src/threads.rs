//! Threads of low priority. When they compete for the CPU with threads that answer callers, the callers go
//! first, and agents wait longer for their acknowledgements. Meanwhile the agents keep their samples in a
//! spool, and all commits that wait for a sync share the next one.

use std::io;

use rustix::process::{getpid, getpriority_process, setpriority_process};
use tokio::runtime::{Builder, Runtime};

/// How much is added to the niceness of the process for a low-priority thread. When both want a core, the
/// thread gets about a third of the CPU time of a normal one (each step takes a fifth, `sched(7)`).
pub const NICENESS_STEP: i32 = 5;

/// Raises the niceness of the calling thread and of the threads that it starts later.
pub(crate) fn yield_to_others() {
    let nicer = getpriority_process(Some(getpid())).map(|own| own + NICENESS_STEP);
    if let Err(error) = nicer.and_then(|nicer| setpriority_process(None, nicer)) {
        tracing::debug!(%error, "threads that should yield are as any other");
    }
}

/// Creates the threads that serve agent streams. After a sync thousands of streams wake at once; on the threads
/// of requests, a request would wait behind them. These threads must end before the server's runtime does.
/// Errors: no file descriptors are left.
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

    /// Parses the niceness from `/proc/PID/stat`: field 19 of proc(5), counted after the process's name.
    fn parse_niceness(stat: &str) -> Option<i32> {
        stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
    }

    /// Niceness of this process.
    fn own_niceness() -> Option<i32> {
        parse_niceness(&fs::read_to_string("/proc/self/stat").ok()?)
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
        let writers: Vec<i32> = stats
            .filter(|stat| stat.contains("(store-writer)"))
            .filter_map(|stat| parse_niceness(&stat))
            .collect();
        let own = own_niceness().unwrap();
        assert!(writers.contains(&(own + NICENESS_STEP).min(19)), "{writers:?} beside {own}");
        store.close().await.unwrap();
    }

    #[test]
    fn agent_threads_and_their_blocking_tasks_run_nicer() {
        let threads = agent_threads().unwrap();
        let nice = || parse_niceness(&fs::read_to_string("/proc/thread-self/stat").unwrap());
        let nicer = own_niceness().map(|own| (own + NICENESS_STEP).min(19));
        let (serves, works) = threads.block_on(async {
            let serves = threads.spawn(async move { nice() });
            let works = threads.spawn(async move { tokio::task::spawn_blocking(nice).await.unwrap() });
            (serves.await.unwrap(), works.await.unwrap())
        });
        assert_eq!((serves, works), (nicer, nicer));
    }
}
