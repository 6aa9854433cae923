//! Control groups: the counters that the kernel keeps for a build.
//!
//! `parse` turns texts into numbers, `find` says which folders belong to a process, `limits` what holds there, [`Reader`] keeps
//! the files open and reads them, [`OwnGroup`] makes a group for one run, [`foreign`] and [`pod`] find groups of others. v1 and v2
//! and the mix of both (v1 controllers beside an empty v2 hierarchy) are told apart by `find` alone. Which of several ways is taken, and what happens if none works, is
//! decided in [`crate::meter`].

mod above;
mod find;
pub mod foreign;
mod limits;
mod nested;
mod own;
mod parse;
pub mod pod;
mod reader;

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod real_tests;

pub use find::{Group, Groups, Version, find};
pub use limits::Limits;
pub use own::{MIN_LIMIT_BYTES, OwnGroup};
pub use reader::Reader;
