//! Keeps what builds used, predicts what the next one needs, and judges failed ones: the server program.
//!
//! Three crates stand below, and the compiler guards that they name nothing above them: [`plimsoll_core`] (the rules), [`plimsoll_store`]
//! (the disk), [`plimsoll_lab`] (recorded history from files). Here is what has a clock, a network or a command line.
//!
//! Arrows point one way: [`main`] -> [`App`] -> (`transport`, `integrations`) -> `service` -> `sessions` -> (its parts) -> `state` -> (`access`,
//! `runtime`) -> the crates below. A table in `tests/support/tests/house.rs` names which room may use which.
//!
//! | module | what it does |
//! |---|---|
//! | `program` | the life of the process |
//! | `app` | binds, opens, serves, drains |
//! | `commands` | the commands beside serving: what they print, what they do |
//! | `transport` | gRPC, HTTP and the web page: convert, call, convert |
//! | `integrations` | words of other systems: GitLab's job hooks ([`gitlab`]), pods of CI jobs ([`kubernetes`]), KEDA's triggers, Prometheus' formats |
//! | `service` | every rule of an answer, once: sizes, verdicts, attempts, statistics, tickets, pods |
//! | `sessions` | the only writer but of tickets: open attempts, commits, acknowledgements, verdicts |
//! | `sealing` | loose samples become sealed blocks |
//! | `retention` | what gets old becomes fewer and goes |
//! | `ci_outcomes` | how attempts ended as the CI system says, and when they are counted |
//! | `startup` | what a start reads from the disk |
//! | `verdict_records` | the verdicts on one attempt, and the cause that they find |
//! | `state` | shared state: rules and pools in force, tickets |
//! | `access` | who calls, who may, and what only some see ([`privacy`]) |
//! | `runtime` | settings, clock, logs, metrics, files that are read again, connections |
//! | `fuzz` | every parser of foreign bytes, for fuzzers |

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
mod verdict_records;

pub use access::privacy;
pub use app::{Addresses, App};
pub use commands::{Cli, Command};
pub use integrations::{gitlab, kubernetes};
pub use plimsoll_store::threads::agent_threads;
#[cfg(test)]
pub(crate) use plimsoll_support::patience;
pub use program::main;
pub use runtime::{
    log::Log,
    settings::{Args, Config, InForce, Loaded, LogFormat, MachineMemory, Mistake},
};
