//! What a build needs, and whether a failed one is worth another try: the rules of the server.
//!
//! Everything here is a function of what it is given: it reads no clock, no file and no network, and nothing waits. So a test can
//! replay it, and `replay` and `simulate` run the same code as the server. What is shared between threads has its lock here
//! ([`shared_history`], [`stats`]); who holds it waits for nothing.
//!
//! | module | what it does |
//! |---|---|
//! | [`domain`] | the words as types: key, attempt, sample, summary, history, prediction, verdict |
//! | [`predict`] | sizes for the next attempt, with their reasons |
//! | [`recommend`] | what a job should request, against what it requests today |
//! | [`retry`] | causes and verdicts |
//! | [`placement`] | pools, the rules over them, kinds of builds, and the rules of tickets |
//! | [`stats`] | totals, groups, steps |
//! | [`shared_history`] | the history and its statistics, shared |
//! | [`shadow`] | which builds get what is predicted for them, and what the others would have got |
//! | [`mask`] | secrets in foreign text |
//! | [`validated`] | what callers say of a build, with its bounds |
//! | [`gantry`] | what stock Spack clients say and hear: specs, queries, variables |
//! | `fuzz` | its parsers of foreign bytes, for fuzzers (feature `fuzz`) |
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
