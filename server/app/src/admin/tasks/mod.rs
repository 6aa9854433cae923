//! What commands do, apart from their options, output and exit status, which the parent module has.
//!
//! | module | content |
//! |---|---|
//! | [`backup`], [`link`] | fetches the backup of a running server |
//! | [`export`], [`export_corrections`] | lines of an export |
//! | [`init`] | the configuration of a new server |

pub(crate) mod backup;
pub(crate) mod export;
pub(crate) mod export_corrections;
pub(crate) mod init;
pub(crate) mod link;
#[cfg(test)]
mod tests;
