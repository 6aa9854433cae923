//! Measures what a build uses on this machine: memory and CPU, and how the kernel limited them.
//!
//! | module | what it does |
//! |---|---|
//! | [`kernel`] | reads files of the kernel below a root path |
//! | [`reading`] | the measurements of a build at one moment |
//! | [`cgroup`] | finds cgroups, creates one for a run, reads their counters |
//! | [`proctree`] | adds up the memory and CPU time of processes, if no cgroup counts them |
//! | `huge_pages` | counts huge pages of hugetlbfs, by a cgroup or by processes |
//! | [`meter`] | chooses the best of these ways for one build |
//! | [`offload`] | detects builds that have their work done elsewhere: by docker, bazel, distcc and others |
//! | [`processes`] | looks at single processes: the largest one, compilers |
//! | [`rescue`] | decides what to do for a build near its memory limit |
//! | [`sampler`] | decides when to take readings, and converts them to samples |
//! | [`clock`] | reads the time of day |
//! | `fake_kernel` | a kernel of text files, for tests (feature `fixtures`) |
//!
//! This crate has no code for servers, command lines, or the delivery of samples.

pub mod cgroup;
pub mod clock;
#[cfg(any(test, feature = "fixtures"))]
pub mod fake_kernel;
mod huge_pages;
pub mod kernel;
pub mod meter;
pub mod offload;
pub mod processes;
pub mod proctree;
pub mod reading;
pub mod rescue;
pub mod sampler;
