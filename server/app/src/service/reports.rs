//! Which caller may report on whose jobs: what a CI system tells of a job counts as far as its caller may speak for the project.

use plimsoll_core::domain::Reporter;

use crate::access::{guard::Guard, identity::Identity};

/// The job is of a project that the caller may not report on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no job of a project that {caller} may tell of")]
pub(crate) struct ForeignJob {
    caller: String,
}

/// In whose name `caller` reports on a job that says to be of this project; `None` where a secret stands for the CI system, or callers need no
/// identity. Whether the job is of that project shows when the report is applied: here the answer must not tell whose it is, and an id
/// that another caller holds now may yet become its job's own.
///
/// # Errors
/// The caller may not report on the project. Counted, and logged as what came in at `path`.
pub(crate) fn reporter(
    guard: &Guard,
    caller: Option<&Identity>,
    project: &str,
    path: &str,
) -> Result<Reporter, ForeignJob> {
    let Some(caller) = caller else { return Ok(Reporter::server()) };
    if caller.sees(project) {
        return Ok(caller.speaker(project));
    }
    guard.refused_report(caller, path);
    Err(ForeignJob { caller: caller.name.to_string() })
}
