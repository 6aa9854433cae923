//! Measures what a build uses on this machine: memory and CPU, and how the kernel limited them.
//!
//! | module | what it does |
//! |---|---|
//! | [`kernel`] | files of the kernel, read through a root path |
//! | [`reading`] | what is measured at one moment |
//! | [`cgroup`] | finds groups, makes one for a run, reads their counters |
//! | [`proctree`] | adds up processes, where no cgroup counts them |
//! | [`meter`] | chooses the best of these ways for one build |
//! | [`offload`] | builds that have their work done elsewhere, by docker, bazel, distcc and the like |
//! | [`sampler`] | when to read, and counters that never go back: readings become samples |
//! | [`clock`] | the time of day |
//! | `fake_kernel` | a kernel of text files, for tests (feature `fixtures`) |
//!
//! This crate has no code for servers, command lines, or the delivery of samples.

pub mod cgroup;
pub mod clock;
#[cfg(any(test, feature = "fixtures"))]
pub mod fake_kernel;
pub mod kernel;
pub mod meter;
pub mod offload;
pub mod proctree;
pub mod reading;
pub mod sampler;
