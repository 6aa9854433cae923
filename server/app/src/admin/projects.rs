//! `plimsoll-server projects`: the names of projects in a store.

use std::io::{self, Write as _};

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use plimsoll_core::domain::ProjectRename;
use plimsoll_proto::figures::counted;
use plimsoll_store::{RenameWalk, Store};

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
    /// # Errors
    /// A name is wrong, or the store cannot be opened or written.
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let ProjectsCommand::Rename(Rename { old, new }) = self.what;
        let rename = ProjectRename::new(&old, &new)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let attempts = runtime.block_on(async {
            let store = open_store(config).await?;
            let renamed = rename_in(&store, rename).await;
            store.close().await.context("closing the store")?;
            renamed
        })?;
        ensure!(attempts > 0, "no ended attempt is of {old}: check the name and --data-dir");
        Ok(writeln!(io::stdout(), "{} of {old} renamed to {new}", counted(attempts, "attempt"))?)
    }
}

/// Finishes a rename that was interrupted, and renames a project; returns the number of its attempts.
async fn rename_in(store: &Store, rename: ProjectRename) -> anyhow::Result<u64> {
    let unfinished = "the rename is not finished: repeat the command, or start the server";
    let mut before = 0;
    if let Some(interrupted) = RenameWalk::stored(store).await.context("nothing is renamed")? {
        let is_the_same = *interrupted.rename() == rename;
        let attempts = interrupted.finish(store).await.context(unfinished)?;
        before = if is_the_same { attempts } else { 0 };
    }
    let begun = RenameWalk::begin(store, rename).await.context("nothing is renamed")?;
    Ok(before + begun.finish(store).await.context(unfinished)?)
}
