//! The agent: reads its command line, and runs on one thread. Nothing here starts a thread before the command of `run` is
//! started, because `run` first blocks the signals that it passes on.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser as _;
use plimsoll_agent::cli::Cli;
use tokio::runtime;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .with_env_var("PLIMSOLL_LOG")
        .from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => ExitCode::from(runtime.block_on(cli.execute())),
        Err(error) => {
            // nobody is left to tell if standard error is closed
            drop(writeln!(io::stderr(), "plimsoll: cannot start: {error}"));
            ExitCode::from(125)
        }
    }
}
