//! A real build, measured, predicted and judged: a server on its embedded store, the crate `regex` compiled several times through
//! the agent, one attempt with a memory limit that is too small, then what `predict`, `should-retry` and `stats` say. Leaves
//! the server running.
//!
//! With `--cluster` it shows three servers over one PostgreSQL instead: the server that serves is killed, then the database, and nothing is
//! lost.
//!
//! Both programs are in this one, so that one build is enough. The name that it is started by says which part it plays:
//!
//! | name | part |
//! |---|---|
//! | `plimsoll-server` | the server |
//! | `plimsoll` | the agent |
//! | any other | the story, which makes links with these two names to itself |

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the story is printed on stdout")]

mod cast;
mod cluster;
mod story;

use std::{
    env,
    ffi::{OsStr, OsString},
    path::Path,
    process::ExitCode,
};

use anyhow::bail;

fn main() -> ExitCode {
    let program = env::args_os().next().unwrap_or_default();
    // before anything else: both programs expect a process in which nothing was started
    match Path::new(&program).file_name().and_then(OsStr::to_str) {
        Some(cast::SERVER) => plimsoll_server::main(),
        Some(cast::AGENT) => plimsoll_agent::main(),
        _ => match show() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("demo: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}

fn show() -> anyhow::Result<()> {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    match words.first().and_then(|word| word.to_str()) {
        None => story::tell(),
        Some("--cluster") => cluster::show(),
        Some(_) => bail!("there is one option: --cluster"),
    }
}
