//! Measures a build, streams it to the server, and asks for sizes and verdicts.

pub mod ask;
pub mod cli;
pub mod delivery;
pub mod key;
pub mod quantity;
pub mod run;
