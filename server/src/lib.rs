//! Keeps what builds used, predicts what the next one needs, and judges failed ones.
//!
//! Arrows point one way: `main` -> [`App`] -> (`grpc`, `http`) -> (`ingest`, [`predict`], [`retry`], [`gantry`], `stats`) -> [`domain`],
//! and `ingest` -> [`store`]. `domain`, `predict`, `retry`, `gantry` and `stats` do no I/O and know no clock.
//!
//! | module | what it does |
//! |---|---|
//! | `config` | reads all settings, reports all mistakes |
//! | `app` | binds, opens, serves, drains |
//! | `grpc`, `http` | convert, call, convert |
//! | `ingest` | the only writer: open attempts, acknowledgements, seals, verdicts |
//! | `learned` | the history, shared |
//! | [`predict`] | sizes for the next attempt, with their reasons |
//! | [`retry`] | causes and verdicts |
//! | [`gantry`] | what stock Spack clients say and hear |
//! | `stats` | totals, groups, steps |
//! | [`store`] | bytes on disk: format, sled, memory twin |
//! | [`domain`] | the words as types |

mod app;
mod clock;
mod config;
pub mod domain;
pub mod gantry;
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
pub use config::{Args, Config, Loaded, LogFormat, Mistake};
