//! Makes a whole store at once, for `restore`: tables and entries in one transaction, so that a database has all of it or nothing.

use std::{fmt, pin::Pin};

use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};
use tokio_postgres::{Client, Error, binary_copy::BinaryCopyInWriter, error::SqlState, types::Type};

use super::{
    connection::Connection,
    errors::{PostgresError, PostgresResult, describe},
    opening::{OPEN_WITHIN, connect_checked, in_time},
    schema,
    settings::{PostgresSettings, Target},
};
use crate::kv::{KeyValue, StoreIdentity};

const COPY: &str = "COPY plimsoll.entry (k, version, v) FROM STDIN BINARY";
/// The index is made once all entries are there, which takes half the time and a third less disk.
const WITHOUT_INDEX: &str = "ALTER TABLE plimsoll.entry DROP CONSTRAINT entry_pkey";
const INDEX: &str =
    "SAVEPOINT before_index; ALTER TABLE plimsoll.entry ADD CONSTRAINT entry_pkey PRIMARY KEY (k)";
/// The backup of a running server may have an entry twice.
const ONE_OF_EACH: &str = "ROLLBACK TO SAVEPOINT before_index; \
     DELETE FROM plimsoll.entry AS e USING plimsoll.entry AS other WHERE e.k = other.k AND e.ctid > other.ctid";

/// A store in a database that is being made. Until its end the database shows nothing of it; if this value is dropped before, nothing
/// is left.
pub(crate) struct DatabaseFiller {
    target: Target,
    copy: Pin<Box<BinaryCopyInWriter>>,
    connection: Connection,
    /// Where the connection lives: dropped last.
    runtime: Runtime,
}

impl fmt::Debug for DatabaseFiller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseFiller").field("database", &self.target.name).finish_non_exhaustive()
    }
}

impl DatabaseFiller {
    /// Begins the transaction, and makes the tables of the store `identity`. Blocks, as the other functions do.
    /// Errors: the database has a store, or cannot keep one; the text says what to do.
    pub(crate) fn begin(settings: &PostgresSettings, identity: StoreIdentity) -> PostgresResult<Self> {
        let target = Target::read(settings)?;
        let threads = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = threads
            .map_err(|error| PostgresError::Passing(format!("no thread for the connection: {error}")))?;
        let begun = runtime.block_on(in_time(begin(&target, identity)));
        let (connection, copy) = begun.map_err(|error| target.named(error))?;
        Ok(Self { target, copy: Box::pin(copy), connection, runtime })
    }

    /// Adds an entry; its version stays the same.
    /// Errors: the database refuses it, or is away.
    pub(crate) fn put(&mut self, entry: &KeyValue) -> PostgresResult<()> {
        let Self { target, copy, runtime, .. } = self;
        let (version, value) = (entry.value.version.cast_signed(), &entry.value.value);
        let written = runtime.block_on(in_time(async {
            let Err(error) = copy.as_mut().write(&[&entry.key, &version, value]).await else { return Ok(()) };
            // the answer to the whole command says why it takes no more
            Err(copy.as_mut().finish().await.err().unwrap_or(error).into())
        }));
        written.map_err(|error| target.named(error))
    }

    /// Completes the store: from then on a server can open it. Takes as long as the index of all entries does.
    /// Errors: the database refuses it, or is away.
    pub(crate) fn end(self) -> Result<(), FillError> {
        let Self { target, mut copy, connection, runtime } = self;
        let ended = runtime.block_on(async {
            copy.as_mut().finish().await.map_err(PostgresError::from)?;
            add_index(&connection.client).await.map_err(PostgresError::from)?;
            commit(&connection).await
        });
        ended.map_err(|error| match error {
            FillError::Refused(error) => FillError::Refused(target.named(error)),
            FillError::Unconfirmed(text) => {
                FillError::Unconfirmed(format!("PostgreSQL at {}: {text}", target.name))
            }
        })
    }
}

/// Why a store was not completed.
#[derive(Debug)]
pub(crate) enum FillError {
    /// Nothing of it is there.
    Refused(PostgresError),
    /// All of it may be there, or nothing. The text says what to do.
    Unconfirmed(String),
}

impl From<PostgresError> for FillError {
    fn from(error: PostgresError) -> Self {
        Self::Refused(error)
    }
}

async fn begin(target: &Target, identity: StoreIdentity) -> PostgresResult<(Connection, BinaryCopyInWriter)> {
    let connection = connect_checked(target).await?;
    let client = &connection.client;
    schema::begin_whole(client, identity).await?;
    client.batch_execute(WITHOUT_INDEX).await?;
    let copy = client.copy_in(COPY).await?;
    Ok((connection, BinaryCopyInWriter::new(copy, &[Type::BYTEA, Type::INT8, Type::BYTEA])))
}

async fn add_index(client: &Client) -> Result<(), Error> {
    match client.batch_execute(INDEX).await {
        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
            client.batch_execute(ONE_OF_EACH).await?;
            client.batch_execute(INDEX).await
        }
        made => made,
    }
}

async fn commit(connection: &Connection) -> Result<(), FillError> {
    let warnings = connection.warnings();
    let committed = timeout(OPEN_WITHIN, connection.client.batch_execute("COMMIT")).await;
    let reason = match committed {
        Ok(Ok(())) if connection.warnings() == warnings => return Ok(()),
        Ok(Ok(())) => {
            return Err(FillError::Unconfirmed(
                "the store is there and whole, but the database warned as it committed, so a standby may not have it: look at the \
                 replication before you start a server"
                    .to_owned(),
            ));
        }
        Ok(Err(error)) => describe(&error),
        Err(_elapsed) => format!(
            "the commit was not confirmed within {} s: a standby of synchronous_standby_names may be away",
            OPEN_WITHIN.as_secs()
        ),
    };
    Err(FillError::Unconfirmed(format!(
        "{reason}; whether the store was made is not known: verify says whether it is there, and then it is whole"
    )))
}
