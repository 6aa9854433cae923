//! `plimsoll watch`: shows running builds live.

use std::io;

use clap::Args;
use plimsoll_client::questions::QuestionFailure;

use super::{EXIT_STATUSES, terminal};
use crate::{
    ask::{CommandOutput, Format, watch},
    commands::{ServerArgs, help},
};

/// Show running builds, live: on a terminal a list every two seconds, else one JSON object per line.
#[derive(Debug, Args)]
#[command(after_help = help::end(EXIT_STATUSES, &["watch"]))]
pub(in crate::commands) struct WatchArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// How to write it [default: text on a terminal, else json].
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

impl WatchArgs {
    pub(in crate::commands) async fn ask(self) -> Result<CommandOutput, QuestionFailure> {
        let usual = if terminal::is_terminal() { Format::Text } else { Format::Json };
        let client = self.server.connect().await?;
        match self.output.unwrap_or(usual) {
            Format::Json => watch::watch_lines(&client, &mut io::stdout()).await?,
            Format::Text => watch::watch_list(&client, terminal::style(), &mut io::stdout()).await?,
        }
        Ok(CommandOutput::data(String::new()))
    }
}
