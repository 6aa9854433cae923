//! Opens the store: connects, creates what is missing, waits while another server has the store, and takes the lease.

use std::{fmt, time::Duration};

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    checks::{check_server, check_unpooled},
    connection::Connection,
    errors::{PostgresError, PostgresResult},
    kept_position::DatabasePosition,
    lease::{LEASE_POLL_INTERVAL, LeaseState, LeaseWatch},
    schema::{self, HeldStore},
    settings::Target,
    transaction::WriterSession,
};

/// How long connecting and taking the lease may take, waits for locks included.
pub(super) const OPEN_WITHIN: Duration = Duration::from_mins(1);
/// How long a server that waits may take for the lease before it looks for the primary again: an old one whose standby was promoted never
/// confirms it.
const TAKE_WITHIN: Duration = Duration::from_secs(10);
/// How long one look at the lease may take.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// What to do if another server holds the lease.
pub(super) enum Takeover {
    /// It loses the store.
    AtOnce,
    /// This server waits for its end.
    WhenFree {
        /// Gets the address of the other server.
        on_holder: Box<dyn Fn(&str) + Send>,
        /// Ends the wait. If the lease is just being taken, it is taken all the same, and the caller must give it up.
        ends: CancellationToken,
    },
}

impl Takeover {
    /// A step that waits, until it is to end.
    async fn wait<T>(&self, step: impl Future<Output = PostgresResult<T>>) -> PostgresResult<T> {
        let Self::WhenFree { ends, .. } = self else { return step.await };
        let stopped = || Err(PostgresError::lasting("stopped before the store was open"));
        ends.run_until_cancelled(step).await.unwrap_or_else(stopped)
    }
}

impl fmt::Debug for Takeover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtOnce => "AtOnce",
            Self::WhenFree { .. } => "WhenFree",
        })
    }
}

/// Opens the store; returns it with the connection that writes.
pub(super) async fn open(target: &Target, takeover: Takeover) -> PostgresResult<(HeldStore, WriterSession)> {
    let mut connection = takeover.wait(in_time(connect(target))).await?;
    loop {
        let seen = match &takeover {
            Takeover::AtOnce => None,
            Takeover::WhenFree { on_holder, .. } => {
                let waiting = Box::pin(takeover.wait(wait_until_free(target, &mut connection, on_holder)));
                let seen = Connection::search_while(target, waiting).await?;
                if was_replaced(target, &connection).await {
                    continue;
                }
                Some(seen)
            }
        };
        let limit = if seen.is_some() { TAKE_WITHIN } else { OPEN_WITHIN };
        match within(limit, schema::take_lease(&mut connection.client, seen)).await {
            Ok(None) => {}
            Ok(Some(held)) => {
                target.kept_position.note(held.position(&connection.primary));
                return Ok((held, in_time(WriterSession::prepare(connection)).await?));
            }
            Err(error @ PostgresError::Passing(_)) if seen.is_some() => {
                tracing::warn!(%error, "the store cannot be taken yet");
                connection = takeover.wait(reconnect(target)).await?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Connects, and checks server and schema.
async fn connect(target: &Target) -> PostgresResult<Connection> {
    let mut connection = Box::pin(connect_checked(target)).await?;
    check_position(target, &connection).await?;
    schema::prepare(&mut connection.client).await?;
    Ok(connection)
}

/// Refuses a database that is older than one that this server has seen, and keeps how far it has come.
async fn check_position(
    target: &Target,
    Connection { client, primary, .. }: &Connection,
) -> PostgresResult<()> {
    let found = schema::read_position(client).await?;
    let found = found.map(|(store, last)| DatabasePosition::at(primary, store, last));
    target.kept_position.check(found.as_ref())?;
    if let Some(found) = found {
        target.kept_position.note(found);
    }
    Ok(())
}

/// Connects, and checks the server.
pub(super) async fn connect_checked(target: &Target) -> PostgresResult<Connection> {
    let (connection, probe) = (Connection::open(target).await?, Connection::open(target).await?);
    check_unpooled(&connection.client, &probe.client).await?;
    check_server(&connection.client).await?;
    Ok(connection)
}

/// Connects again, as often as needed. Fails only if waiting does not help.
async fn reconnect(target: &Target) -> PostgresResult<Connection> {
    let mut last = None;
    loop {
        match in_time(connect(target)).await {
            Err(error @ PostgresError::Passing(_)) => {
                if last.as_ref() != Some(&error) {
                    tracing::warn!(%error, "a server that waits for the store cannot look at it");
                }
                last = Some(error);
            }
            connected => return connected,
        }
        sleep(LEASE_POLL_INTERVAL).await;
    }
}

/// Waits until the lease may be taken; returns its epoch, 0 if there was never a lease. Goes on while the database is away.
async fn wait_until_free(
    target: &Target,
    connection: &mut Connection,
    on_holder: &dyn Fn(&str),
) -> PostgresResult<i64> {
    let (mut watch, mut reported) = (LeaseWatch::default(), None);
    loop {
        if target.last_primary.has_replaced(&connection.primary) {
            watch = LeaseWatch::default();
            *connection = reconnect(target).await?;
        }
        let look = timeout(LOOK_WITHIN, async {
            check_position(target, connection).await?;
            LeaseState::read(&connection.client).await
        })
        .await;
        match look {
            Ok(Ok(None)) => return Ok(0),
            Ok(Ok(Some(found))) => {
                let (epoch, holder) = (found.epoch, found.holder.clone());
                if watch.is_free(found, Instant::now()) {
                    return Ok(epoch);
                }
                if reported.replace(epoch) != Some(epoch) {
                    on_holder(&holder);
                }
            }
            failed => {
                if let Ok(Err(error)) = failed {
                    tracing::warn!(%error, "a look at the lease failed");
                }
                // a heartbeat that did not change while this server did not poll proves nothing about the holder
                watch = LeaseWatch::default();
                *connection = reconnect(target).await?;
            }
        }
        sleep(LEASE_POLL_INTERVAL).await;
    }
}

/// Looks whether another host was promoted: at an old primary the beat stands still, and its holder may be well at the new one.
async fn was_replaced(target: &Target, connection: &Connection) -> bool {
    if target.hosts.len() > 1 {
        // what is wrong with the hosts is said when the lease is taken
        drop(Connection::open(target).await);
    }
    target.last_primary.has_replaced(&connection.primary)
}

/// Bounds a step of the opening.
pub(super) async fn in_time<T>(step: impl Future<Output = PostgresResult<T>>) -> PostgresResult<T> {
    within(OPEN_WITHIN, step).await
}

async fn within<T>(limit: Duration, step: impl Future<Output = PostgresResult<T>>) -> PostgresResult<T> {
    let late = |_elapsed| {
        let seconds = limit.as_secs();
        let text = "another session may hold a lock on the tables of the schema plimsoll, as a restore does until its end (look into \
                    pg_stat_activity), or a standby of synchronous_standby_names is away";
        Err(PostgresError::Passing(format!("not open within {seconds} s; {text}")))
    };
    timeout(limit, step).await.unwrap_or_else(late)
}
