//! The programs on a real kernel with cgroup v2: a small virtual machine boots once, runs the scenarios of
//! `guest/scenarios.sh` with agent and server inside, and every test judges one of them.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr,
    reason = "a failed step should fail the test where it stands"
)]

mod archive;
mod attached;
mod killed;
mod lives;
mod machine;
mod need;
mod packages;
mod places;
mod raised;
mod record;
mod rescue;
mod starved;
