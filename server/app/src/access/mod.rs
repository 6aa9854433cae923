//! Who calls, what the caller may do, and what only some may see.

pub(crate) mod guard;
pub(crate) mod identity;
pub mod privacy;
pub(crate) mod shared_secret;
