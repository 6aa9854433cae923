//! Which server holds the lease, and when a server that waits may take it.
//!
//! The holder raises a number, its beat, once a second. A server that waits takes the lease when the beat has stood still for
//! [`STILL_FOR`] by its own clock, or when the holder has given it up. Nothing durable rests on this: each commit checks the epoch itself,
//! so a holder that was only slow commits nothing any more.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Client;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::{connection::Connection, errors::PostgresError, settings::Target, shared::SharedStatus};
use crate::kv::StoreMode;

/// Interval between two beats of the holder.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// How long one beat may take, with a new connection where one is needed.
const BEAT_WITHIN: Duration = Duration::from_secs(2);
/// Interval between two looks of a server that waits.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// For how long the beat must have stood still: several beats, and one that had to connect again.
const STILL_FOR: Duration = Duration::from_secs(6);
/// How much of the time between two looks counts: if this server was stopped itself, the holder may be well.
const COUNTED_GAP: Duration = Duration::from_secs(1);

/// The beat of a holder that has given the lease up.
const GIVEN_UP: i64 = -1;

const LOOK: &str = "SELECT lease.epoch, lease.holder, beat.n \
     FROM plimsoll.lease AS lease LEFT JOIN plimsoll.beat AS beat ON beat.id = 1 AND beat.epoch = lease.epoch WHERE lease.id = 1";
/// Writes nothing unless the epoch is still the holder's.
const BEAT: &str = "INSERT INTO plimsoll.beat AS last (id, epoch, n) \
     SELECT 1, epoch, 1 FROM plimsoll.lease WHERE id = 1 AND epoch = $1 \
     ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, \
       n = CASE WHEN last.epoch = excluded.epoch THEN last.n + 1 ELSE 1 END";
const GIVE_UP: &str = "UPDATE plimsoll.beat SET n = $2 WHERE id = 1 AND epoch = $1";

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
    pub(super) async fn read(client: &Client) -> Result<Option<Self>, PostgresError> {
        let row = client.query_opt(LOOK, &[]).await?;
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
pub(super) struct Beat(AbortOnDropHandle<()>);

impl Beat {
    /// Begins to beat.
    pub(super) fn begin(target: Target, epoch: i64, shared: Arc<SharedStatus>) -> Self {
        Self(AbortOnDropHandle::new(TaskTracker::new().spawn(keep_beating(target, epoch, shared))))
    }

    /// Ends the beat, and gives the lease up, so that a server that waits takes it at once.
    pub(super) async fn give_up(&mut self, client: &Client, epoch: i64) -> Result<(), PostgresError> {
        let Self(task) = self;
        task.abort();
        // a beat under way would take the lease back; a task that was aborted has no result
        let _ended = task.await;
        client.execute(GIVE_UP, &[&epoch, &GIVEN_UP]).await?;
        Ok(())
    }
}

/// Beats until another server has the lease.
async fn keep_beating(target: Target, epoch: i64, shared: Arc<SharedStatus>) {
    let mut connection = None;
    loop {
        let beat = timeout(BEAT_WITHIN, beat(&target, &mut connection, epoch)).await;
        if let Ok(Err(PostgresError::Taken(reason))) = beat {
            tracing::error!(reason, "the lease is lost");
            return shared.set_mode(StoreMode::Taken { reason });
        }
        if !matches!(beat, Ok(Ok(()))) {
            // the commits say what is wrong with the database
            connection = None;
        }
        sleep(BEAT_EVERY).await;
    }
}

/// Beats once. Fails with [`PostgresError::Taken`] if the lease is not ours any more.
async fn beat(target: &Target, connection: &mut Option<Connection>, epoch: i64) -> Result<(), PostgresError> {
    if connection.is_none() {
        let new = Connection::open(target).await?;
        // a beat need not survive a failover, and must not wait for a standby that is away
        new.client.batch_execute("SET synchronous_commit = off").await?;
        *connection = Some(new);
    }
    let Some(connection) = connection else { return Ok(()) };
    match connection.client.execute(BEAT, &[&epoch]).await? {
        0 => Err(taken(&connection.client, epoch).await),
        _ => Ok(()),
    }
}

/// The error of a server that finds that its lease is not its own any more.
pub(super) async fn taken(client: &Client, epoch: i64) -> PostgresError {
    let now = match LeaseState::read(client).await {
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
            tokio::time::advance(if look == pause_at { Duration::from_secs(30) } else { LOOK_EVERY }).await;
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_taken_when_its_beat_stands_still_or_when_it_is_given_up() {
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
