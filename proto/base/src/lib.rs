//! What the programs of Plimsoll share beside the wire: their own files, certificates, logs and quantities.
//!
//! | module | what it is |
//! |---|---|
//! | [`own_files`] | how both programs open their own files |
//! | [`certificate`] | when a certificate expires, and how it is signed |
//! | [`checks`] | the results of `doctor` |
//! | [`ci`] | the CI systems: what their variables and logs say, one file for each |
//! | [`log_filter`] | which lines the programs log |
//! | [`log_excerpt`], [`unpack`] | the lines of a build's log that tell why it failed; logs that are packed |
//! | [`quantity`] | how memory and cores are written |
//! | [`named_enum`](named_enum!) | declares an enum with a name for each variant |
//! | [`with_defaults`](with_defaults!) | declares a struct with the default of each field |

pub mod certificate;
pub mod checks;
pub mod ci;
pub mod log_excerpt;
pub mod log_filter;
mod named_enum;
pub mod own_files;
pub mod quantity;
pub mod unpack;
mod with_defaults;
