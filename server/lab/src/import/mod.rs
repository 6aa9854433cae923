//! Recorded history from files: what others measured becomes summaries to learn from or to replay.
//!
//! CSV (first line names the columns) or JSON lines (one object a line), plain or gzip; or the SQLite database of Gantry
//! (`gantry`). What Prometheus knows of the pods of builds is read by [`prometheus`]. The file is read as a stream: one
//! row is held at a time. A row that makes no sense is refused with its line and column and counted; the others go on. What
//! makes the file as a whole unusable (a missing column, half a gzip) is an error.
//!
//! | column | unit | |
//! |---|---|---|
//! | `package` | text | needed |
//! | `wall_ms` | milliseconds | needed |
//! | `peak_bytes` | bytes, 64 KiB to 64 TiB | needed; of an attempt that memory stopped, what was seen of it |
//! | `attempt` | id | else made from what the row says: the same row has the same id in every file, wherever it stands; rows of a file that say the same are numbered |
//! | `project`, `stack`, `version`, `variants`, `compiler`, `compiler_version`, `arch`, `build_system`, `ref`, `owner` | text | the key |
//! | `submitted_ms` | milliseconds since 1970 | in every row or in none: without it the order of the file is the order of time, and an import counts the rows as ended at its own time |
//! | `build_jobs`, `cores` | count | jobs; cores stand in for jobs that are not given |
//! | `input_bytes` | bytes | known before the start |
//! | `mean_bytes`, `cpu_usec` | bytes, microseconds | |
//! | `requested_bytes` | bytes | what was asked for: the preset |
//! | `outcome` | `success`, `failed`, `oom`, `starved` | else success |
//! | `untrusted` | `true`, `false` | a build of a stranger's change: it lowers no prediction; else false |

mod columns;
mod commit;
mod draft;
pub mod foreign;
#[cfg(feature = "sqlite")]
mod gantry;
pub mod prometheus;
mod reader;
mod refusals;
mod source;
mod stored;
#[cfg(test)]
mod tests;
mod whole;

pub use commit::{ImportReport, RecordDefaults, commit, commit_records, refused_whole};
pub use draft::Record;
pub use reader::Reader;
pub use refusals::Refusals;
pub use source::FileError;
