//! `plimsoll watch`: shows running builds live.

use std::io;

use clap::Args;
use plimsoll_client::questions::QuestionFailure;

use super::{EXIT_STATUSES, terminal};
use crate::{
    ask::{CommandOutput, Format, watch},
    commands::{ServerArgs, help},
};

/// Show running builds, live: a screen on a terminal (q quits), else one JSON object per line.
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
        let terminal = terminal::is_terminal();
        let format = self.output.unwrap_or(if terminal { Format::Text } else { Format::Json });
        if format == Format::Text && !terminal {
            let way_out = "-o text is a screen, and standard output is no terminal; take -o json";
            return Err(QuestionFailure::Question(way_out.to_owned()));
        }
        let client = self.server.connect().await?;
        match format {
            Format::Json => watch::watch_lines(&client, &mut io::stdout()).await?,
            Format::Text => watch::watch_screen(&client, terminal::style()).await?,
        }
        Ok(CommandOutput::data(String::new()))
    }
}
