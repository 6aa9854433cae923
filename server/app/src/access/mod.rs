//! Identity and permissions of callers, why a request is refused, and which parts of attempts are hidden from some of them.

pub(crate) mod guard;
pub(crate) mod identity;
pub(crate) mod own_log;
pub mod privacy;
pub(crate) mod redaction;
pub(crate) mod refusal;
pub(crate) mod reports;
pub(crate) mod shared_secret;

pub(crate) use refusal::{Refusal, Reply};
