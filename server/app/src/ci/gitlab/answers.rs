//! Parses GitLab's answers. Missing and unknown values are allowed; invalid JSON is an error.

use plimsoll_core::domain::ListedRun;
use serde_json::Value;

use super::client::RequestFailure;

/// Most runs of one job that are kept.
const MAX_RUNS: usize = 64;
/// Most bytes kept of a status, a reason or a path.
const WORD_BYTES: usize = 256;

/// The answer to `GET jobs/:id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct JobAnswer {
    pub(super) failure_reason: String,
    pub(super) name: String,
    pub(super) pipeline: Option<u64>,
}

/// Parses a job.
/// Errors: the body is not a JSON object.
pub(super) fn parse_job(body: &[u8]) -> Result<JobAnswer, RequestFailure> {
    let body = parse_object(body)?;
    Ok(JobAnswer {
        failure_reason: word_field(&body, "failure_reason"),
        name: word_field(&body, "name"),
        pipeline: body.pointer("/pipeline/id").and_then(Value::as_u64),
    })
}

/// GitLab's own name: the host in the address of a project, or of the first one of a list.
pub(crate) fn web_host(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let address = body.get("web_url").or_else(|| body.pointer("/0/web_url"))?;
    super::job_hook::host_of(address.as_str()?).map(ToOwned::to_owned)
}

/// Parses an object.
/// Errors: the body is not a JSON object.
pub(super) fn parse_object(body: &[u8]) -> Result<Value, RequestFailure> {
    let body: Value = serde_json::from_slice(body).map_err(|_no_json| RequestFailure::Malformed)?;
    if body.is_object() { Ok(body) } else { Err(RequestFailure::Malformed) }
}

/// Adds the runs of one job from a page of a list; other jobs are skipped.
/// Errors: the body is not a JSON list.
pub(super) fn add_runs(body: &[u8], name: &str, runs: &mut Vec<ListedRun>) -> Result<(), RequestFailure> {
    let body: Vec<Value> = serde_json::from_slice(body).map_err(|_no_json| RequestFailure::Malformed)?;
    for run in body.iter().filter(|run| run.get("name").and_then(Value::as_str) == Some(name)) {
        let Some(id) = run.get("id").and_then(Value::as_u64) else { continue };
        if runs.len() >= MAX_RUNS {
            return Ok(());
        }
        runs.push(ListedRun {
            id: id.to_string(),
            name: name.to_owned(),
            status: word_field(run, "status"),
            failure_reason: word_field(run, "failure_reason"),
            created_unix_ms: time(run, "created_at"),
            finished_unix_ms: time(run, "finished_at"),
        });
    }
    Ok(())
}

/// The text of a field, such as a status; empty if the field is missing.
pub(super) fn word_field(object: &Value, field: &str) -> String {
    let text = object.get(field).and_then(Value::as_str).unwrap_or_default();
    plimsoll_proto::job::clean_and_cut(text, WORD_BYTES)
}

/// The time in a field, milliseconds since 1970.
pub(super) fn time(object: &Value, field: &str) -> Option<u64> {
    plimsoll_proto::job::unix_ms(object.get(field)?.as_str()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_jobs_in_an_answer_are_skipped() {
        let one = br#"{"id":7,"name":"a","failure_reason":"script_failure","pipeline":{"id":3},"user":null}"#;
        let read = parse_job(one).unwrap();
        assert_eq!(read.name.as_str(), "a");
        assert_eq!(read.failure_reason.as_str(), "script_failure");
        assert_eq!(read.pipeline, Some(3));
        assert_eq!(parse_job(b"{}"), Ok(JobAnswer::default()));
        let list = br#"[{"id":7,"name":"a","status":"failed","created_at":"2026-02-23T02:41:37.886Z"},
            {"id":8,"name":"b"},{"name":"a"},{"id":"9","name":"a"},5,
            {"id":10,"name":"a","status":null,"created_at":"2026-02-22T21:11:37.886-05:30"}]"#;
        let mut found = Vec::new();
        add_runs(list, "a", &mut found).unwrap();
        let ids: Vec<_> = found.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids, ["7", "10"]);
        assert!(found.iter().all(|run| run.created_unix_ms == Some(1_771_814_497_886)), "{found:?}");
        for bad in [&b""[..], b"<html>", b"{}", b"null", b"[{]"] {
            assert_eq!(add_runs(bad, "a", &mut found), Err(RequestFailure::Malformed));
        }
        assert_eq!(parse_job(b"[]"), Err(RequestFailure::Malformed));
        assert_eq!(parse_job(b"<html>"), Err(RequestFailure::Malformed));
    }
}
