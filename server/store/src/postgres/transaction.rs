//! The transaction of a group of commits, and what became of one that had no answer.
//!
//! All statements are sent at once. PostgreSQL answers the `COMMIT` of a failed transaction with success (it says `ROLLBACK`), so a group is
//! acknowledged only if every statement before it succeeded. It answers a cancelled wait for a standby with success and a warning, so
//! a warning counts as no answer.

use std::collections::BTreeMap;

use tokio_postgres::{Statement, error::SqlState};

use super::{
    connection::Connection,
    errors::{PostgresError, PostgresResult},
    lease,
};
use crate::{committing::CommitJob, kv::WriteOp};

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
/// Fails with a division by zero unless the epoch is ours. The lock makes a takeover wait for the end of the transaction.
const FENCE: &str = "SELECT 1 / count(*) FROM \
     (SELECT 1 FROM plimsoll.lease WHERE id = 1 AND epoch = $1 FOR SHARE) AS ours";
/// This and the next two write only if [`FENCE`] has locked a row in the same transaction: if `BEGIN` alone failed, they do nothing.
const INSERT_COMMIT_NUMBER: &str = "INSERT INTO plimsoll.feed (epoch, n, at, applied) SELECT $1::bigint, $2::bigint, now(), true \
     WHERE pg_current_xact_id_if_assigned() IS NOT NULL";
const PUT: &str = "INSERT INTO plimsoll.entry (k, version, v) \
     SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[]) \
     WHERE pg_current_xact_id_if_assigned() IS NOT NULL \
     ON CONFLICT (k) DO UPDATE SET version = excluded.version, v = excluded.v";
const DELETE: &str = "DELETE FROM plimsoll.entry WHERE k = ANY ($1::bytea[]) \
     AND pg_current_xact_id_if_assigned() IS NOT NULL";
/// Gives a number up, unless the commit with this number is there. Waits for the end of a transaction that has inserted it.
const GIVE_UP: &str = "INSERT INTO plimsoll.feed (epoch, n, at, applied) VALUES ($1, $2, now(), false) \
     ON CONFLICT (epoch, n) DO NOTHING";
const IS_APPLIED: &str = "SELECT applied FROM plimsoll.feed WHERE epoch = $1 AND n = $2";
/// Removes some of the oldest numbers, never the last one.
const DELETE_OLD_COMMIT_NUMBERS: &str = "DELETE FROM plimsoll.feed AS f USING \
     (SELECT epoch, n FROM plimsoll.feed ORDER BY epoch, n LIMIT 10000) AS oldest \
     WHERE f.epoch = oldest.epoch AND f.n = oldest.n AND f.n < $1 AND f.at < now() - interval '1 hour'";

/// Needs room for 16 values and their keys, and leaves nothing: no kind of key begins with ff.
const PROBE_ROOM: &str = "BEGIN; INSERT INTO plimsoll.entry \
     SELECT '\\xff'::bytea || int4send(n), 0, convert_to(repeat('0', 4000), 'UTF8') FROM generate_series(1, 16) AS n; ROLLBACK";

/// A connection that writes.
pub(super) struct WriterSession {
    pub(super) connection: Connection,
    fence: Statement,
    number: Statement,
    put: Statement,
    delete: Statement,
    give_up: Statement,
    is_applied: Statement,
}

/// What a group of commits writes: of several writes to a key, the last one.
#[derive(Debug, Default)]
pub(super) struct GroupWrites<'a> {
    /// Number of the last commit of the group.
    pub(super) last: i64,
    keys: Vec<&'a [u8]>,
    versions: Vec<i64>,
    values: Vec<&'a [u8]>,
    deletes: Vec<&'a [u8]>,
}

impl<'a> GroupWrites<'a> {
    /// The writes of a group that follows the commit `sequence`.
    pub(super) fn of(group: &'a [CommitJob], sequence: i64) -> Self {
        let mut writes = BTreeMap::new();
        for (version, job) in (sequence + 1..).zip(group) {
            writes.extend(job.batch.writes.iter().map(|write| (write.key().as_slice(), (version, write))));
        }
        let last = sequence.saturating_add_unsigned(group.len() as u64);
        let mut all = Self { last, ..Self::default() };
        for (key, (version, write)) in writes {
            if matches!(write, WriteOp::Delete { .. }) {
                all.deletes.push(key);
                continue;
            }
            all.keys.push(key);
            all.versions.push(version);
            all.values.push(write.value());
        }
        all
    }
}

impl WriterSession {
    /// Prepares the statements.
    pub(super) async fn prepare(connection: Connection) -> PostgresResult<Self> {
        let client = &connection.client;
        Ok(Self {
            fence: client.prepare(FENCE).await?,
            number: client.prepare(INSERT_COMMIT_NUMBER).await?,
            put: client.prepare(PUT).await?,
            delete: client.prepare(DELETE).await?,
            give_up: client.prepare(GIVE_UP).await?,
            is_applied: client.prepare(IS_APPLIED).await?,
            connection,
        })
    }

    /// Commits a group. After an error its fate is unknown: see [`Self::settle`].
    pub(super) async fn apply(&self, epoch: i64, writes: &GroupWrites<'_>) -> PostgresResult<()> {
        let (client, warnings) = (&self.connection.client, self.connection.warnings());
        let put = async {
            if writes.keys.is_empty() {
                return Ok(0);
            }
            client.execute(&self.put, &[&writes.keys, &writes.versions, &writes.values]).await
        };
        let delete = async {
            if writes.deletes.is_empty() {
                return Ok(0);
            }
            client.execute(&self.delete, &[&writes.deletes]).await
        };
        // in this order they are sent: each sends as it is first polled
        let (begun, fenced, numbered, stored, deleted, committed) = tokio::join!(
            biased;
            client.batch_execute(BEGIN),
            async { client.execute(&self.fence, &[&epoch]).await },
            async { client.execute(&self.number, &[&epoch, &writes.last]).await },
            put,
            delete,
            client.batch_execute("COMMIT"),
        );
        begun?;
        self.check_fence(epoch, fenced).await?;
        numbered.and(stored).and(deleted)?;
        committed?;
        self.check_warnings(warnings)
    }

    /// Whether the commit `number`, which had no answer, is there and is replicated. If it is not, it never will be: its number is
    /// taken, so a transaction that arrives late fails.
    /// Errors: nothing is known yet; the call may be repeated.
    pub(super) async fn settle(&self, epoch: i64, number: i64) -> PostgresResult<bool> {
        let (client, warnings) = (&self.connection.client, self.connection.warnings());
        let (begun, fenced, given_up, applied, committed) = tokio::join!(
            biased;
            client.batch_execute(BEGIN),
            async { client.execute(&self.fence, &[&epoch]).await },
            async { client.execute(&self.give_up, &[&epoch, &number]).await },
            async { client.query_one(&self.is_applied, &[&epoch, &number]).await },
            client.batch_execute("COMMIT"),
        );
        begun?;
        self.check_fence(epoch, fenced).await?;
        given_up?;
        let applied = applied?.get(0);
        committed?;
        // the fence has locked a row, so this commit was written and replicated behind the one in question
        self.check_warnings(warnings)?;
        Ok(applied)
    }

    /// Fails if the database has no room, so that a full one is not taken for writable.
    pub(super) async fn probe_room(&self) -> PostgresResult<()> {
        Ok(self.connection.client.batch_execute(PROBE_ROOM).await?)
    }

    /// Removes numbers that are older than an hour.
    pub(super) async fn prune(&self, last: i64) -> PostgresResult<()> {
        self.connection.client.execute(DELETE_OLD_COMMIT_NUMBERS, &[&last]).await?;
        Ok(())
    }

    async fn check_fence(
        &self,
        epoch: i64,
        fenced: Result<u64, tokio_postgres::Error>,
    ) -> PostgresResult<()> {
        match fenced {
            Err(error) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => {
                Err(lease::taken(&self.connection.client, epoch).await)
            }
            fenced => Ok(fenced.map(drop)?),
        }
    }

    fn check_warnings(&self, before: u64) -> PostgresResult<()> {
        if self.connection.warnings() == before {
            return Ok(());
        }
        let text =
            "the database warned as it committed, so a standby may not have the commit; it is asked again";
        Err(PostgresError::Passing(text.to_owned()))
    }
}
