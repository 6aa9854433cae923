//! The server program: stores what builds used, predicts what the next build needs, and says
//! whether a failed build should be retried.
//!
//! Everything that needs a clock, a network or a command line is here. The crates below do not use this one: [`plimsoll_proto`] (the wire),
//! [`plimsoll_core`] (the rules), [`plimsoll_store`] (the disk), [`plimsoll_lab`] (recorded history from files), [`plimsoll_pages`] (HTML).
//!
//! Dependencies point one way: [`main`] -> `app` -> `admin` -> `door` -> (`ci`, `fleet`) -> `verdicts` -> `ingest` -> (`causes`, `tickets`)
//! -> `sizing` -> (`access`, `pools`) -> `runtime` -> the crates below. A table in `tests/support/tests/house.rs` lists which room may use which.
//!
//! | room | content |
//! |---|---|
//! | `app` | the life of the process: settings, open, serve, drain |
//! | `door` | gRPC, HTTP and the web page, with their connections: convert, call a room, convert |
//! | `ci` | other systems: GitLab's job hooks ([`gitlab`]), pods of CI jobs ([`kubernetes`]), KEDA's triggers, Prometheus |
//! | `fleet` | attempts as a caller may see them, statistics, proposals |
//! | `verdicts` | decides every verdict: questions, evidence, corrections |
//! | `ingest` | the writer of all but tickets: open attempts, commits, seals, ends, retention, and what is read at a start |
//! | `causes` | why a failure failed: rules in force, known failures, corrections |
//! | `tickets` | slots in pools with a limit |
//! | `sizing` | sizes of the next attempt, and the pool that it goes to |
//! | `pools` | the pools in force, and who holds their slots |
//! | `access` | who calls, what the caller may do and see ([`privacy`]) |
//! | `runtime` | what all rooms use: settings, clock, logs, metrics, reloaded files, requests to others |
//! | `admin` | commands other than serving |
//! | `fuzz` | fuzz targets: every parser of untrusted bytes |

mod access;
mod admin;
mod app;
mod causes;
mod ci;
mod door;
mod fleet;
pub mod fuzz;
mod ingest;
mod pools;
mod runtime;
mod sizing;
mod tickets;
mod verdicts;

pub use access::privacy;
pub use admin::{Cli, Command};
pub use app::{Addresses, App, program::main};
pub use ci::{gitlab, kubernetes};
pub use plimsoll_store::threads::agent_threads;
#[cfg(test)]
pub(crate) use plimsoll_support::{fake_http, patience};
pub use runtime::{
    log::Log,
    settings::{Args, Config, InForce, LogFormat, MachineMemory, Mistake},
};
