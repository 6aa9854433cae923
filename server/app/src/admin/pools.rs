//! `plimsoll-server pools`: what follows from the pools file for other systems. Needs no server.

mod capacity;
mod suggest;

use clap::{Args, Subcommand};

use super::line::examples_text;
use crate::runtime::settings::Config;

/// Tells what follows from the pools file for other systems, such as Koji and Copr.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["pools capacity --kinds scratch,explicit"]))]
pub struct Pools {
    #[command(subcommand)]
    what: PoolsCommand,
}

#[derive(Debug, Subcommand)]
enum PoolsCommand {
    /// Tells how many builds of some kinds run at once, which is the capacity of Koji's builders.
    Capacity(capacity::Capacity),
    /// Tells which packages deserve a powerful builder, which of the list do not, and what that saves and costs.
    Suggest(suggest::Suggest),
}

impl Pools {
    /// Errors: the pools file cannot be read, or does not say what the command needs.
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        match self.what {
            PoolsCommand::Capacity(capacity) => capacity.run(config),
            PoolsCommand::Suggest(suggest) => suggest.run(config),
        }
    }
}
