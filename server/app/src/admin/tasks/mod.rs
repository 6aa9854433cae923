//! Work on a whole store: backup, restore, check, compaction, export.
//!
//! A running server provides its backup itself (`GET /admin/backup`); everything else needs a store
//! that no server has open. [`init`] creates the configuration of a new server. The parent module
//! handles output and exit status of the commands.

pub(crate) mod backup;
pub(crate) mod export;
pub(crate) mod export_corrections;
pub(crate) mod init;
pub(crate) mod link;
#[cfg(test)]
mod tests;
