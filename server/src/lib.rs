//! Keeps what builds used, predicts what the next one needs, and judges failed ones.
//!
//! Arrows point one way: [`main`] -> [`App`] -> (`grpc`, `http`) -> (`ingest`, [`predict`], [`retry`], [`admission`], [`gantry`], `stats`) -> [`domain`],
//! and `ingest` -> [`store`]. `domain`, `predict`, `retry`, `admission`, `gantry` and `stats` do no I/O and know no clock.
//!
//! | module | what it does |
//! |---|---|
//! | `config` | reads all settings, reports all mistakes |
//! | `checked` | what callers say of a build, with its bounds |
//! | `cli` | the commands beside serving |
//! | `program` | the life of the process |
//! | `app` | binds, opens, serves, drains |
//! | `cli`, `admin` | the commands beside serving: what they print, what they do |
//! | `grpc`, `http` | convert, call, convert |
//! | `ingest` | the only writer but of tickets: open attempts, acknowledgements, seals, verdicts |
//! | `learned` | the history, shared |
//! | `answers` | predictions worked out since the history last changed |
//! | `judging` | rules and failures seen before, shared |
//! | `placing` | the pools in force, and what is open in them, shared |
//! | `demand` | what each pool needs, for autoscalers |
//! | `reload` | files that are read again while the server runs |
//! | [`predict`] | sizes for the next attempt, with their reasons |
//! | [`retry`] | causes and verdicts |
//! | `import` | recorded history from files |
//! | `replay` | the predictor and the rules of others over recorded history |
//! | `simulate` | recorded history on nodes of a size, packed first-fit |
//! | [`admission`] | pods of CI jobs, and what becomes of them |
//! | [`gantry`] | what stock Spack clients say and hear |
//! | `guard` | who may call, in force |
//! | [`placement`] | pools, the rules over them, kinds of builds, and the rules of tickets |
//! | `ticketing` | tickets, kept: a lock, a clock and a disk around those rules; writes them itself |
//! | `identity` | who calls, and what it may do |
//! | [`privacy`] | what only those see who are named for a project |
//! | [`shadow`] | which builds get what is predicted for them, and what the others would have got |
//! | [`fuzz`] | every parser of foreign bytes, for fuzzers |
//! | `mask` | secrets in foreign text |
//! | `frames` | connections that send frames of HTTP/2 without messages |
//! | `log`, `traces` | where log lines go, and spans |
//! | `threads` | those that yield to others |
//! | `outgoing` | what the server asks of others over HTTP |
//! | `gitlab` | job hooks, and what GitLab is asked about them |
//! | `stats` | totals, groups, steps |
//! | [`store`] | bytes on disk: format, sled, memory twin |
//! | [`domain`] | the words as types |

mod admin;
pub mod admission;
mod answers;
mod app;
mod checked;
mod cli;
mod clock;
mod config;
mod demand;
pub mod domain;
mod files;
mod frames;
pub mod fuzz;
pub mod gantry;
pub mod gitlab;
mod grpc;
mod guard;
mod http;
mod identity;
mod import;
mod incoming;
mod ingest;
mod judging;
mod learned;
mod log;
mod mask;
mod metrics;
mod outgoing;
#[cfg(test)]
#[path = "../../tests/src/patience.rs"]
pub mod patience;
pub mod placement;
mod placing;
pub mod predict;
pub mod privacy;
mod program;
mod reload;
mod replay;
pub mod retry;
pub mod shadow;
mod simulate;
pub mod stats;
pub mod store;
mod threads;
mod ticketing;
mod tls;
#[cfg(not(feature = "otlp"))]
#[path = "no_traces.rs"]
mod traces;
#[cfg(feature = "otlp")]
mod traces;

pub use app::{Addresses, App};
pub use cli::{Cli, Command};
pub use config::{Args, Config, InForce, Loaded, LogFormat, Mistake};
pub use ingest::Retain;
pub use log::Log;
pub use program::main;
pub use threads::agent_threads;
