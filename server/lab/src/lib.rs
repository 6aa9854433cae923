//! Works on recorded history from files, with the server's own rules: operators can try the server before they install it.
//!
//! | module | what it does |
//! |---|---|
//! | [`import`] | turns files of recorded history into summaries, for predictions or for replays |
//! | [`replay`] | compares the sizes of this predictor and of other rules over recorded history |
//! | [`suggest`] | which packages deserve a powerful builder |
//! | [`classify`] | judges recorded failures |
//!
//! This is a library: the server's commands read the options and the operator's files, and print the results. Begin with [`import`].

pub mod classify;
pub mod import;
pub mod replay;
pub mod suggest;
