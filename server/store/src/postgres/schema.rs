//! The tables of a store: makes them in numbered steps, and opens the store that they hold.
//!
//! The server that takes the lease makes the steps that are missing, in the same transaction, which locks the row of `identity`. So the
//! tables change only when the server that wrote before writes no more, and servers that start together make each step once.

use tokio_postgres::{Client, GenericClient, Row, Transaction, error::SqlState};
use ulid::Ulid;

use super::{
    errors::{PostgresError, PostgresResult},
    kept_position::DatabasePosition,
    primary::Primary,
};
use crate::{kv::StoreIdentity, sled::FORMAT_VERSION};

/// How often the first table is tried, while another server makes it.
const MAX_FIRST_TABLE_TRIES: usize = 5;

/// Which tables the schema has, and whether ours is among them.
const SELECT_SCHEMA_STATE: &str = "SELECT to_regnamespace('plimsoll') IS NOT NULL AS has_schema, count(c.oid) AS tables, \
     count(a.attname) AS ours \
     FROM pg_catalog.pg_class AS c \
     LEFT JOIN pg_catalog.pg_attribute AS a \
       ON a.attrelid = c.oid AND c.relname = 'identity' AND a.attname = 'schema_step' \
     WHERE c.relnamespace = to_regnamespace('plimsoll') AND c.relkind IN ('r', 'p', 'v', 'm', 'f')";

const CREATE_IDENTITY: &str = "CREATE TABLE plimsoll.identity (\
     id smallint PRIMARY KEY CHECK (id = 1), schema_step integer NOT NULL, format integer NOT NULL, store_id bytea NOT NULL)";

/// The steps, in order. A released step never changes; a new one adds to the schema.
const STEPS: [&str; 3] = [
    "\
     CREATE TABLE plimsoll.entry (k bytea PRIMARY KEY, version bigint NOT NULL, v bytea NOT NULL) \
       WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);\
     ALTER TABLE plimsoll.entry ALTER COLUMN v SET STORAGE EXTERNAL;\
     CREATE TABLE plimsoll.feed (epoch bigint, n bigint, at timestamptz NOT NULL, applied boolean NOT NULL, body bytea, \
       PRIMARY KEY (epoch, n)) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);\
     CREATE TABLE plimsoll.lease (id smallint PRIMARY KEY CHECK (id = 1), epoch bigint NOT NULL, holder text NOT NULL) \
       WITH (fillfactor = 10)",
    "CREATE TABLE plimsoll.beat (id smallint PRIMARY KEY CHECK (id = 1), epoch bigint NOT NULL, n bigint NOT NULL) \
       WITH (fillfactor = 10)",
    "CREATE TABLE plimsoll.lost (epoch bigint NOT NULL, at timestamptz NOT NULL, commits bigint NOT NULL)",
];

/// Number of tables that all steps make, with that of the identity.
pub(super) const TABLES: i64 = 6;

const SET_STEP: &str = "UPDATE plimsoll.identity SET schema_step = $1";

/// Raises the epoch above every one that was ever used, also where the row was removed or edited.
const TAKE_LEASE: &str = "INSERT INTO plimsoll.lease AS held (id, epoch, holder) \
     SELECT 1, coalesce(max(epoch), 0) + 1, \
       coalesce(host(inet_client_addr()), 'the same machine') || ', since ' || now()::timestamptz(0) FROM plimsoll.feed \
     ON CONFLICT (id) DO UPDATE SET epoch = greatest(held.epoch + 1, excluded.epoch), holder = excluded.holder \
     RETURNING epoch";

/// A start without commits leaves a row as well: so no epoch is given twice, and the number of the last commit is never removed.
const MARK_START: &str = "INSERT INTO plimsoll.feed (epoch, n, at, applied) VALUES ($1, $2, now(), false)";

const IDENTITY: &str = "SELECT schema_step, format, store_id FROM plimsoll.identity WHERE id = 1";
const COMMITS_LOST: &str = "SELECT coalesce(sum(commits), 0)::bigint FROM plimsoll.lost";

/// Number of the last commit. A later epoch has higher numbers.
pub(super) const LAST_COMMIT: &str = "SELECT n FROM plimsoll.feed ORDER BY epoch DESC, n DESC LIMIT 1";

const LAST_POSITION: &str = "SELECT epoch, n FROM plimsoll.feed ORDER BY epoch DESC, n DESC LIMIT 1";

/// A store that this server may write.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldStore {
    pub(super) identity: StoreIdentity,
    /// Epoch of the lease: every commit checks that it is still this one.
    pub(super) epoch: i64,
    /// Acknowledged commits that failovers of the database lost, as far as servers saw it.
    pub(super) commits_lost: u64,
}

impl HeldStore {
    /// The last commit that is known to be there.
    pub(super) fn position(&self, primary: &Primary) -> DatabasePosition {
        DatabasePosition::at(primary, self.identity.id, (self.epoch, self.identity.sequence))
    }
}

/// Creates the first table in an empty schema, and checks an existing schema. The rest is made by [`take_lease`]: a server that waits must
/// not change tables under one that serves.
pub(super) async fn prepare(client: &mut Client) -> PostgresResult<()> {
    create_identity(client).await?;
    check_identity(client.query_opt(IDENTITY, &[]).await?).map(drop)
}

/// Whether the database has a store.
/// Errors: the schema has tables that are not ours.
pub(super) async fn has_store(client: &Client) -> PostgresResult<bool> {
    let found = client.query_one(SELECT_SCHEMA_STATE, &[]).await?;
    let (tables, ours): (i64, i64) = (found.get("tables"), found.get("ours"));
    if ours == 0 && tables > 0 {
        return Err(PostgresError::lasting(
            "the schema plimsoll of the database has tables of another program: name another database in store_url",
        ));
    }
    Ok(ours > 0)
}

/// Identity of the store that is there, with the number of its last commit. Changes nothing.
pub(super) async fn read_identity(client: &Client) -> PostgresResult<StoreIdentity> {
    if !has_store(client).await? {
        return Err(PostgresError::lasting(
            "the database has no store: check its name in store_url (a server makes one as it starts, and restore makes one of a backup)",
        ));
    }
    let (step, id) = check_identity(client.query_opt(IDENTITY, &[]).await?)?;
    if step == 0 {
        return Err(PostgresError::lasting(
            "the tables of the store are not complete, as its first server was stopped: start a server once",
        ));
    }
    let sequence = last_commit(client.query_opt(LAST_COMMIT, &[]).await?.as_ref());
    Ok(StoreIdentity { format: FORMAT_VERSION, id, sequence })
}

/// Id of the store, with epoch and number of its last commit. `None` if the database has no store.
pub(super) async fn read_position(client: &Client) -> PostgresResult<Option<(Ulid, (i64, u64))>> {
    if !has_store(client).await? {
        return Ok(None);
    }
    let last = match client.query_opt(LAST_POSITION, &[]).await {
        // the server that takes the lease first makes the tables
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => None,
        last => last?,
    };
    let last = last.map_or((0, 0), |row| (row.get(0), row.get::<_, i64>(1).cast_unsigned()));
    Ok(Some((store_id(client).await?, last)))
}

/// Begins a transaction, and makes all tables in it for the store `identity`, which has no entries yet.
/// Errors: there is a store already; nothing was changed.
pub(super) async fn begin_whole(client: &Client, identity: StoreIdentity) -> PostgresResult<()> {
    let taken = || {
        PostgresError::lasting(
            "the database has a store already, which stays as it is: name a database without one in store_url; or, if nothing in that store \
             is needed, stop its servers and remove it there with DROP SCHEMA plimsoll CASCADE",
        )
    };
    if has_store(client).await? {
        return Err(taken());
    }
    client.batch_execute("BEGIN").await?;
    match create_first_table(client, identity.id).await {
        Err(error) if is_made_by_another(&error) => return Err(taken()),
        made => made?,
    }
    for step in STEPS {
        client.batch_execute(step).await?;
    }
    client.execute(SET_STEP, &[&steps()]).await?;
    client.execute(MARK_START, &[&0_i64, &identity.sequence.cast_signed()]).await?;
    Ok(())
}

/// Makes what is missing of the tables, and takes the lease from the server that had it. With `seen`, only if its epoch is still this one
/// (0 for no lease); `None` if another server was faster, and nothing was made.
pub(super) async fn take_lease(client: &mut Client, seen: Option<i64>) -> PostgresResult<Option<HeldStore>> {
    let transaction = client.transaction().await?;
    // servers that take the lease at once wait for each other here
    let (step, id) = lock_identity(&transaction).await?;
    if let Some(missing) = STEPS.get(step..).filter(|missing| !missing.is_empty()) {
        transaction.batch_execute(&missing.join(";")).await?;
        transaction.execute(SET_STEP, &[&steps()]).await?;
    }
    if let Some(seen) = seen {
        let now = transaction.query_opt("SELECT epoch FROM plimsoll.lease WHERE id = 1", &[]).await?;
        if now.map_or(0, |now| now.get(0)) != seen {
            return Ok(None);
        }
    }
    let epoch: i64 = transaction.query_one(TAKE_LEASE, &[]).await?.get(0);
    let sequence = last_commit(transaction.query_opt(LAST_COMMIT, &[]).await?.as_ref());
    transaction.execute(MARK_START, &[&epoch, &sequence.cast_signed()]).await?;
    let lost: i64 = transaction.query_one(COMMITS_LOST, &[]).await?.get(0);
    transaction.commit().await?;
    let identity = StoreIdentity { format: FORMAT_VERSION, id, sequence };
    Ok(Some(HeldStore { identity, epoch, commits_lost: lost.cast_unsigned() }))
}

/// Number of steps, as it is stored.
fn steps() -> i32 {
    i32::try_from(STEPS.len()).unwrap_or(i32::MAX)
}

/// The store's id, for a connection that was made anew.
pub(super) async fn store_id(client: &Client) -> PostgresResult<Ulid> {
    let row = client.query_opt("SELECT store_id FROM plimsoll.identity WHERE id = 1", &[]).await?;
    row.and_then(|row| parse_id(row.get(0))).ok_or_else(no_identity)
}

/// The number in a row of [`LAST_COMMIT`]; 0 if there is none.
pub(super) fn last_commit(row: Option<&Row>) -> u64 {
    row.map_or(0, |row| row.get::<_, i64>(0).cast_unsigned())
}

/// Makes schema and identity where there is nothing yet.
async fn create_identity(client: &mut Client) -> PostgresResult<()> {
    for _ in 0..MAX_FIRST_TABLE_TRIES {
        if has_store(client).await? {
            return Ok(());
        }
        let transaction = client.transaction().await?;
        let made = create_first_table(&transaction, Ulid::new()).await;
        match made {
            Ok(()) => transaction.commit().await?,
            // another server makes the same
            Err(error) if is_made_by_another(&error) => transaction.rollback().await?,
            Err(error) => return Err(error.into()),
        }
    }
    Err(PostgresError::Passing(
        "other servers make the schema plimsoll again and again; start it again".to_owned(),
    ))
}

/// Whether the error says that another session has made the same meanwhile.
fn is_made_by_another(error: &tokio_postgres::Error) -> bool {
    [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_SCHEMA, SqlState::DUPLICATE_TABLE]
        .iter()
        .any(|code| error.code() == Some(code))
}

async fn create_first_table(client: &impl GenericClient, id: Ulid) -> Result<(), tokio_postgres::Error> {
    if !client.query_one(SELECT_SCHEMA_STATE, &[]).await?.get::<_, bool>("has_schema") {
        client.batch_execute("CREATE SCHEMA plimsoll").await?;
    }
    client.batch_execute(CREATE_IDENTITY).await?;
    let format = FORMAT_VERSION.cast_signed();
    let id = id.to_bytes();
    client.execute("INSERT INTO plimsoll.identity VALUES (1, 0, $1, $2)", &[&format, &id.as_slice()]).await?;
    Ok(())
}

/// Locks the identity; returns the number of steps that were made, and the store's id.
async fn lock_identity(transaction: &Transaction<'_>) -> PostgresResult<(usize, Ulid)> {
    check_identity(transaction.query_opt(&format!("{IDENTITY} FOR UPDATE"), &[]).await?)
}

/// Checks the identity that was read.
fn check_identity(row: Option<Row>) -> PostgresResult<(usize, Ulid)> {
    let row = row.ok_or_else(no_identity)?;
    let (step, format): (i32, i32) = (row.get(0), row.get(1));
    let known = STEPS.len();
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    if step > known {
        return Err(PostgresError::lasting(format!(
            "the schema plimsoll of the database is of step {step}, and this program knows {known}: start a newer plimsoll-server"
        )));
    }
    if format != FORMAT_VERSION.cast_signed() {
        return Err(PostgresError::lasting(format!(
            "the database has a store of format {format}, and this program reads format {FORMAT_VERSION} only: start the program that wrote it, \
             or name another database in store_url"
        )));
    }
    Ok((step, parse_id(row.get(2)).ok_or_else(no_identity)?))
}

fn parse_id(bytes: &[u8]) -> Option<Ulid> {
    bytes.try_into().ok().map(Ulid::from_bytes)
}

fn no_identity() -> PostgresError {
    PostgresError::lasting(
        "the row of plimsoll.identity is gone or damaged, so the database may not have what was acknowledged: restore a backup of it",
    )
}
