//! Threads that pack samples while no caller waits for it. Packing keeps a core busy for milliseconds at a time, so it yields to whatever
//! answers a caller.

use std::sync::OnceLock;

use tokio::{
    runtime::{Builder, Runtime},
    task::JoinError,
};

use super::threads;

/// Threads. What waits for them is bounded by those who call.
const THREADS: usize = 2;

/// Runs `work` on a thread that yields to others.
///
/// # Errors
/// It panicked.
pub(super) async fn pack_aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    // never dropped: a runtime cannot be where others wait
    static THREADS_OF_ITS_OWN: OnceLock<Option<Runtime>> = OnceLock::new();
    match THREADS_OF_ITS_OWN.get_or_init(start) {
        Some(packers) => packers.spawn_blocking(work).await,
        None => tokio::task::spawn_blocking(work).await,
    }
}

fn start() -> Option<Runtime> {
    let mut builder = Builder::new_current_thread();
    let started = builder
        .thread_name("packer")
        .max_blocking_threads(THREADS)
        .on_thread_start(threads::yield_to_others)
        .build();
    started
        .map_err(
            |error| tracing::warn!(%error, "cannot start threads for packing samples; using shared ones"),
        )
        .ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_packing_thread_yields_to_others() {
        let nice = || rustix::process::nice(0).unwrap();
        let own = nice();
        assert_eq!(pack_aside(nice).await.unwrap(), (own + threads::NICER).min(19));
        assert_eq!(nice(), own, "the others are as they were");
    }
}
