//! Who may report on a CI job: a report counts if its caller may report on the project.

use plimsoll_core::domain::Reporter;

use crate::access::{guard::Guard, identity::Identity};

/// The caller may not report on the project of the job.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no job of a project that {caller} may tell of")]
pub(crate) struct ForeignJob {
    caller: String,
}

/// The reporter for a job that claims to be of this project; `None` if a shared secret
/// authenticated the CI system, or callers need no identity. Whether the job really belongs to that
/// project is checked when the report is applied. An answer here would reveal the job's project,
/// and another caller may have taken the job's id before its own agent does.
/// Errors: the caller may not report on the project. The refusal is counted, and logged with `path`.
pub(crate) fn reporter(
    guard: &Guard,
    caller: Option<&Identity>,
    project: &str,
    path: &str,
) -> Result<Reporter, ForeignJob> {
    let Some(caller) = caller.filter(|_| !guard.is_open()) else { return Ok(Reporter::server()) };
    if caller.sees(project) {
        return Ok(caller.reporter_for(project));
    }
    guard.refused_report(caller, path);
    Err(ForeignJob { caller: caller.name.to_string() })
}
