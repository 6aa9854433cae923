//! Stopping a server: tasks that run as long as the server, and steps that share one time limit.

use std::{fmt, future::Future, time::Duration};

use anyhow::anyhow;
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;

/// A task that runs as long as the server. It is aborted on drop.
pub(super) struct LongTask {
    name: &'static str,
    /// `None` after the end of the task was reported.
    handle: Option<AbortOnDropHandle<anyhow::Result<()>>>,
}

impl fmt::Debug for LongTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LongTask({})", self.name)
    }
}

impl LongTask {
    /// Takes over a running task.
    pub(super) fn new(name: &'static str, task: JoinHandle<anyhow::Result<()>>) -> Self {
        Self { name, handle: Some(AbortOnDropHandle::new(task)) }
    }

    /// Waits for the end of the task; returns at once if the end was reported before. The future
    /// may be dropped and the method called again.
    /// Errors: the task failed or panicked; the text names it.
    pub(super) async fn ended(&mut self) -> anyhow::Result<()> {
        let Some(handle) = &mut self.handle else { return Ok(()) };
        let ended = handle.await;
        self.handle = None;
        match ended {
            Ok(result) => result.map_err(|error| error.context(format!("the {}", self.name))),
            Err(error) => Err(anyhow!("the {} ended badly: {error}", self.name)),
        }
    }

    /// Waits for the end of the task, and returns it as an error even if the task succeeded: it
    /// should not end by itself.
    pub(super) async fn ended_early(&mut self) -> anyhow::Error {
        match self.ended().await {
            Ok(()) => anyhow!("the {} ended by itself", self.name),
            Err(error) => error,
        }
    }
}

/// Steps that share one time limit. A step that exceeds it is abandoned, the next ones are still tried, and the first error is kept.
#[derive(Debug)]
pub(super) struct Drain {
    deadline: Instant,
    first_error: Option<anyhow::Error>,
}

impl Drain {
    /// Starts the time limit. `trouble`: an earlier error, if there was one.
    pub(super) fn begin(limit: Duration, trouble: Option<anyhow::Error>) -> Self {
        Self { deadline: Instant::now() + limit, first_error: trouble }
    }

    /// Waits for a step within the time limit. A step that is complete already succeeds even after
    /// the limit. `late` names what was not finished, for the error.
    pub(super) async fn step(
        &mut self,
        work: impl Future<Output = anyhow::Result<()>>,
        late: impl FnOnce() -> String,
    ) {
        let ended = timeout_at(self.deadline, work).await;
        let ended = ended.unwrap_or_else(|_late| Err(anyhow!("{} at the end of drain_timeout", late())));
        if let Err(error) = ended {
            tracing::warn!(error = format!("{error:#}"), "stopping goes on");
            self.first_error.get_or_insert(error);
        }
    }

    /// Extends the time limit so that at least `time` is left.
    pub(super) fn extend_to(&mut self, time: Duration) {
        self.deadline = self.deadline.max(Instant::now() + time);
    }

    /// The first error, if there was one.
    pub(super) fn end(self) -> anyhow::Result<()> {
        self.first_error.map_or(Ok(()), Err)
    }
}

/// Makes a step of work that cannot fail.
pub(super) async fn infallible_step(work: impl Future<Output = ()>) -> anyhow::Result<()> {
    work.await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio_util::task::TaskTracker;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn drain_steps_share_one_timeout() {
        let begin = Instant::now();
        let mut drain = Drain::begin(Duration::from_secs(20), None);
        drain.step(async { Ok(()) }, || "nothing".to_owned()).await;
        drain.step(pending(), || "calls were running".to_owned()).await;
        drain.step(pending(), || "streams were open".to_owned()).await;
        let mut reached = false;
        drain.step(infallible_step(async { reached = true }), || "nothing".to_owned()).await;
        assert_eq!(begin.elapsed(), Duration::from_secs(20), "once, and not once for each step");
        assert!(reached, "what is ready is done even then");
        assert_eq!(drain.end().unwrap_err().to_string(), "calls were running at the end of drain_timeout");
    }

    #[tokio::test]
    async fn a_task_that_panics_is_reported_by_name() {
        let tasks = TaskTracker::new();
        let mut long = LongTask::new("ingest", tasks.spawn(async { panic!("on purpose") }));
        let message = long.ended_early().await.to_string();
        assert!(message.starts_with("the ingest ended badly") && message.contains("on purpose"), "{message}");
        long.ended().await.expect("its end was reported");
        let mut long = LongTask::new("ingest", tasks.spawn(async { Ok(()) }));
        assert_eq!(long.ended_early().await.to_string(), "the ingest ended by itself");
    }
}
