//! Measures a build, streams it to the server, and asks for sizes and verdicts.

pub mod cgroup;
pub mod clock;
pub mod delivery;
pub mod kernel;
pub mod meter;
pub mod proctree;
pub mod run;
pub mod sampler;
