//! What a person should know of a database before a server uses it. Nothing is changed there.

use tokio_postgres::{Client, Row};
use ulid::Ulid;

use super::{
    errors::PostgresResult,
    opening::{connect_checked, in_time},
    schema,
    settings::{PostgresSettings, Target},
};

const VERSION: &str = "SELECT current_setting('server_version'), pg_has_role('pg_read_all_stats', 'USAGE')";
/// The rights that are missing, each as the start of a GRANT: `INSERT ON TABLE plimsoll.feed`. As long as tables are missing, a server makes them.
const MISSING_RIGHTS: &str = "\
     SELECT 'CREATE ON DATABASE ' || quote_ident(current_database()) \
       WHERE to_regnamespace('plimsoll') IS NULL AND NOT has_database_privilege(current_database(), 'CREATE') \
     UNION ALL SELECT p || ' ON SCHEMA plimsoll' FROM unnest(ARRAY['USAGE', 'CREATE']) AS p \
       WHERE NOT has_schema_privilege(to_regnamespace('plimsoll'), p) \
         AND (p = 'USAGE' OR $1 > (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('plimsoll') AND relkind = 'r')) \
     UNION ALL SELECT p || ' ON TABLE plimsoll.' || quote_ident(c.relname) \
       FROM pg_class AS c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p \
       WHERE c.relnamespace = to_regnamespace('plimsoll') AND c.relkind = 'r' AND NOT has_table_privilege(c.oid, p)";
const STANDBYS: &str = "SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')), \
     current_setting('synchronous_standby_names') FROM pg_stat_replication";
/// Of this database alone: transactions in others do not keep its rows.
const SELECT_OLDEST_TRANSACTION: &str = "SELECT greatest(extract(epoch FROM clock_timestamp() - since), 0)::bigint, who FROM ( \
       SELECT xact_start AS since, format('process %s of %s (%s)', pid, usename, application_name) AS who FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL \
           AND backend_type IS DISTINCT FROM 'autovacuum worker' \
       UNION ALL SELECT prepared, format('the prepared transaction %L', gid) FROM pg_prepared_xacts WHERE database = current_database() \
     ) AS open ORDER BY since LIMIT 1";

/// The facts about a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseReport {
    /// `HOST:PORT/DATABASE`.
    pub name: String,
    /// Version of PostgreSQL, from its setting `server_version`.
    pub version: String,
    /// Id of the store there, if any.
    pub store: Option<Ulid>,
    /// Rights that the user lacks, each as a GRANT has it: `INSERT ON TABLE plimsoll.feed`.
    pub missing_rights: Vec<String>,
    /// Whether the user sees the sessions of others: else standbys may look asynchronous, and transactions are not all seen.
    pub sees_others: bool,
    /// Standbys that are connected.
    pub standbys: u64,
    /// Those of them that a commit waits for.
    pub synchronous_standbys: u64,
    /// Whether commits wait for a standby, `synchronous_standby_names`.
    pub waits_for_standby: bool,
    /// Age in seconds of the oldest transaction that is open in the database, and whose it is.
    pub oldest_transaction: Option<(u64, String)>,
}

impl DatabaseReport {
    /// Looks at a database.
    /// Errors: it cannot be reached or cannot keep a store; the text says what to do.
    pub async fn read(settings: &PostgresSettings) -> PostgresResult<Self> {
        let target = Target::read(settings)?;
        in_time(read(&target)).await.map_err(|error| target.named(error))
    }
}

async fn read(target: &Target) -> PostgresResult<DatabaseReport> {
    let connection = connect_checked(target).await?;
    let client = &connection.client;
    let version = client.query_one(VERSION, &[]).await?;
    let rights = client.query(MISSING_RIGHTS, &[&schema::TABLES]).await?;
    let missing_rights: Vec<String> = rights.iter().map(|row| row.get(0)).collect();
    let store = if missing_rights.is_empty() { find_store(client).await? } else { None };
    let standbys = client.query_one(STANDBYS, &[]).await?;
    let count = |row: &Row, column| row.get::<_, i64>(column).cast_unsigned();
    let oldest = client.query_opt(SELECT_OLDEST_TRANSACTION, &[]).await?;
    Ok(DatabaseReport {
        name: target.name.clone(),
        version: version.get(0),
        store,
        missing_rights,
        sees_others: version.get(1),
        standbys: count(&standbys, 0),
        synchronous_standbys: count(&standbys, 1),
        waits_for_standby: !standbys.get::<_, &str>(2).trim().is_empty(),
        oldest_transaction: oldest.map(|row| (count(&row, 0), row.get(1))),
    })
}

/// Id of the store in the database, if any.
async fn find_store(client: &Client) -> PostgresResult<Option<Ulid>> {
    if !schema::has_store(client).await? {
        return Ok(None);
    }
    schema::read_identity(client).await.map(|identity| Some(identity.id))
}
