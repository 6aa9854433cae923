//! Control groups: the counters that the kernel keeps for a build.
//!
//! `parse` parses the kernel's texts, `find` finds the folders of a process, `limits` the limits in force, [`CgroupReader`] keeps the files
//! open and reads them, [`BuildCgroup`] creates a group for one run, [`MovedGroups`] measures processes that leave that group, [`foreign`]
//! and [`pod`] find groups of other processes. Only `find` handles the mix of v1 and v2 (v1 controllers, and an empty v2 hierarchy).
//! [`crate::meter`] decides which way of measuring is used, and what happens if none works.

mod above;
mod find;
pub mod folder;
pub mod foreign;
mod limits;
mod moved;
mod nested;
mod own;
mod parse;
pub mod pod;
mod reader;

#[cfg(test)]
mod tests;

pub use find::{Cgroup, CgroupVersion, Cgroups, find};
pub use limits::{CgroupLimits, KillingLimit};
pub use moved::MovedGroups;
pub use own::{BuildCgroup, MIN_LIMIT_BYTES};
pub use reader::CgroupReader;
