//! Measures a build, streams it to the server, and asks for sizes and verdicts.
//!
//! | module | what it does |
//! |---|---|
//! | `program` | the life of the process |
//! | [`cli`] | the command line |
//! | [`key`] | what is built, from the environment and the options |
//! | [`run`] | runs a command, passes signals and the exit code through |
//! | [`attach`] | follows a build that somebody else has started |
//! | [`attempt`] | how both begin and end |
//! | [`output`] | passes the command's output through, and reads phases out of it |
//! | [`report`] | what is said at the end: a line, a page for the job's log, a file |
//! | [`meter`], [`cgroup`], [`proctree`], [`kernel`] | reads what a build uses |
//! | [`outlet`] | writes to standard error without being held up by its reader |
//! | [`sampler`] | when to read, and counters that never go back |
//! | [`delivery`] | spool and uplink: keeps samples until the server has them on disk |
//! | [`ask`] | predictions, verdicts and statistics, for people and for jobs |

pub mod ask;
pub mod attach;
pub mod attempt;
pub mod cgroup;
pub mod cli;
pub mod clock;
pub mod delivery;
pub mod kernel;
pub mod key;
pub mod meter;
pub mod outlet;
pub mod output;
#[cfg(test)]
#[path = "../../tests/src/patience.rs"]
pub mod patience;
pub mod proctree;
mod program;
pub mod report;
pub mod run;
pub mod sampler;

pub use program::main;
