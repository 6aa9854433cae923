//! GitLab's job hook: what it tells of the end of an attempt.
//!
//! A hook has no sizes, no key and no exit code, so nothing is learnt from it alone: it tells how an attempt ended that was
//! measured. What is not needed is not looked at, and a status or a reason of a later GitLab is no error.

use std::time::SystemTime;

use plimsoll_proto::limits;
use serde_json::Value;

use crate::domain::{AttemptId, End, Fault, Told};

/// What a hook is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hook {
    /// A job has ended.
    Ended(Told),
    /// Another event, or a job that has not ended, or that never ran.
    Other,
}

/// Reads a body. `instance` is the header `X-Gitlab-Instance`: the same job id may exist on another GitLab.
///
/// # Errors
/// Names the field of the body.
pub(crate) fn read(body: &[u8], instance: Option<&str>) -> Result<Hook, Fault> {
    let body: Value =
        serde_json::from_slice(body).map_err(|error| Fault::new("body", format!("is not JSON: {error}")))?;
    let kind = text(&body, "object_kind")?.ok_or_else(|| Fault::new("object_kind", "is missing"))?;
    if kind != "build" {
        return Ok(Hook::Other);
    }
    let job = body.get("build_id").unwrap_or(&Value::Null);
    let job = job.as_u64().filter(|id| *id > 0);
    let job = job.ok_or_else(|| Fault::new("build_id", "must be the number of the job"))?;
    let status = text(&body, "build_status")?.ok_or_else(|| Fault::new("build_status", "is missing"))?;
    let end = match status {
        "success" => End::Succeeded,
        "failed" => End::Failed,
        "canceled" => End::Canceled,
        _ => return Ok(Hook::Other),
    };
    let (started, finished) = (time(&body, "build_started_at")?, time(&body, "build_finished_at")?);
    if finished.zip(started).is_some_and(|(finished, started)| finished < started) {
        return Err(Fault::new("build_finished_at", "is before build_started_at"));
    }
    // a job that did not fail has one, too
    let reason =
        if end == End::Failed { text(&body, "build_failure_reason")?.unwrap_or_default() } else { "" };
    if reason.len() > limits::REASON_BYTES {
        let description = format!("has {} bytes, at most {} are allowed", reason.len(), limits::REASON_BYTES);
        return Err(Fault::new("build_failure_reason", description));
    }
    let page = body.pointer("/project/web_url").or_else(|| body.pointer("/repository/homepage"));
    let host = instance.and_then(host_of).or_else(|| host_of(page?.as_str()?));
    // as the agent names attempts: HOST:JOB where it knows the host
    let ids = [host.map(|host| format!("{host}:{job}")), Some(job.to_string())];
    let attempts = ids.into_iter().flatten().filter_map(|id| AttemptId::parse(&id).ok()).collect();
    Ok(Hook::Ended(Told { attempts, end, reason: reason.to_owned() }))
}

fn text<'b>(body: &'b Value, field: &str) -> Result<Option<&'b str>, Fault> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Fault::new(field, "must be a text")),
    }
}

/// A time in one of the two forms that GitLab has: `2021-02-23 02:41:37 UTC` and `2021-02-23T02:41:37.886Z`. A form that is not
/// known says nothing.
fn time(body: &Value, field: &str) -> Result<Option<SystemTime>, Fault> {
    let said = text(body, field)?;
    Ok(said.and_then(|text| humantime::parse_rfc3339_weak(text.strip_suffix(" UTC").unwrap_or(text)).ok()))
}

/// The host of a URL, without its port.
fn host_of(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let host = rest.split(['/', ':', '?', '#']).next()?;
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(change: &[(&str, Value)]) -> Result<Hook, Fault> {
        let mut body = json!({
            "object_kind": "build", "build_id": 1977, "build_name": "zlib@1.3 /abcdefg", "build_status": "failed",
            "build_started_at": "2021-02-23 02:41:37 UTC", "build_finished_at": "2021-02-23 02:42:37 UTC",
            "build_duration": 60.0, "build_failure_reason": "script_failure", "pipeline_id": 2366, "ref": "develop",
            "project": {"web_url": "https://gitlab.example:8443/spack/spack"}, "runner": null,
        });
        for (field, value) in change {
            body[*field] = value.clone();
        }
        read(body.to_string().as_bytes(), None)
    }

    fn told(hook: Result<Hook, Fault>) -> Told {
        match hook {
            Ok(Hook::Ended(told)) => told,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_attempt_is_named_as_its_agent_names_it() {
        let plain = told(ended(&[]));
        let ids: Vec<_> = plain.attempts.iter().map(AttemptId::as_str).collect();
        assert_eq!(ids, ["gitlab.example:1977", "1977"]);
        assert_eq!((plain.end, plain.reason.as_str()), (End::Failed, "script_failure"));
        let body = r#"{"object_kind":"build","build_id":7,"build_status":"success"}"#.as_bytes();
        let named = told(read(body, Some("https://gitlab.spack.io")));
        assert_eq!(named.attempts[0].as_str(), "gitlab.spack.io:7");
        assert_eq!(told(read(body, None)).attempts.len(), 1);
    }

    #[test]
    fn both_times_of_gitlab_and_later_words_are_read() {
        let (from, to) = (json!("2021-02-23T02:41:37.886Z"), json!("2021-02-23T02:41:37.887Z"));
        told(ended(&[("build_started_at", from.clone()), ("build_finished_at", to.clone())]));
        let fault = ended(&[("build_started_at", to), ("build_finished_at", from)]).unwrap_err();
        assert_eq!(fault.field, "build_finished_at");
        told(ended(&[("build_started_at", Value::Null), ("build_finished_at", json!("some day"))]));
        assert_eq!(told(ended(&[("build_failure_reason", json!("of_2030"))])).reason, "of_2030");
        let reason = ("build_failure_reason", json!("unknown_failure"));
        let success = told(ended(&[("build_status", json!("success")), reason]));
        assert_eq!((success.end, success.reason.as_str()), (End::Succeeded, ""));
    }

    #[test]
    fn what_is_no_end_of_a_job_is_nothing_to_tell() {
        for status in ["created", "pending", "running", "skipped", "manual", "of_2030"] {
            assert_eq!(ended(&[("build_status", json!(status))]), Ok(Hook::Other), "{status}");
        }
        assert_eq!(ended(&[("object_kind", json!("pipeline"))]), Ok(Hook::Other));
    }

    #[test]
    fn wrong_fields_are_named() {
        for (field, value) in [
            ("object_kind", Value::Null),
            ("object_kind", json!(1)),
            ("build_id", Value::Null),
            ("build_id", json!("1977")),
            ("build_id", json!(-1)),
            ("build_id", json!(0)),
            ("build_status", Value::Null),
            ("build_status", json!(["failed"])),
            ("build_finished_at", json!(5)),
            ("build_failure_reason", json!({})),
            ("build_failure_reason", json!("x".repeat(300))),
            ("build_finished_at", json!("2020-02-23 02:41:37 UTC")),
        ] {
            assert_eq!(ended(&[(field, value)]).unwrap_err().field, field);
        }
        for body in ["", "{", "null", "[]", "\"x\"", "{}"] {
            assert!(read(body.as_bytes(), None).is_err(), "{body}");
        }
    }
}
