//! What it costs, each figure beside its limit in the same run: samples against a bare stream, a durable batch against one
//! sync of the file system, Predict against an empty call, the agent beside an idle command. Medians of several rounds, turn
//! about, so that noise hits both; loopback only; ends by itself.
//!
//! `cargo run --release --locked --bin bench -- [ingest] [disk] [predict] [agent] [allocation] [logs]
//! [rescue] [rescue-ends] [cluster]`; all of them without a word.

#![expect(clippy::print_stdout, reason = "figures go to stdout")]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "figures are printed with three digits"
)]

mod agent;
mod asking;
mod away;
mod cluster;
mod disk;
mod front;
mod ingest;
mod logs;
mod rescue;
mod rescue_ends;

use std::env;

use plimsoll_tests::{Profile, Programs, QUIET, Server, allow_open_files, bare};

/// Rounds of each measurement.
const ROUNDS: usize = 5;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if bare::is_asked() {
        return bare::serve().await;
    }
    let words: Vec<String> = env::args().skip(1).collect();
    let asked = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    allow_open_files()?;
    let programs = Programs::build(Profile::Release)?;
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    let server = Server::start_with(&programs, &data, &["--log", QUIET])?;
    let bare = bare::BareServer::start()?;
    if asked("ingest") {
        ingest::against_bare(&server, &bare, &data).await?;
    }
    if asked("disk") {
        disk::against_sync(&server, dir.path()).await?;
    }
    if asked("predict") {
        asking::against_empty(&server, &bare).await?;
    }
    if asked("agent") {
        agent::beside_nothing(&programs, &server, dir.path())?;
    }
    drop(server);
    if asked("logs") {
        logs::beside_a_scan()?;
    }
    if asked("rescue") {
        rescue::beside_kills(&programs, dir.path())?;
    }
    if asked("rescue") || asked("rescue-ends") {
        rescue_ends::in_pairs(&programs, dir.path())?;
    }
    if asked("allocation") {
        let specs = words.iter().find_map(|word| word.strip_prefix("specs="));
        front::over_a_million((&programs, &bare), dir.path(), specs).await?;
    }
    if asked("cluster") {
        cluster::over_postgres(&programs, dir.path()).await?;
    }
    Ok(())
}
