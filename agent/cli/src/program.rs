//! The agent's process: parses the command line, and runs the command on one thread. No other thread may start
//! before the command `run` has started its child process, because `run` first blocks the signals that it
//! forwards. The program is one call of [`main`], so that another program can embed the agent.

use std::{
    env,
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

use plimsoll_base::log_filter::for_all_crates;
use tokio::runtime;
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::{
    commands::Cli,
    rescue::guardian,
    run::{unmeasured, witness},
    standard_error::StderrLog,
};

/// The name by which a log filter selects the agent, and the other crates that this name includes.
const AGENT_CRATES: (&str, [&str; 2]) = ("plimsoll_agent", ["plimsoll_client", "plimsoll_measure"]);

/// Runs the command line of this process. The process must not have another thread yet.
pub fn main() -> ExitCode {
    if env::args_os().next().is_some_and(|name| name == witness::WITNESS_NAME) {
        return witness::serve();
    }
    if env::args_os().next().is_some_and(|name| name == guardian::GUARDIAN_NAME) {
        return guardian::serve();
    }
    if let Some(code) = unmeasured::guard(env::args_os()) {
        return ExitCode::from(code);
    }
    let (filter, problem) = log_filter();
    let lines = fmt::layer().with_writer(|| StderrLog);
    // no colours if the log goes to a file
    let lines = if io::stderr().is_terminal() { lines } else { lines.with_ansi(false) };
    tracing_subscriber::registry().with(filter).with(lines).init();
    if let Some(problem) = problem {
        tracing::warn!("{problem}");
    }
    let cli = Cli::from_process();
    match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let status = runtime.block_on(cli.execute());
            // do not wait for threads: a name lookup that hangs must not delay the end of the job
            runtime.shutdown_background();
            ExitCode::from(status)
        }
        Err(error) => {
            if let Some(code) = unmeasured::run_without_agent(env::args_os(), &error) {
                return ExitCode::from(code);
            }
            // if standard error is closed, the problem cannot be reported
            drop(writeln!(io::stderr(), "plimsoll: cannot start: {error}"));
            ExitCode::from(125)
        }
    }
}

/// Parses the log filter `PLIMSOLL_LOG`: a level, or `target=level` pairs separated by commas; the default is
/// warnings. An invalid filter must not stop a build, so it is reported, and warnings are logged.
fn log_filter() -> (Targets, Option<String>) {
    #[expect(
        clippy::disallowed_methods,
        reason = "the log is set up before anything else, and by nothing else"
    )]
    let wanted = env::var("PLIMSOLL_LOG").unwrap_or_default();
    let usual = Targets::new().with_default(LevelFilter::WARN);
    if wanted.is_empty() {
        return (usual, None);
    }
    match for_all_crates(&wanted, AGENT_CRATES.0, &AGENT_CRATES.1).parse() {
        Ok(filter) => (filter, None),
        Err(error) => (usual, Some(format!("PLIMSOLL_LOG {wanted:?} is not a filter, try `debug`: {error}"))),
    }
}
