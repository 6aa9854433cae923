//! Which server holds the lease, and when a server that waits may take it.
//!
//! The holder raises a number, its beat, once a second. A server that waits takes the lease when the beat has stood still for
//! [`STILL_FOR`] by its own clock, or when the holder has given it up. Nothing durable rests on this: each commit checks the epoch itself,
//! so a holder that was only slow commits nothing any more.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Client, error::SqlState};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::{
    connection::Connection,
    errors::{PostgresError, PostgresResult},
    settings::Target,
    shared::{DatabaseStatus, STILL_FOR},
};
use crate::kv::StoreMode;

/// Interval between two beats of the holder.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// How long a new connection for the beat may take: two addresses that do not answer may come before the one that does.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long one beat may take.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two looks of a server that waits.
pub(super) const LEASE_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How much of the time between two looks counts: if this server was stopped itself, the holder may be well.
const COUNTED_GAP: Duration = Duration::from_secs(1);

/// The beat of a holder that has given the lease up.
const GIVEN_UP: i64 = -1;

const SELECT_LEASE: &str = "SELECT lease.epoch, lease.holder, beat.n \
     FROM plimsoll.lease AS lease LEFT JOIN plimsoll.beat AS beat ON beat.id = 1 AND beat.epoch = lease.epoch WHERE lease.id = 1";
/// Writes nothing unless the epoch is still the holder's. Returns the database's time.
const UPSERT_HEARTBEAT: &str = "INSERT INTO plimsoll.beat AS last (id, epoch, n) \
     SELECT 1, epoch, 1 FROM plimsoll.lease WHERE id = 1 AND epoch = $1 \
     ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, \
       n = CASE WHEN last.epoch <> excluded.epoch THEN 1 WHEN last.n < 0 THEN last.n ELSE last.n + 1 END \
     RETURNING floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
const GIVE_UP: &str = "INSERT INTO plimsoll.beat (id, epoch, n) SELECT 1, epoch, $2::bigint FROM plimsoll.lease WHERE id = 1 AND epoch = $1 \
     ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, n = excluded.n";
/// Neither needs to survive a failover, and both must not wait for a standby that is away.
const WITHOUT_STANDBY: &str = "SET synchronous_commit = off";

/// The lease, as a server that waits finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeaseState {
    pub(super) epoch: i64,
    /// Address and start of the holder, for people.
    pub(super) holder: String,
    /// `None` if the holder has not beaten yet.
    beat: Option<i64>,
}

impl LeaseState {
    /// Reads the lease; `None` if no server ever had it.
    pub(super) async fn read(client: &Client) -> PostgresResult<Option<Self>> {
        let row = match client.query_opt(SELECT_LEASE, &[]).await {
            // who takes the lease first makes the tables
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => return Ok(None),
            row => row?,
        };
        Ok(row.map(|row| Self { epoch: row.get(0), holder: row.get(1), beat: row.get(2) }))
    }
}

/// What a server that waits has seen of the lease.
#[derive(Debug, Default)]
pub(super) struct LeaseWatch {
    last: Option<(LeaseState, Instant)>,
    still: Duration,
}

impl LeaseWatch {
    /// Notes what a look found at `now`; returns whether the lease may be taken.
    pub(super) fn is_free(&mut self, found: LeaseState, now: Instant) -> bool {
        let is_given_up = found.beat == Some(GIVEN_UP);
        self.still = match &self.last {
            Some((last, at)) if *last == found => self.still + now.duration_since(*at).min(COUNTED_GAP),
            _ => Duration::ZERO,
        };
        self.last = Some((found, now));
        is_given_up || self.still >= STILL_FOR
    }
}

/// The holder's beat: a task with a connection of its own, so that a slow commit does not delay it. It ends when this value is dropped,
/// or when another server has the lease.
pub(super) struct HeartbeatTask(AbortOnDropHandle<()>);

impl HeartbeatTask {
    /// Begins to beat.
    pub(super) fn begin(target: Target, epoch: i64, shared: Arc<DatabaseStatus>) -> Self {
        Self(AbortOnDropHandle::new(TaskTracker::new().spawn(async move {
            Connection::search_while(&target, keep_beating(&target, epoch, shared)).await;
        })))
    }

    /// Ends the beat, and gives the lease up, so that a server that waits takes it at once.
    pub(super) async fn give_up(&mut self, client: &Client, epoch: i64) -> PostgresResult<()> {
        let Self(task) = self;
        task.abort();
        // a task that was aborted has no result
        let _ended = task.await;
        client.batch_execute(WITHOUT_STANDBY).await?;
        client.execute(GIVE_UP, &[&epoch, &GIVEN_UP]).await?;
        Ok(())
    }
}

/// Beats until another server has the lease.
async fn keep_beating(target: &Target, epoch: i64, shared: Arc<DatabaseStatus>) {
    let mut connection = None;
    loop {
        connection = connection.filter(|open: &Connection| !target.last_primary.has_replaced(&open.primary));
        if connection.is_none() {
            connection = timeout(CONNECT_WITHIN, connect(target)).await.ok().and_then(Result::ok);
        }
        let begin = Instant::now();
        let beat = match &connection {
            Some(connection) => timeout(HEARTBEAT_TIMEOUT, beat(&connection.client, epoch)).await,
            None => Ok(Ok(0)),
        };
        match beat {
            Ok(Err(PostgresError::Taken(reason))) => {
                tracing::error!(reason, "the lease is lost");
                return shared.status.set_mode(StoreMode::Taken { reason });
            }
            Ok(Ok(database_ms)) if connection.is_some() => shared.note_beat(begin.into_std(), database_ms),
            // the commits say what is wrong with the database
            _ => connection = None,
        }
        sleep(HEARTBEAT_INTERVAL).await;
    }
}

/// Opens a connection for the beat.
async fn connect(target: &Target) -> PostgresResult<Connection> {
    let connection = Connection::open(target).await?;
    connection.client.batch_execute(WITHOUT_STANDBY).await?;
    Ok(connection)
}

/// Beats once, and returns the database's time, milliseconds since 1970. Fails with [`PostgresError::Taken`] if the lease is not ours any more.
async fn beat(client: &Client, epoch: i64) -> PostgresResult<i64> {
    match client.query_opt(UPSERT_HEARTBEAT, &[&epoch]).await? {
        Some(row) => Ok(row.get(0)),
        None => Err(taken(client, epoch).await),
    }
}

/// The error of a server that finds that its lease is not its own any more.
pub(super) async fn taken(client: &Client, epoch: i64) -> PostgresError {
    let now = match LeaseState::read(client).await {
        Ok(Some(found)) if found.epoch < epoch => {
            return PostgresError::Taken(format!(
                "the database came back from a time before this server took the store, so commits may be lost (epoch {}, and {epoch} was \
                 held): bring back the primary that has them; or, to go on with what is there, restart this server and, if it refuses an old copy, \
                 remove plimsoll.database on each server",
                found.epoch
            ));
        }
        Ok(Some(LeaseState { epoch, holder, .. })) => format!("it has epoch {epoch}, taken by {holder}"),
        Ok(None) => "its row in plimsoll.lease is gone".to_owned(),
        Err(error) => error.to_string(),
    };
    PostgresError::Taken(format!(
        "another server has taken the store of this database, so this one writes no more (lease of epoch {epoch} lost: {now}): restart this \
         one, and it waits until the store is free"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first look, in seconds, that takes the lease, if the beat is as `beat` says at each half second.
    async fn taken_at(beat: impl Fn(u64) -> i64, pause_at: u64) -> Option<u64> {
        let (mut watch, begin) = (LeaseWatch::default(), Instant::now());
        for look in 0..60 {
            let found = LeaseState { epoch: 1, holder: "h".to_owned(), beat: Some(beat(look)) };
            if watch.is_free(found, Instant::now()) {
                return Some(begin.elapsed().as_secs());
            }
            tokio::time::advance(if look == pause_at {
                Duration::from_secs(30)
            } else {
                LEASE_POLL_INTERVAL
            })
            .await;
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_or_released_lease_is_taken_over() {
        let never = u64::MAX;
        assert_eq!(taken_at(|look| (look / 2).cast_signed(), never).await, None, "it beats");
        assert_eq!(taken_at(|look| (look / 11).cast_signed(), never).await, None, "slowly");
        assert_eq!(taken_at(|_look| 7, never).await, Some(6));
        assert_eq!(taken_at(|look| look.min(10).cast_signed(), never).await, Some(11));
        assert_eq!(taken_at(|look| if look < 4 { 1 } else { GIVEN_UP }, never).await, Some(2));
        let frozen_itself = taken_at(|look| i64::from(look > 3), 2).await;
        assert_eq!(frozen_itself, Some(37), "a pause of its own counts as one second at most");
    }
}
