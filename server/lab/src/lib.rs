//! Recorded history from files: what operators try before they switch the server on, with the server's own rules.
//!
//! | module | what it does |
//! |---|---|
//! | [`import`] | recorded history from files: summaries to learn from or to replay |
//! | [`replay`] | the predictor and the rules of others over recorded history |
//! | [`simulate`] | recorded history on nodes of a size, packed first-fit |
//! | [`suggest`] | which packages deserve a powerful builder, and what a list of them does |
//! | [`size`] | what a server needs for a number of builds |
//! | [`classify`] | recorded failures, judged |
//!
//! A library: the options, the files of the operator and what is printed belong to the commands of the server. Begin with [`import`].

pub mod classify;
mod gzip;
pub mod import;
pub mod replay;
pub mod simulate;
pub mod size;
pub mod suggest;
