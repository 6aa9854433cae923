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
//! | `plimsoll`, `signal-witness`, `rescue-guardian` | the agent, and what it starts beside a build |
//! | any other | the story, which makes links with the first two names to itself |

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

/// The names by which the agent starts this program again beside a build: to watch for signals, and to continue what is paused.
const WITNESS: &str = "signal-witness";
const GUARDIAN: &str = "rescue-guardian";

fn main() -> ExitCode {
    let program = env::args_os().next().unwrap_or_default();
    // before anything else: both programs expect a process in which nothing was started
    match Path::new(&program).file_name().and_then(OsStr::to_str) {
        Some(cast::SERVER) => plimsoll_server::main(),
        Some(cast::AGENT | WITNESS | GUARDIAN) => plimsoll_agent::main(),
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
    inherit_nothing();
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    match words.first().and_then(|word| word.to_str()) {
        None => story::tell(),
        Some("--cluster") => cluster::show(),
        Some(_) => bail!("there is one option: --cluster"),
    }
}

/// Keeps the descriptors of this program's caller out of all that it starts: a server that is left running would hold the caller's locks and
/// pipes open. Kernels before 5.11 do not know how, and refuse.
#[expect(unsafe_code, reason = "no crate has this call in a safe form")]
fn inherit_nothing() {
    const FIRST_UNUSUAL: libc::c_uint = 3;
    // SAFETY: sets a flag on descriptors; no memory is shared with the kernel, and no descriptor is closed
    let _refused = unsafe {
        libc::syscall(libc::SYS_close_range, FIRST_UNUSUAL, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
}
