//! Opens the store: in files, or in a database.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use plimsoll_base::own_files;
use plimsoll_store::{PostgresSettings, Store, StoreSettings};
use tokio_util::sync::CancellationToken;

use super::standby::Standby;
use crate::runtime::settings::{Config, refuse_two_stores};

/// Name of the file that a server locks in its data directory, as a store in files does.
const LOCK_FILE: &str = "plimsoll.lock";
/// Folder of the data directory where versions before 0.2 kept job hooks.
const FORMER_HOOKS: &str = "hooks";

/// Opens the store that the settings name. While another server has it, this one waits as `standby`. The file, if any, keeps other servers out of the data directory while it is open.
/// `None` once `stop` is cancelled.
/// Errors: it cannot be used. The text names the setting and says what to do.
pub(super) async fn open_store(
    config: &Config,
    standby: Option<&Standby>,
    stop: &CancellationToken,
) -> anyhow::Result<Option<(Store, Option<File>)>> {
    if let Some(folder) = former_hooks(&config.data_dir) {
        tracing::warn!(
            folder = %folder.display(),
            "job hooks of a former version are here, and are not read: start that version once, until its plimsoll_hooks_on_disk is 0, or \
             remove the folder"
        );
    }
    if let (Some(_), Some(standby)) = (&config.store_url, standby) {
        refuse_two_stores(&config.data_dir)?;
        let lock = lock_data_dir(&config.data_dir)?;
        let position_file = lock.is_some().then(|| config.data_dir.join(PostgresSettings::POSITION_FILE));
        let settings = PostgresSettings { position_file, ..config.database()? };
        let opened = Store::open_postgres_when_free(&settings, standby.holder_note(), stop).await;
        let store = opened.context("store_url")?;
        return Ok(store.map(|store| {
            standby.note_taken();
            (store, lock)
        }));
    }
    let settings = StoreSettings { dir: config.data_dir.clone(), cache_bytes: config.store_cache.0 };
    let opening = tokio::task::spawn_blocking(move || Store::open(&settings));
    let Some(opened) = stop.run_until_cancelled(opening).await else { return Ok(None) };
    let opened = opened.context("data_dir: opening the store failed unexpectedly")?;
    Ok(Some((opened.context("data_dir")?, None)))
}

/// The folder with job hooks of a former version, if there are any.
fn former_hooks(data_dir: &Path) -> Option<PathBuf> {
    let folder = data_dir.join(FORMER_HOOKS);
    let has_files = fs::read_dir(&folder).is_ok_and(|mut files| files.next().is_some());
    has_files.then_some(folder)
}

/// Makes and locks the data directory, in which the position of the database is kept. Without one an old primary may not be noticed.
fn lock_data_dir(data_dir: &Path) -> anyhow::Result<Option<File>> {
    if let Err(error) = fs::create_dir_all(data_dir) {
        tracing::warn!(%error, data_dir = %data_dir.display(), "no data directory, so after a restart an old primary of the database may not be noticed");
        return Ok(None);
    }
    let path = data_dir.join(LOCK_FILE);
    let file = own_files::open_or_create(&path).with_context(|| path.display().to_string())?;
    let in_use = "is in use: stop the server that uses it, or give this one a data directory of its own";
    file.try_lock().map_err(|_taken| anyhow::anyhow!("data_dir: {} {in_use}", data_dir.display()))?;
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_of_a_former_version_are_named() {
        let (dir, folder) = plimsoll_support::temporary::file_name("hooks");
        assert_eq!(former_hooks(dir.path()), None);
        fs::create_dir(&folder).unwrap();
        assert_eq!(former_hooks(dir.path()), None);
        fs::write(folder.join("0000000000000001.hook"), "{}").unwrap();
        assert_eq!(former_hooks(dir.path()), Some(folder));
    }
}
