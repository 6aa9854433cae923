//! Work on a whole store: back it up, restore it, read it through, make it small, write it out for others.
//!
//! A running server gives its backup itself (`GET /admin/backup`, to callers on the same machine only); everything else needs
//! a store that no server has open. [`init`] makes the configuration of a new server. What a command prints and when it ends is in `cli`.

pub(crate) mod backup;
pub(crate) mod export;
pub(crate) mod export_corrections;
pub(crate) mod init;
pub(crate) mod link;
#[cfg(test)]
mod tests;
