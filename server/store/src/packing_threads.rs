//! Low-priority threads that compress samples into blocks while no caller waits for the result. Compression
//! uses a core for milliseconds at a time, so these threads give way to the threads that answer callers.

use std::sync::OnceLock;

use tokio::{
    runtime::{Builder, Runtime},
    task::JoinError,
};

use super::threads;

/// Number of these threads. Their callers limit how much work waits.
const THREAD_COUNT: usize = 2;

/// Runs `work` on a low-priority thread.
/// Errors: `work` panicked.
pub(super) async fn run_on_packing_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    // kept for the life of the process, because tokio panics if a runtime is dropped on an async thread
    static PACKING_RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    match PACKING_RUNTIME.get_or_init(start) {
        Some(packers) => packers.spawn_blocking(work).await,
        None => tokio::task::spawn_blocking(work).await,
    }
}

fn start() -> Option<Runtime> {
    let mut builder = Builder::new_current_thread();
    let started = builder
        .thread_name("packer")
        .max_blocking_threads(THREAD_COUNT)
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
        assert_eq!(run_on_packing_thread(nice).await.unwrap(), (own + threads::NICENESS_STEP).min(19));
        assert_eq!(nice(), own, "the others are as they were");
    }
}
