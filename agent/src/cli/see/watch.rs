//! `plimsoll watch`.

use std::io;

use clap::Args;

use super::{STATUSES, look};
use crate::{
    ask::{Answer, Failure, Format, watch},
    cli::ServerArgs,
};

/// Show what runs, live: a screen on a terminal (q ends it), one JSON object on each line otherwise.
#[derive(Debug, Args)]
#[command(after_help = STATUSES)]
pub(in crate::cli) struct WatchArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// How to write it [default: text on a terminal, else json].
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

impl WatchArgs {
    pub(in crate::cli) async fn ask(self) -> Result<Answer, Failure> {
        let terminal = look::is_terminal();
        let format = self.output.unwrap_or(if terminal { Format::Text } else { Format::Json });
        if format == Format::Text && !terminal {
            let way_out = "-o text is a screen, and standard output is no terminal; take -o json";
            return Err(Failure::Question(way_out.to_owned()));
        }
        let client = self.server.connect().await?;
        match format {
            Format::Json => watch::lines(&client, &mut io::stdout()).await?,
            Format::Text => watch::screen(&client, look::look()).await?,
        }
        Ok(Answer { output: String::new(), status: 0 })
    }
}
