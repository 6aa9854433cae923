//! Works on recorded history from files, with the server's own rules: operators can try the server before they install it.
//!
//! | module | what it does |
//! |---|---|
//! | [`import`] | turns files of recorded history into summaries, for predictions or for replays |
//! | [`replay`] | compares the sizes of this predictor and of other rules over recorded history |
//! | [`simulate`] | packs recorded builds onto nodes by first fit, to compare fleets and sizes |
//! | [`suggest`] | which packages deserve a powerful builder, and what a list of them does |
//! | [`size`] | the CPU, memory, disk and network that a server needs for a number of builds |
//! | [`classify`] | judges recorded failures |
//!
//! This is a library: the server's commands read the options and the operator's files, and print the results. Begin with [`import`].

pub mod classify;
pub mod import;
pub mod replay;
pub mod simulate;
pub mod size;
pub mod suggest;
