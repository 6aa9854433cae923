//! The program `plimsoll`: runs or follows a build, measures it, streams it to the server, and asks for sizes and verdicts.
//!
//! | module | what it does |
//! |---|---|
//! | `program` | the life of the process |
//! | `log_filter` | what is logged |
//! | [`commands`] | the command line |
//! | [`key`] | what is built, from the environment and the options |
//! | [`run`] | runs a command, passes signals and the exit code through |
//! | [`attach`] | follows a build that another program has started |
//! | [`attempt`] | how both begin and end |
//! | [`output`] | passes the command's output through, and reads phases out of it |
//! | [`standard_error`] | writes to standard error without being held up by its reader |
//! | [`job_summary`] | what is said at the end: a line, a page for the job's log, a file |
//! | `doctor` | checks the agent's configuration and its machine, line by line |
//! | [`ask`] | predictions, verdicts and statistics, for people and for jobs |
//!
//! What a build uses is measured in `plimsoll_measure`; samples and questions reach the server through `plimsoll_client`.

pub mod ask;
pub mod attach;
pub mod attempt;
pub mod commands;
mod doctor;
pub mod job_summary;
pub mod key;
mod log_filter;
pub mod output;
mod program;
pub mod run;
pub mod standard_error;
mod terminal_width;

pub use program::main;
