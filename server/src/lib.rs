//! Keeps what builds used, predicts what the next one needs, and judges failed ones.
//!
//! Arrows point one way: `main` -> [`App`] -> (`grpc`, `http`) -> (`ingest`, [`predict`], [`retry`], `stats`) -> [`domain`],
//! and `ingest` -> [`store`]. `domain`, `predict`, `retry` and `stats` do no I/O and know no clock.
//!
//! | module | what it does |
//! |---|---|
//! | `config` | reads all settings, reports all mistakes |
//! | `app` | binds, opens, serves, drains |
//! | `cli`, `admin` | the commands beside serving: what they print, what they do |
//! | `grpc`, `http` | convert, call, convert |
//! | `ingest` | the only writer: open attempts, acknowledgements, seals, verdicts |
//! | `learned` | the history, shared |
//! | [`predict`] | sizes for the next attempt, with their reasons |
//! | [`retry`] | causes and verdicts |
//! | `stats` | totals, groups, steps |
//! | [`store`] | bytes on disk: format, sled, memory twin |
//! | [`domain`] | the words as types |

mod admin;
mod app;
mod cli;
mod clock;
mod config;
pub mod domain;
mod grpc;
mod http;
mod ingest;
mod learned;
mod metrics;
pub mod predict;
pub mod retry;
mod stats;
pub mod store;

pub use app::App;
pub use cli::{Cli, Command};
pub use config::{Args, Config, Loaded, LogFormat, Mistake};
pub use ingest::Retain;
