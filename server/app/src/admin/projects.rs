//! `plimsoll-server projects`: the names of projects in a store.

use std::io::{self, Write as _};

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use plimsoll_core::domain::ProjectRename;
use plimsoll_proto::figures::counted;
use plimsoll_store as store;

use super::{import::open_store, line::examples_text};
use crate::runtime::settings::Config;

/// Renames a project, so that its history goes on under its new name. No server may have the store open.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["projects rename group/app team/app --data-dir data"]))]
pub struct Projects {
    #[command(subcommand)]
    what: ProjectsCommand,
}

#[derive(Debug, Subcommand)]
enum ProjectsCommand {
    /// Gives all ended attempts of a project, and the verdicts on them, its new name: predictions, known failures and corrections follow. All
    /// of it happens or nothing: after a crash, the next start of the server goes on.
    Rename(Rename),
}

#[derive(Debug, Args)]
#[command(after_help = examples_text(&["projects rename group/app team/app --data-dir data"]))]
struct Rename {
    /// The former name of the project; of a group, it stands for all projects below it.
    #[arg(value_name = "OLD")]
    old: String,
    /// The name that its builds have now.
    #[arg(value_name = "NEW")]
    new: String,
}

impl Projects {
    /// Errors: a name is wrong, or the store cannot be opened or written.
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let ProjectsCommand::Rename(Rename { old, new }) = self.what;
        let rename = ProjectRename::new(&old, &new)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let attempts = runtime.block_on(async {
            let store = open_store(config).await?;
            let before = store::begin_rename(&store, &rename).await.context("nothing is renamed")?;
            let renamed = store::finish_rename(&store).await;
            store.close().await.context("closing the store")?;
            let renamed =
                renamed.context("the rename is not finished: repeat the command, or start the server")?;
            // this rename may have been interrupted before
            anyhow::Ok(before + renamed)
        })?;
        ensure!(attempts > 0, "no ended attempt is of {old}: check the name and --data-dir");
        Ok(writeln!(io::stdout(), "{} of {old} renamed to {new}", counted(attempts, "attempt"))?)
    }
}
