//! GitLab: what becomes of its job hooks, and what it is asked in return.
//!
//! | module | what it does |
//! |---|---|
//! | `event` | which hook a request is, and what its body says |
//! | `job_hook` | a job hook as what it tells of an attempt |
//! | `hooks` | takes a hook once, hands it on |
//! | `waiting` | a hook that is taken, and the names under which it is known again |
//! | `record`, `spool` | hooks that are taken, on disk until they are worked on |
//! | `waiting_hooks` | those that are worked on and wait for their attempt |
//! | `follow` | asks GitLab about each ended job, and has a failed one judged |
//! | `client` | one request with its bounds: time, bytes, tries |
//! | `pace` | when the next request may go out |
//! | `listing` | all jobs of projects, for an import |
//! | `read` | GitLab's answers |
//! | `trace` | what the end of a job's log says |
//!
//! A hook is taken at once and worked on later. Without a token for GitLab it counts by itself; with one, the end of the
//! log and the other runs of the job are fetched, a failed job gets its verdict without a question, and a build that
//! found its work done does not count for predictions. GitLab that is slow, busy or gone delays nothing but this: the hook then counts alone.

mod client;
mod event;
mod follow;
pub(crate) mod foreign;
mod hooks;
mod job_hook;
mod listing;
mod pace;
mod read;
mod record;
mod spool;
#[cfg(test)]
mod tests;
mod trace;
mod waiting;
mod waiting_hooks;

pub(crate) use client::Client;
pub(crate) use event::{DELIVERY, EVENT, HookEvent, HookFault, INSTANCE, SECRET};
pub(crate) use follow::Follower;
pub(crate) use hooks::Hooks;
pub(crate) use job_hook::{Ended, Hook, read as read_hook};
pub(crate) use listing::list_jobs;
pub(crate) use pace::Terms;
pub(crate) use spool::{Found, Spool};

pub use crate::runtime::settings::by_module::gitlab::{BaseUrl, Settings};

/// Ended jobs that may wait to be asked about: those of some minutes of a large GitLab. About 10 MB.
const QUEUE: usize = 4096;
