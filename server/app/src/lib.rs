//! The server program: stores what builds used, predicts what the next build needs, and says
//! whether a failed build should be retried.
//!
//! It uses three crates, which do not use this one: [`plimsoll_core`] (the rules),
//! [`plimsoll_store`] (the disk), [`plimsoll_lab`] (recorded history from files). Everything that
//! needs a clock, a network or a command line is here.
//!
//! Dependencies point one way: [`main`] -> [`App`] -> (`transport`, `integrations`) -> `service` -> `verdicts` -> `sessions` -> (its parts) -> `state`
//! -> (`access`, `runtime`) -> the crates below. A table in `tests/support/tests/house.rs` lists which module may use which.
//!
//! | module | content |
//! |---|---|
//! | `program` | the life of the process |
//! | `app` | starts, serves, drains |
//! | `commands` | commands other than serving |
//! | `transport` | gRPC, HTTP and the web page: convert, call, convert |
//! | `integrations` | other systems: GitLab's job hooks ([`gitlab`]), pods of CI jobs ([`kubernetes`]), KEDA's triggers, Prometheus |
//! | `service` | the logic of every answer, once: sizes, attempts, statistics, tickets, pods |
//! | `sessions` | the only writer except for tickets: open attempts, commits, acknowledgements |
//! | `sealing` | compacts samples into sealed blocks |
//! | `retention` | downsamples and deletes old data |
//! | `ci_outcomes` | outcomes of attempts according to the CI system, and when they are counted |
//! | `startup` | reads the state from disk at a start |
//! | `verdicts` | decides every verdict: questions, evidence, corrections |
//! | `state` | shared state: pools in force, tickets, rules of verdicts in force and what earlier verdicts taught |
//! | `access` | identity and permissions of callers, and what only some see ([`privacy`]) |
//! | `runtime` | settings, clock, logs, metrics, reloaded files, connections |
//! | `fuzz` | fuzz targets: every parser of untrusted bytes |

mod access;
mod app;
mod ci_outcomes;
mod commands;
pub mod fuzz;
mod integrations;
mod program;
mod retention;
mod runtime;
mod sealing;
mod service;
mod sessions;
mod startup;
mod state;
mod transport;
mod verdicts;

pub use access::privacy;
pub use app::{Addresses, App};
pub use commands::{Cli, Command};
pub use integrations::{gitlab, kubernetes};
pub use plimsoll_store::threads::agent_threads;
#[cfg(test)]
pub(crate) use plimsoll_support::{fake_http, patience};
pub use program::main;
pub use runtime::{
    log::Log,
    settings::{Args, Config, InForce, LogFormat, MachineMemory, Mistake},
};
