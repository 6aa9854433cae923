//! Control groups: the counters that the kernel keeps for a build.
//!
//! `parse` turns texts into numbers, `find` says which folders belong to a process, `limits` what holds there, [`CgroupReader`] keeps
//! the files open and reads them, [`BuildCgroup`] makes a group for one run, [`foreign`] and [`pod`] find groups of others. v1 and v2
//! and the mix of both (v1 controllers beside an empty v2 hierarchy) are distinguished by `find` alone. Which of several ways is taken, and what happens if none works, is
//! decided in [`crate::meter`].

mod above;
mod find;
pub mod folder;
pub mod foreign;
mod limits;
mod nested;
mod own;
mod parse;
pub mod pod;
mod reader;

#[cfg(test)]
mod tests;

pub use find::{Cgroup, CgroupVersion, Cgroups, find};
pub use limits::CgroupLimits;
pub use own::{BuildCgroup, MIN_LIMIT_BYTES};
pub use reader::CgroupReader;
