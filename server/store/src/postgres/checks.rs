//! Whether a server can keep a store.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::errors::{PostgresError, PostgresResult};

/// First version that is supported, as `server_version_num` writes it.
const MIN_SERVER_VERSION: i32 = 150_000;
/// How long the probe for a pooler waits for a connection that another one may block.
const PROBE_WITHIN: Duration = Duration::from_secs(5);

/// What of the server is checked. A role's or a database's own `synchronous_commit` does not matter, because the session sets it; that of the
/// whole server says that its operator accepts the loss of commits.
const SELECT_SERVER_SETTINGS: &str = "SELECT current_setting('server_version_num')::int4 AS version, \
     current_setting('server_encoding') AS encoding, \
     current_setting('fsync') = 'off' AS no_fsync, \
     current_setting('idle_in_transaction_session_timeout') <> '10s' AS is_filtered, \
     sync.setting = 'off' AND sync.source NOT IN ('user', 'database', 'database user', 'client') AS no_wait \
     FROM pg_catalog.pg_settings AS sync WHERE sync.name = 'synchronous_commit'";

/// Settings of the session that depend on the version, or that the check has to see as they were.
const SET_SESSION_SETTINGS: &str = "SELECT set_config('synchronous_commit', 'on', false), \
     (SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout')";

const POOLER_MISTAKE: &str = "store_url leads to a pooler that shares sessions or drops their settings (pgbouncer): name PostgreSQL itself";

/// Checks the server behind a new connection, and completes the settings of its session.
pub(super) async fn check_server(client: &Client) -> PostgresResult<()> {
    let facts = client.query_one(SELECT_SERVER_SETTINGS, &[]).await?;
    let (version, encoding): (i32, &str) = (facts.get("version"), facts.get("encoding"));
    let is = |fact: &str| facts.get::<_, bool>(fact);
    if version < MIN_SERVER_VERSION {
        return Err(PostgresError::lasting(format!(
            "the database has version {}, and the store needs PostgreSQL 15 or later: upgrade it, or name another one in store_url",
            version / 10_000
        )));
    }
    if encoding != "UTF8" {
        return Err(PostgresError::lasting(format!(
            "the database has the encoding {encoding}, and the store needs UTF8: name another one in store_url, made with \
             CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0"
        )));
    }
    if is("no_fsync") {
        return Err(PostgresError::lasting(
            "fsync is off in the database, so a power cut can take what was acknowledged: turn it on in postgresql.conf and reload",
        ));
    }
    if is("no_wait") {
        return Err(PostgresError::lasting(
            "synchronous_commit is off in the database, so a crash can take what was acknowledged: turn it on in postgresql.conf and reload",
        ));
    }
    if is("is_filtered") {
        return Err(PostgresError::lasting(POOLER_MISTAKE));
    }
    client.query_one(SET_SESSION_SETTINGS, &[]).await?;
    Ok(())
}

/// Refuses a pooler that shares sessions: then two connections get the same session, or one gets another session while the
/// second is in a transaction.
pub(super) async fn check_unpooled(first: &Client, second: &Client) -> PostgresResult<()> {
    let before = session_id(first).await?;
    second.batch_execute("BEGIN").await?;
    let other = session_id(second).await?;
    let after = timeout(PROBE_WITHIN, session_id(first)).await;
    second.batch_execute("ROLLBACK").await?;
    let is_kept = matches!(&after, Ok(Ok(after)) if *after == before);
    if is_kept && other != before { Ok(()) } else { Err(PostgresError::lasting(POOLER_MISTAKE)) }
}

/// Id of the session's process. Without a prepared statement, which some poolers do not know.
async fn session_id(client: &Client) -> PostgresResult<Option<String>> {
    let answer = client.simple_query("SELECT pg_backend_pid()").await?;
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(row.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use plimsoll_support::postgres::PostgresServer;

    use super::*;
    use crate::{
        PostgresSettings,
        postgres::{connection::Connection, settings::Target},
    };

    #[tokio::test]
    async fn connections_sharing_a_session_reveal_a_pooler() {
        let Some(server) = PostgresServer::shared() else { return };
        let settings = PostgresSettings {
            url: server.url("postgres"),
            password_file: None,
            ca_file: None,
            position_file: None,
        };
        let target = Target::read(&settings).unwrap();
        let first = Connection::open(&target).await.unwrap();
        let second = Connection::open(&target).await.unwrap();
        check_unpooled(&first.client, &second.client).await.unwrap();
        let error = check_unpooled(&first.client, &first.client).await.unwrap_err().to_string();
        assert!(error.contains("name PostgreSQL itself"), "{error}");
    }
}
