//! The connections that read.

use std::{pin::Pin, time::Duration};

use deadpool_postgres::{
    ClientWrapper, Connect, Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts,
};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, Error};
use tokio_util::task::TaskTracker;
use ulid::Ulid;

use super::{
    connection::check_primary,
    errors::{PostgresError, PostgresResult},
    settings::Target,
};

/// Most connections that read at once. With those of the writer, of its beat and of a snapshot, a server has up to 7.
const READERS: usize = 4;
/// Longest wait for a free connection.
const WAIT_WITHIN: Duration = Duration::from_secs(30);
/// How long a new connection may take, over all addresses of the host.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);

const IS_STORE: &str = "SELECT EXISTS (SELECT 1 FROM plimsoll.identity WHERE id = 1 AND store_id = $1)";
/// Ends the time limit of transactions that PostgreSQL 17 and later may have.
const NO_LIMIT: &str =
    "SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout'";

/// Connections to the primary that the writer found last. A dead one is replaced as it is taken.
pub(super) fn reading_pool(target: &Target, store: Ulid) -> PostgresResult<Pool> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_connect(Config::new(), ToLastPrimary(target.clone()), recycling);
    let timeouts =
        Timeouts { wait: Some(WAIT_WITHIN), create: Some(CONNECT_WITHIN), recycle: Some(CONNECT_WITHIN) };
    let target = target.clone();
    let check = Hook::async_fn(move |client: &mut ClientWrapper, _| {
        let target = target.clone();
        Box::pin(async move { check_connection(&target, client, store).await })
    });
    let pool = Pool::builder(manager).max_size(READERS).timeouts(timeouts).post_create(check);
    let pool = pool.runtime(Runtime::Tokio1).build();
    pool.map_err(|error| PostgresError::Passing(error.to_string()))
}

/// Connects where the writer does.
struct ToLastPrimary(Target);

impl Connect for ToLastPrimary {
    fn connect(
        &self,
        _config: &Config,
    ) -> Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + '_>> {
        let Self(target) = self;
        Box::pin(async move {
            let (client, connection) = target.connect(target.last_primary.host()).await?;
            // an error of the connection is that of the statement that waits, or of the next one
            let drive = async move { connection.await.unwrap_or_default() };
            Ok((client, TaskTracker::new().spawn(drive)))
        })
    }
}

/// Refuses a standby and an old primary, which may lack commits, and another store.
async fn check_connection(target: &Target, client: &ClientWrapper, store: Ulid) -> Result<(), HookError> {
    let checked = check_primary(target, target.last_primary.host(), client).await;
    checked.map_err(|error| HookError::message(error.to_string()))?;
    let is_store =
        client.query_one(IS_STORE, &[&store.to_bytes().as_slice()]).await.map_err(HookError::Backend)?;
    if !is_store.get::<_, bool>(0) {
        return Err(HookError::message("a connection that reads leads to another store: check store_url"));
    }
    client.batch_execute(NO_LIMIT).await.map_err(HookError::Backend)
}
