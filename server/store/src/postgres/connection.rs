//! One connection to the database, which counts the warnings that the server sends.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use tokio_postgres::{AsyncMessage, Client};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::{
    errors::{PostgresError, describe},
    settings::Target,
};

/// Functions of the server with warnings that say nothing about a commit: that old transactions should be vacuumed soon.
const HARMLESS: [&str; 2] = ["GetNewTransactionId", "GetNewMultiXactId"];

/// A connection. It ends when this value is dropped, whatever the server is doing.
pub(super) struct Connection {
    pub(super) client: Client,
    warnings: Arc<AtomicU64>,
    _task: AbortOnDropHandle<()>,
}

impl Connection {
    /// Connects.
    pub(super) async fn open(target: &Target) -> Result<Self, PostgresError> {
        let connected = target.config.connect(target.tls.clone()).await;
        let (client, mut connection) = connected.map_err(|error| PostgresError::Passing(describe(&error)))?;
        let warnings = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&warnings);
        // The task reads a warning before it passes on the answer that follows it. The session asks for no lesser message.
        let drive = async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                count_warning(&counted, &message);
            }
        };
        let task = AbortOnDropHandle::new(TaskTracker::new().spawn(drive));
        Ok(Self { client, warnings, _task: task })
    }

    /// How many warnings the server has sent.
    pub(super) fn warnings(&self) -> u64 {
        self.warnings.load(SeqCst)
    }
}

fn count_warning(warnings: &AtomicU64, message: &AsyncMessage) {
    if let AsyncMessage::Notice(notice) = message {
        let is_harmless = notice.routine().is_some_and(|routine| HARMLESS.contains(&routine));
        if is_harmless {
            tracing::debug!(message = notice.message(), "the database warns");
            return;
        }
        warnings.fetch_add(1, SeqCst);
        tracing::warn!(message = notice.message(), "the database warns");
    }
}
