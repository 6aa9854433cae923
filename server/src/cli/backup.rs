//! `plimsoll-server backup`.

use std::path::PathBuf;

use clap::Args;

use super::{note, progress::Progress, progress::share, store_settings, target::Target};
use crate::{
    admin::backup,
    config::Config,
    store::{Offline, OpenError},
};

/// Writes a backup.
#[derive(Debug, Args)]
pub struct Backup {
    /// A file that does not exist yet, or - for standard output.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Backup {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        // asked first: a server that runs is no mistake
        let store = match Offline::open(&store_settings(config)) {
            Ok(store) => Some(store),
            Err(OpenError::Locked { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let mut target = Target::open(&self.file)?;
        let mut progress = Progress::new();
        let whole = store.as_ref().map_or(0, Offline::bytes_on_disk);
        let tell = |bytes| progress.tell("backup", share(bytes, whole));
        let written = match &store {
            Some(store) => backup::write(store, &mut target, tell).map(|_entries| ()),
            None => backup::fetch(config.http_listen, &mut target, tell),
        };
        progress.end();
        if let Err(error) = written {
            target.give_up();
            return Err(error);
        }
        target.finish()?;
        note(format_args!(
            "backup written, {}",
            if store.is_some() { "no server ran" } else { "the server goes on" }
        ));
        Ok(())
    }
}
