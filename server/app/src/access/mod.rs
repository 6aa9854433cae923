//! Identity and permissions of callers, and which parts of attempts are hidden from some of them.

pub(crate) mod guard;
pub(crate) mod identity;
pub mod privacy;
pub(crate) mod shared_secret;
