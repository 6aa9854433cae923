//! The program `plimsoll`: runs or follows a build, measures it, sends the samples to the server, and asks for sizes and verdicts.
//!
//! | module | content |
//! |---|---|
//! | `program` | the life of the process |
//! | [`commands`] | the command line |
//! | [`key`] | the key of a build, from the environment and the options |
//! | [`run`] | runs a command, passes signals and the exit code through |
//! | [`attach`] | follows a build that another program has started |
//! | [`attempt`] | start and end of an attempt, for `run` and `attach` |
//! | [`output`] | passes the command's output through, and reads phases out of it |
//! | [`standard_error`] | writes to standard error without blocking on its reader |
//! | [`job_summary`] | the report at the end: a line, a page for the job's log, a file |
//! | `wake_timer` | wakes the agent when a reading is due |
//! | `doctor` | checks the agent's configuration and its machine |
//! | [`ask`] | predictions, verdicts and statistics, for people and for jobs |
//!
//! `plimsoll_measure` measures builds; `plimsoll_client` sends samples and requests to the server.

pub mod ask;
pub mod attach;
pub mod attempt;
pub mod commands;
mod doctor;
pub mod job_summary;
pub mod key;
pub mod output;
mod own_process;
mod program;
mod rescue;
pub mod run;
pub mod standard_error;
mod terminal_width;
mod wake_timer;

pub use program::main;
