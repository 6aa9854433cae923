//! Imports recorded history from files: turns measurements of other programs into summaries, for predictions and for replays.
//!
//! A file is CSV (its first line names the columns) or JSON lines (one object on each line), plain or gzip. The module [`prometheus`] reads
//! what Prometheus has recorded of builds' pods. The file is read as a stream: one row is in memory at a time. An invalid row is refused
//! with its line and column, and counted; the other rows are used. What makes the file as a whole unusable (a missing column, half a gzip)
//! is an error.
//!
//! | column | unit | |
//! |---|---|---|
//! | `package` | text | needed |
//! | `wall_ms` | milliseconds | needed |
//! | `peak_bytes` | bytes, 64 KiB to 64 TiB | needed; for an attempt that ended for lack of memory, the peak until then |
//! | `attempt` | id | if empty, made from the row's texts: equal rows in different files get the same id; equal rows in one file are numbered |
//! | `project`, `stack`, `version`, `variants`, `compiler`, `compiler_version`, `arch`, `build_system`, `ref`, `owner` | text | the key |
//! | `submitted_ms` | milliseconds since 1970 | in every row or in none; without it, the rows are taken to be in order of time, and to have ended when they are imported |
//! | `build_jobs`, `cores` | count | number of build jobs; if `build_jobs` is empty, `cores` is used |
//! | `input_bytes` | bytes | known before the start |
//! | `mean_bytes`, `cpu_usec` | bytes, microseconds | |
//! | `requested_bytes` | bytes | the memory request of the attempt |
//! | `outcome` | `success`, `failed`, `oom`, `starved` | else success |
//! | `pool` | text | the pool that the attempt ran in |
//! | `untrusted` | `true`, `false` | whether the build is of a change from outside, which must not lower a prediction; if empty, false |

mod columns;
mod commit;
mod draft;
pub mod foreign;
#[cfg(test)]
mod gantry_tests;
mod json;
pub mod prometheus;
mod reader;
mod refusals;
mod source;
mod stored;
#[cfg(test)]
mod tests;
mod whole;

pub use commit::{ImportReport, RecordDefaults, commit, commit_records, refusals_if_all};
pub use draft::Record;
pub use reader::Reader;
pub use refusals::Refusals;
pub use source::FileError;
