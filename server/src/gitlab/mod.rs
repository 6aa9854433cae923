//! GitLab: what becomes of its job hooks, and what it is asked in return.
//!
//! | module | what it does |
//! |---|---|
//! | `hooks` | takes a hook once, hands it on |
//! | `record`, `spool` | hooks that are taken, on disk until they are worked on |
//! | `told` | those that are worked on and wait for their attempt |
//! | `follow` | asks GitLab about each ended job, and has a failed one judged |
//! | `client` | one request with its bounds: time, bytes, tries |
//! | `pace` | when the next request may go out |
//! | `read` | GitLab's answers |
//! | `trace` | what the end of a job's log says |
//!
//! A hook is taken at once and worked on later. Without a token for GitLab it tells what it says itself; with one, the end of the
//! log and the other runs of the job are fetched, a failed job gets its verdict although nobody asked for one, and a build that
//! found its work done teaches nothing. GitLab that is slow, busy or gone delays nothing but this: the hook then counts alone.

mod client;
mod follow;
pub(crate) mod foreign;
mod hooks;
mod pace;
mod read;
mod record;
mod settings;
mod spool;
#[cfg(test)]
mod tests;
mod told;
mod trace;

pub(crate) use client::Client;
pub(crate) use follow::Follower;
pub(crate) use hooks::{Hooks, Taken};
pub(crate) use pace::Terms;
pub use settings::{Place, Settings};
pub(crate) use spool::{Found, Spool};
