//! A server has one store: in a directory, or in a database.

use std::path::Path;

use anyhow::{Context as _, ensure};

use super::Config;

/// Refuses a data directory with a store if the settings name a database: the store in the directory would not be read.
/// Errors: there is a store, or that cannot be seen; the text says what to do.
pub(crate) fn refuse_two_stores(data_dir: &Path) -> anyhow::Result<()> {
    let found = plimsoll_store::store_id_of(data_dir);
    let found = found.context("data_dir")?;
    ensure!(
        found.is_none(),
        "store_url is set, and data_dir {} holds a store, which would not be read: name another data_dir, or remove store_url to go on with \
         that store",
        data_dir.display()
    );
    Ok(())
}

impl Config {
    /// Where the database of the store is.
    /// Errors: the store is in files.
    pub(crate) fn database(&self) -> anyhow::Result<plimsoll_store::PostgresSettings> {
        let url = self.store_url.clone().context("store_url is not set")?;
        let (password_file, ca_file) = (self.store_password_file.clone(), self.store_ca_file.clone());
        Ok(plimsoll_store::PostgresSettings { url, password_file, ca_file, position_file: None })
    }
}
