//! GitLab: processes its job hooks, and asks it about jobs.
//!
//! | module | content |
//! |---|---|
//! | `event` | kind of a hook, from header and body |
//! | `job_hook` | parses a job hook into a report on an attempt |
//! | `hooks` | accepts each hook once, queues it |
//! | `queued_hooks` | an accepted hook, and the keys that identify repetitions |
//! | `stored_hooks` | accepted hooks, in the store until they are processed |
//! | `waiting_hooks` | hooks that wait for their attempt |
//! | `follow` | asks GitLab about each ended job, and requests a verdict for a failed one |
//! | `client` | one request with its bounds: time, bytes, tries |
//! | `request_rate` | rate limit of requests |
//! | `listing` | all jobs of projects, for an import |
//! | `answers` | parses GitLab's answers |
//! | `trace` | reads the end of a job's log |
//!
//! A hook is accepted at once and processed later. Without a token for GitLab only the content of
//! the hook is used. With a token, the end of the log and the other runs of the job are fetched, a
//! failed job gets a verdict without asking for one, and a build that found its work done does not
//! count for predictions. If GitLab does not answer, only the content of the hook is used.

mod answers;
mod client;
mod event;
mod follow;
pub(crate) mod foreign;
mod hooks;
mod job_hook;
mod listing;
mod queued_hooks;
mod request_rate;
mod stored_hooks;
#[cfg(test)]
mod tests;
mod trace;
mod waiting_hooks;

pub(crate) use answers::web_host;
pub(crate) use client::GitlabClient;
pub(crate) use event::{DELIVERY_HEADER, EVENT_HEADER, HookEvent, HookFault, INSTANCE_HEADER, SECRET_HEADER};
pub(crate) use follow::Follower;
pub(crate) use hooks::{HookResult, Hooks};
pub(crate) use job_hook::{EndedJob, ParsedHook, read as read_hook};
pub(crate) use listing::{ListFailure, list_jobs};
pub(crate) use request_rate::PaceTerms;
pub(crate) use stored_hooks::StoredHook;

pub use crate::runtime::settings::by_module::gitlab::{BaseUrl, Settings};

/// Most ended jobs in the queue for requests to GitLab: those of a pipeline of thousands of jobs that is
/// canceled. About 30 MB.
const QUEUE: usize = 12_288;
