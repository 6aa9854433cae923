//! The store in a database, for the commands that read or make a whole store.

use std::io::Read;

use anyhow::{Context as _, ensure};
use plimsoll_store::{
    Store,
    backup::{RestoreScope, RestoredEntries},
};

use crate::runtime::settings::Config;

/// The store as it is now, for commands that only read. A server may go on writing.
/// Errors: there is none, or it cannot be read; the text names the setting and says what to do.
pub(super) async fn view_store(config: &Config) -> anyhow::Result<Store> {
    Store::view_postgres(&config.database()?).await.context("store_url")
}

/// Opens the store to write into it, if no server has it.
/// Errors: a server has it, or it cannot be used; the text names the setting and says what to do.
pub(super) async fn open_free_store(config: &Config) -> anyhow::Result<Store> {
    let settings = config.database()?;
    let (tell, mut holders) = tokio::sync::mpsc::channel(1);
    let never = tokio_util::sync::CancellationToken::new();
    let note_holder = move |holder: &str| drop(tell.try_send(holder.to_owned()));
    tokio::select! {
        opened = Store::open_postgres_when_free(&settings, note_holder, &never) => {
            opened.context("store_url")?.context("store_url: not opened")
        }
        Some(holder) = holders.recv() => Err(anyhow::anyhow!(
            "store_url: the server {holder} has the store open: stop all servers of this store first, its standbys too"
        )),
    }
}

/// Makes the store from a backup: all of it, or nothing.
/// Errors: there is one already, or it cannot be made.
pub(super) fn restore_store(
    config: &Config,
    archive: impl Read,
    scope: RestoreScope,
) -> anyhow::Result<RestoredEntries> {
    Ok(plimsoll_store::backup::restore_into_database(archive, &config.database()?, scope)?)
}

/// Refuses options that are about files if the store is in a database.
pub(super) fn refuse_options_of_files(config: &Config, options: &[(&str, bool)]) -> anyhow::Result<()> {
    let given = options.iter().find(|(_, is_given)| *is_given && config.store_url.is_some());
    let name = given.map_or("", |(name, _)| *name);
    ensure!(given.is_none(), "{name} is for a store in files, and store_url is set: leave {name} out");
    Ok(())
}
