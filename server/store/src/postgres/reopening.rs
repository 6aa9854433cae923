//! Whether the store behind a new connection is the one that was opened, with all that was acknowledged.

use tokio_postgres::Client;

use super::{
    errors::{PostgresError, PostgresResult},
    schema::{self, HeldStore},
    shared::DatabaseStatus,
};
use crate::kv::StoreIdentity;

/// Number of the last commit under this epoch or an earlier one.
const OWN_LAST_COMMIT: &str =
    "SELECT n FROM plimsoll.feed WHERE epoch <= $1 ORDER BY epoch DESC, n DESC LIMIT 1";
const NOTE_LOSS: &str = "INSERT INTO plimsoll.lost (epoch, at, commits) VALUES ($1, now(), $2)";

/// Checks the store. Commits that are gone are counted, in the status and in the database, where the next server finds the count.
/// Errors: it is another store, or commits that were acknowledged are gone.
pub(super) async fn check_store(
    client: &Client,
    held: &HeldStore,
    shared: &DatabaseStatus,
) -> PostgresResult<()> {
    let found = schema::store_id(client).await?;
    let StoreIdentity { id, sequence, .. } = held.identity;
    if found != id {
        return Err(PostgresError::lasting(format!(
            "the database now has another store ({found}, and {id} was opened): name the right one in store_url and restart this server"
        )));
    }
    let lost = sequence.saturating_sub(own_last_commit(client, held).await?);
    if lost == 0 {
        return Ok(());
    }
    shared.status.update(|status| status.commits_lost += lost);
    tracing::error!(
        lost,
        acknowledged = sequence,
        "the database came back without commits that were acknowledged"
    );
    let noted = client.execute(NOTE_LOSS, &[&held.epoch, &lost.cast_signed()]).await;
    if let Err(error) = noted {
        tracing::warn!(%error, "the number of lost commits is not written down");
    }
    Err(PostgresError::Taken(format!(
        "the database came back without commits that were acknowledged (the last {lost} of {sequence}): bring back the primary that has \
         them; or, to go on with what is there, restart this server and, if it refuses an old copy, remove plimsoll.database on each server"
    )))
}

/// Number of the last commit of this server or an earlier one. Where a newer server has removed those, none is missed.
async fn own_last_commit(client: &Client, held: &HeldStore) -> PostgresResult<u64> {
    let own = client.query_opt(OWN_LAST_COMMIT, &[&held.epoch]).await?;
    let newer = client.query_opt(schema::LAST_COMMIT, &[]).await?;
    if own.is_none() && newer.is_some() {
        return Ok(held.identity.sequence);
    }
    Ok(schema::last_commit(own.as_ref()))
}
