//! Identity and permissions of callers, and what is visible only to some.

pub(crate) mod guard;
pub(crate) mod identity;
pub mod privacy;
pub(crate) mod shared_secret;
