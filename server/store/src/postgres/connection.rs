//! One connection to the primary, which counts the warnings that the server sends.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use deadpool_postgres::ClientWrapper;
use tokio::{task::JoinSet, time::timeout};
use tokio_postgres::{AsyncMessage, Client, SimpleQueryMessage};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::{
    errors::{PostgresError, PostgresResult, describe},
    primary::Primary,
    settings::{Target, host_name},
};

/// How long one host may take: one that accepts connections and is frozen must not keep the others from being used, nor the holder of the
/// lease from its beat.
const HOST_WITHIN: Duration = Duration::from_secs(3);

/// How often a server with several hosts in `store_url` looks whether another one was promoted.
const SEARCH_INTERVAL: Duration = Duration::from_secs(4);

/// Functions of the server with warnings that say nothing about a commit: that old transactions should be vacuumed soon.
const IGNORED_WARNING_ROUTINES: [&str; 2] = ["GetNewTransactionId", "GetNewMultiXactId"];

/// Whether the server is a standby, the identity of its cluster, and the timeline as PostgreSQL names its files: 8 digits.
const SELECT_CLUSTER_POSITION: &str = "SELECT pg_is_in_recovery(), (SELECT system_identifier FROM pg_control_system()), \
     CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END";
const STANDBY: &str =
    "the database is a standby, which takes no writes: name the primary in store_url, or both";

/// A connection. It ends when this value is dropped, whatever the server is doing.
pub(super) struct Connection {
    pub(super) client: Client,
    /// Where it leads.
    pub(super) primary: Primary,
    warnings: Arc<AtomicU64>,
    _task: AbortOnDropHandle<()>,
}

impl Connection {
    /// Connects to the primary. Of several, the one with the latest timeline counts.
    /// Errors: there is none that may be used; the text has what is wrong with each host.
    pub(super) async fn open(target: &Target) -> PostgresResult<Self> {
        let mut tries = JoinSet::new();
        for host in 0..target.hosts.len() {
            let target = target.clone();
            tries.spawn(async move { (host, try_host(&target, host).await) });
        }
        let mut results = tries.join_all().await;
        results.sort_unstable_by_key(|(host, _)| *host);
        let (mut best, mut errors) = (None::<Self>, Vec::new());
        for (_, result) in results {
            match result {
                Ok(found)
                    if best.as_ref().is_none_or(|best| found.primary.timeline > best.primary.timeline) =>
                {
                    best = Some(found);
                }
                Ok(_older) => {}
                Err(error) => errors.push(error),
            }
        }
        let Some(connection) = best else { return Err(join_errors(target, &errors)) };
        target.last_primary.set(connection.primary.clone());
        Ok(connection)
    }

    /// Waits for `work`. Meanwhile looks again and again whether another host was promoted, and remembers it as the last primary.
    pub(super) async fn search_while<T>(target: &Target, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            if let Ok(done) = timeout(SEARCH_INTERVAL, &mut work).await {
                return done;
            }
            if target.hosts.len() > 1 {
                tokio::select! {
                    done = &mut work => return done,
                    _found = Self::open(target) => {}
                }
            }
        }
    }

    /// Connects to one host, and checks that it is a primary that may be used.
    async fn open_host(target: &Target, host: usize) -> PostgresResult<Self> {
        let connected = target.connect(host).await;
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
        let primary = check_primary(target, host, &client).await?;
        Ok(Self { client, primary, warnings, _task: task })
    }

    /// The same for the statements that read. Warnings are no longer counted.
    pub(super) fn into_reader(self) -> ClientWrapper {
        let Self { client, _task: task, .. } = self;
        ClientWrapper::new(client, task.detach())
    }

    /// How many warnings the server has sent.
    pub(super) fn warnings(&self) -> u64 {
        self.warnings.load(SeqCst)
    }
}

async fn try_host(target: &Target, host: usize) -> PostgresResult<Connection> {
    let late = || PostgresError::Passing(format!("no answer within {} s", HOST_WITHIN.as_secs()));
    let trying = timeout(HOST_WITHIN, Connection::open_host(target, host));
    trying.await.unwrap_or_else(|_elapsed| Err(late()))
}

/// Checks that a connection leads to a primary that may be used.
pub(super) async fn check_primary(target: &Target, host: usize, client: &Client) -> PostgresResult<Primary> {
    // without a prepared statement, which some poolers do not know
    let answer = client.simple_query(SELECT_CLUSTER_POSITION).await?;
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let text = |column| row.and_then(|row| row.get(column)).map(str::to_owned);
    let (Some(cluster), Some(timeline)) = (text(1), text(2)) else {
        return Err(PostgresError::Passing(STANDBY.to_owned()));
    };
    let primary = Primary { host, cluster, timeline };
    target.last_primary.check(&primary)?;
    Ok(primary)
}

/// One error for all hosts. It is lasting only if each one is.
fn join_errors(target: &Target, errors: &[PostgresError]) -> PostgresError {
    if let [only] = errors {
        return only.clone();
    }
    let texts = target.hosts.iter().zip(errors).map(|(host, error)| format!("{}: {error}", host_name(host)));
    let text = texts.collect::<Vec<_>>().join("; ");
    if errors.iter().all(|error| matches!(error, PostgresError::Lasting(_))) {
        return PostgresError::Lasting(text);
    }
    PostgresError::Passing(text)
}

fn count_warning(warnings: &AtomicU64, message: &AsyncMessage) {
    if let AsyncMessage::Notice(notice) = message {
        let is_harmless = notice.routine().is_some_and(|routine| IGNORED_WARNING_ROUTINES.contains(&routine));
        if is_harmless {
            tracing::debug!(message = notice.message(), "the database warns");
            return;
        }
        warnings.fetch_add(1, SeqCst);
        tracing::warn!(message = notice.message(), "the database warns");
    }
}
