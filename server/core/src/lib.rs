//! The rules of the server: how much a build needs, and whether a failed one should be retried.
//!
//! Everything here depends on its arguments alone: no clock, no files, no network, no async. So tests can replay it, and the
//! command `replay` runs the same code as the server. Locks for shared state are here too ([`shared_history`], [`stats`]); no code waits for
//! anything while it holds one.
//!
//! | module | content |
//! |---|---|
//! | [`domain`] | the terms as types: key, attempt, sample, summary, history, prediction, verdict |
//! | [`predict`] | sizes for the next attempt, with their reasons |
//! | [`recommend`] | what a job should request, compared with what it requests today |
//! | [`retry`] | causes and verdicts |
//! | [`placement`] | pools, the rules over them, kinds of builds, and the rules of tickets |
//! | [`stats`] | totals, groups, time series |
//! | [`shared_history`] | the history and its statistics, shared |
//! | [`shadow`] | which share of builds gets the predicted sizes, and what the others would have got |
//! | [`mask`] | masks secrets in untrusted text |
//! | [`validated`] | keys and other input from callers, checked against their bounds |
//! | [`gantry`] | what stock Spack clients send and get: specs, queries, variables |
//! | `fuzz` | parsers of untrusted bytes as fuzz targets (feature `fuzz`) |
//!
//! [`validated`] reads generated messages; `predict/words.rs` writes reasons with the generated enum of rungs. Begin with [`domain`], then
//! read [`predict`].

#[cfg(test)]
mod dice;
pub mod domain;
pub mod fuzz;
pub mod gantry;
pub mod mask;
pub mod placement;
pub mod predict;
pub mod recommend;
pub mod retry;
pub mod shadow;
pub mod shared_history;
pub mod stats;
pub mod validated;
