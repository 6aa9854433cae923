//! The connections that read.

use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts,
};
use ulid::Ulid;

use super::{errors::PostgresError, settings::Target};

/// Most connections that read at once. With those of the writer, of a snapshot and of the check at the start, a server has up to 7.
const READERS: usize = 4;
/// Longest wait for a free connection.
const WAIT_WITHIN: Duration = Duration::from_secs(30);
/// How long a new connection may take, over all addresses of the database.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);

/// Also ends the time limit of transactions that PostgreSQL 17 and later may have.
const CHECK: &str = "SELECT NOT pg_is_in_recovery() AND (SELECT store_id = $1 FROM plimsoll.identity WHERE id = 1), \
     (SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout')";

/// Connections to the primary with this store. A dead one is replaced as it is taken.
pub(super) fn reading_pool(target: &Target, store: Ulid) -> Result<Pool, PostgresError> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(target.config.clone(), target.tls.clone(), recycling);
    let timeouts =
        Timeouts { wait: Some(WAIT_WITHIN), create: Some(CONNECT_WITHIN), recycle: Some(CONNECT_WITHIN) };
    let check = Hook::async_fn(move |client: &mut ClientWrapper, _| Box::pin(check_store(client, store)));
    let pool = Pool::builder(manager).max_size(READERS).timeouts(timeouts).post_create(check);
    let pool = pool.runtime(Runtime::Tokio1).build();
    pool.map_err(|error| PostgresError::Passing(error.to_string()))
}

/// Refuses a standby, which may lack commits, and another store.
async fn check_store(client: &ClientWrapper, store: Ulid) -> Result<(), HookError> {
    let row = client.query_one(CHECK, &[&store.to_bytes().as_slice()]).await.map_err(HookError::Backend)?;
    if row.get::<_, Option<bool>>(0) == Some(true) {
        return Ok(());
    }
    Err(HookError::message(
        "a connection that reads leads to a standby, or to another store: check the hosts in store_url",
    ))
}
