//! What servers over one PostgreSQL reach, each figure beside its goal, and beside `pg_test_fsync` and `pgbench` on the same database.
//!
//! One server writes and others wait as standbys. A standby does not answer callers, so there are no figures of tickets by way of other
//! servers, of predictions of other servers, and of a standby with a warm history: at a takeover it reads all of it.

mod history;
mod load;
mod takeover;
mod yardsticks;

use std::path::Path;

use plimsoll_support::postgres::PostgresServer;
use plimsoll_tests::{Programs, QUIET, Server, eventually};
use tokio::task::block_in_place;

use crate::away;

pub(crate) async fn over_postgres(programs: &Programs, dir: &Path) -> anyhow::Result<()> {
    let Some(database) = block_in_place(|| PostgresServer::start(|_folder| Vec::new())) else {
        return Ok(());
    };
    block_in_place(|| yardsticks::measure(&database, dir))?;
    let server = Server::start_with(
        programs,
        &dir.join("cluster"),
        &["--log", QUIET, "--store-url", &database.url("postgres")],
    )?;
    load::acknowledged(&server, load::ALONE).await?;
    away::beside_quiet(&server, &database).await?;
    let _standby = block_in_place(|| add_standby(&database));
    let is_followed = async || {
        database.sql("postgres", "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'")
    };
    eventually("the standby is synchronous", is_followed, |count| count == "1").await;
    load::acknowledged(&server, load::WITH_STANDBY).await?;
    set_standbys(&database, "");
    drop(server);
    takeover::under_agents(programs, &database, dir).await?;
    history::of_a_million(programs, &database, dir).await
}

fn add_standby(database: &PostgresServer) -> PostgresServer {
    let standby = database.new_standby();
    set_standbys(database, "ANY 1 (*)");
    standby
}

/// Sets for which standbys a commit waits.
fn set_standbys(database: &PostgresServer, names: &str) {
    database.sql("postgres", &format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"));
    database.sql("postgres", "SELECT pg_reload_conf()");
}
