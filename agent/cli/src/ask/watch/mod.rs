//! Shows running attempts live: as JSON lines, or as a screen.
//!
//! The module `board` keeps the rows without any input or output; `screen` draws them and reads the keys.

mod board;
mod screen;

use std::io::{self, Write};

pub use screen::watch_screen;

use plimsoll_client::questions::{Client, QuestionFailure};

use super::json;

/// Writes each message of the server as a line of JSON, until the output is closed or the server ends the
/// watch.
/// Errors: the server did not answer, or ended the watch.
pub async fn watch_lines(client: &Client, out: &mut (dyn Write + Send)) -> Result<(), QuestionFailure> {
    let mut watch = client.watch().await?;
    loop {
        let message = watch.next().await?;
        let line = json::render_watch(&message);
        match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(QuestionFailure::NoAnswer(format!("standard output: {error}"))),
            Ok(()) => {}
        }
    }
}
