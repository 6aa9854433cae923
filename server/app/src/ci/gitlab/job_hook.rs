//! Parses GitLab's job hook into a report on the end of an attempt.
//!
//! A hook has no sizes and no exit code, so it only adds to a measured attempt how that attempt
//! ended. Fields that are not needed are ignored. Unknown statuses and reasons are no errors,
//! because a later GitLab may send them.

use plimsoll_core::domain::{AttemptId, FieldViolation, JobStatus, ProjectRename, ReportedOutcome, Reporter};
use plimsoll_proto::{job, limits, v1 as pb};
use serde_json::{Map, Value};

/// Fields that are read: of the body, or of one of its objects.
const READ_FIELDS: [(Option<&str>, &str); 14] = [
    (None, "object_kind"),
    (None, "build_id"),
    (None, "build_status"),
    (None, "build_failure_reason"),
    (None, "build_name"),
    (None, "build_stage"),
    (None, "pipeline_id"),
    (None, "project_id"),
    (None, "ref"),
    (None, "sha"),
    (Some("commit"), "id"),
    (Some("project"), "web_url"),
    (Some("project"), "path_with_namespace"),
    (Some("repository"), "homepage"),
];

/// Most bytes kept of a text: more than a field of a key may have, so that a text that is too long
/// is still recognized as such.
const KEPT_BYTES: usize = 2 * limits::KEY_FIELD_BYTES;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ParsedHook {
    /// A project, or a group of projects, has another path.
    Renamed(ProjectRename),
    /// A job has ended.
    Ended(Box<EndedJob>),
    /// Another event, or a job that has not ended, or a job that was skipped.
    Other,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndedJob {
    pub(crate) reported: ReportedOutcome,
    pub(crate) job: GitlabJob,
    /// The hook as GitLab sent it, reduced to the fields that are read. Parsing it again gives the
    /// same result.
    pub(crate) body: Value,
}

/// A GitLab job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GitlabJob {
    /// Host of the job's GitLab, if known.
    pub(crate) host: Option<String>,
    pub(crate) id: u64,
    /// Number of the job's project.
    pub(crate) project: Option<u64>,
    /// Number of the job's pipeline.
    pub(crate) pipeline: Option<u64>,
    pub(crate) name: String,
    /// Key of the job, with the fields that a hook has: not variants, compiler and architecture.
    pub(crate) key: pb::Key,
}

impl GitlabJob {
    /// Whether Spack generated the job, according to its name.
    pub(crate) fn is_from_spack(&self) -> bool {
        spec_of(&self.name).is_some()
    }

    /// The job's project for GitLab's API: its path, which also decides whether the caller may
    /// report on it. The number is used only if the hook has no path; only callers for all projects
    /// may send such a hook, because the number may be of another project. `None` if GitLab cannot
    /// have a project at the path.
    pub(crate) fn project_in_api(&self) -> Option<String> {
        match self.key.project.as_str() {
            "" => self.project.map(|number| number.to_string()),
            path => is_path(path).then(|| path.replace('/', "%2F")),
        }
    }
}

/// Whether GitLab can have a project at this path: a group and a name at least, of letters, digits, `_`, `-` and `.`.
pub(super) fn is_path(path: &str) -> bool {
    let is_name = |name: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        !name.is_empty() && name.bytes().all(fits) && name.bytes().any(|byte| byte != b'.')
    };
    path.contains('/') && path.split('/').all(is_name)
}

/// Package and version in the name of a job that Spack generated: `NAME@VERSION /HASH`, possibly with more after it.
fn spec_of(name: &str) -> Option<(&str, &str)> {
    let (spec, hash) = name.split_once(" /")?;
    let (package, version) = spec.split_once('@')?;
    let is_hash = hash.bytes().take(7).filter(u8::is_ascii_alphanumeric).count() == 7;
    (is_hash && !package.is_empty() && !version.is_empty() && !spec.contains(' '))
        .then_some((package, version))
}

/// Parses the body of a hook. `instance` is the header `X-Gitlab-Instance`; it tells apart jobs
/// with the same id on several GitLab servers.
/// Errors: the body cannot be parsed; the error names the field.
pub(crate) fn read(body: &[u8], instance: Option<&str>) -> Result<ParsedHook, FieldViolation> {
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| FieldViolation::new("body", format!("is not JSON: {error}")))?;
    let kind =
        text_field(&body, "object_kind")?.ok_or_else(|| FieldViolation::new("object_kind", "is missing"))?;
    if kind != "build" {
        return Ok(ParsedHook::Other);
    }
    let id = body.get("build_id").and_then(Value::as_u64).filter(|id| *id > 0);
    let id = id.ok_or_else(|| FieldViolation::new("build_id", "must be the number of the job"))?;
    let status = text_field(&body, "build_status")?
        .ok_or_else(|| FieldViolation::new("build_status", "is missing"))?;
    let end = match status {
        "success" => JobStatus::Succeeded,
        "failed" => JobStatus::Failed,
        "canceled" => JobStatus::Canceled,
        _ => return Ok(ParsedHook::Other),
    };
    // GitLab sends a failure reason even for jobs that did not fail
    let reason = if end == JobStatus::Failed {
        text_field(&body, "build_failure_reason")?.unwrap_or_default()
    } else {
        ""
    };
    if reason.len() > limits::REASON_BYTES {
        let description = format!("has {} bytes, at most {} are allowed", reason.len(), limits::REASON_BYTES);
        return Err(FieldViolation::new("build_failure_reason", description));
    }
    let page = body.pointer("/project/web_url").or_else(|| body.pointer("/repository/homepage"));
    let host = instance.and_then(host_of).or_else(|| host_of(page?.as_str()?));
    // the ids that the job's agent may use: HOST:JOB if it knows the host, else JOB
    let ids = [host.map(|host| format!("{host}:{id}")), Some(id.to_string())];
    let attempts = ids.into_iter().flatten().filter_map(|id| AttemptId::parse(&id).ok()).collect();
    let job = read_job(&body, id, host);
    // replaced when the sender is identified; until then the report is only for the project in the
    // hook
    let by = Reporter::of("", vec![job.key.project.clone()]);
    let reported =
        ReportedOutcome { attempts, end, reason: reason.to_owned(), cause: None, unneeded: false, by };
    Ok(ParsedHook::Ended(Box::new(EndedJob { reported, job, body: keep_read_fields(&body) })))
}

/// Reduces the body to the fields that are read.
fn keep_read_fields(body: &Value) -> Value {
    let mut cut = Map::new();
    for (object, field) in READ_FIELDS {
        let outer = object.map_or(Some(body), |object| body.get(object));
        let Some(value) = outer.and_then(|outer| outer.get(field)) else { continue };
        let kept = match value {
            Value::String(text) => {
                Value::from(text.get(..text.floor_char_boundary(KEPT_BYTES)).unwrap_or_default())
            }
            Value::Number(_) | Value::Bool(_) => value.clone(),
            // the content of these is not read, but whether the field exists matters
            Value::Null | Value::Array(_) | Value::Object(_) => Value::Null,
        };
        let Some(object) = object else {
            cut.insert(field.to_owned(), kept);
            continue;
        };
        if let Value::Object(place) = cut.entry(object).or_insert_with(|| Value::Object(Map::new())) {
            place.insert(field.to_owned(), kept);
        }
    }
    Value::Object(cut)
}

/// The job in the body of a hook. Missing fields are left empty.
fn read_job(body: &Value, id: u64, host: Option<&str>) -> GitlabJob {
    let string = |place: &str| body.pointer(place).and_then(Value::as_str).map(ToOwned::to_owned);
    let number = |place: &str| body.pointer(place).and_then(Value::as_u64);
    let pipeline = number("/pipeline_id").or_else(|| number("/commit/id"));
    let name = job::clean_and_cut(&string("/build_name").unwrap_or_default(), limits::LABEL_BYTES);
    let key = key(&name, |variable| match variable {
        "CI_PROJECT_PATH" => string("/project/path_with_namespace"),
        "CI_COMMIT_REF_NAME" => string("/ref"),
        "CI_COMMIT_SHA" => string("/sha"),
        "CI_PIPELINE_ID" => pipeline.map(|pipeline| pipeline.to_string()),
        "CI_JOB_STAGE" => string("/build_stage"),
        _ => None,
    });
    GitlabJob { host: host.map(ToOwned::to_owned), id, project: number("/project_id"), pipeline, name, key }
}

/// The key of a job with this name. `lookup` returns other variables of the job; those of its name
/// and of Spack are derived from the name.
pub(super) fn key(name: &str, lookup: impl Fn(&str) -> Option<String>) -> pb::Key {
    let spec = spec_of(name);
    job::key(|variable| match variable {
        "CI_JOB_NAME" => Some(name.to_owned()),
        "SPACK_JOB_SPEC_PKG_NAME" => spec.map(|(package, _)| package.to_owned()),
        "SPACK_JOB_SPEC_PKG_VERSION" => spec.map(|(_, version)| version.to_owned()),
        other => lookup(other),
    })
}

fn text_field<'b>(body: &'b Value, field: &str) -> Result<Option<&'b str>, FieldViolation> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(FieldViolation::new(field, "must be a text")),
    }
}

/// The host of a URL, without its port.
pub(super) fn host_of(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let host = rest.split(['/', ':', '?', '#']).next()?;
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(change: &[(&str, Value)]) -> Result<ParsedHook, FieldViolation> {
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

    fn reported(hook: Result<ParsedHook, FieldViolation>) -> ReportedOutcome {
        job(hook).reported
    }

    fn job(hook: Result<ParsedHook, FieldViolation>) -> EndedJob {
        match hook {
            Ok(ParsedHook::Ended(ended)) => *ended,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_hook_names_attempts_as_their_agents_do() {
        let plain = reported(ended(&[]));
        let ids: Vec<_> = plain.attempts.iter().map(AttemptId::as_str).collect();
        assert_eq!(ids, ["gitlab.example:1977", "1977"]);
        assert_eq!((plain.end, plain.reason.as_str()), (JobStatus::Failed, "script_failure"));
        let body = r#"{"object_kind":"build","build_id":7,"build_status":"success"}"#.as_bytes();
        let named = reported(read(body, Some("https://gitlab.spack.io")));
        assert_eq!(named.attempts[0].as_str(), "gitlab.spack.io:7");
        assert_eq!(reported(read(body, None)).attempts.len(), 1);
    }

    #[test]
    fn a_hook_yields_job_key_and_labels() {
        let project = json!({"web_url": "https://gitlab.example/a/b", "path_with_namespace": "a/b"});
        let EndedJob { job, .. } =
            job(ended(&[("project", project), ("project_id", json!(2)), ("sha", json!("c0"))]));
        assert_eq!((job.id, job.project, job.pipeline), (1977, Some(2), Some(2366)));
        let pb::Key { project, package, version, labels, .. } = job.key.clone();
        assert_eq!([project, package, version], ["a/b", "zlib", "1.3"]);
        assert_eq!((labels["pipeline"].as_str(), labels["job"].as_str()), ("2366", "zlib@1.3 /abcdefg"));
        assert!(job.is_from_spack());
        for name in
            ["build", "a@1", "a /abcdefg", "@1 /abcdefg", "a b@1 /abcdefg", "a@1 /abc", "a@1 /abc-def"]
        {
            assert_eq!(spec_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_project_is_requested_by_its_path() {
        let asked = |project: Value| {
            job(ended(&[("project", project), ("project_id", json!(2))])).job.project_in_api()
        };
        let of = |path: &str| asked(json!({ "path_with_namespace": path }));
        assert_eq!(of("a/b.c/d_e-f").as_deref(), Some("a%2Fb.c%2Fd_e-f"));
        assert_eq!(asked(json!({})).as_deref(), Some("2"), "a hook of before GitLab named the path");
        for path in ["a", "/", "a/", "/a", "a//b", "a/../b", "a/./b", "a/b?x=1", "a/b#", "a/b%2Fc", "a b/c"] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn odd_times_and_unknown_reasons_are_accepted() {
        let (from, to) = (json!("2021-02-23T02:41:37.886Z"), json!("2020-02-23 02:41:37 UTC"));
        reported(ended(&[("build_started_at", from), ("build_finished_at", to)]));
        reported(ended(&[("build_started_at", Value::Null), ("build_finished_at", json!(5))]));
        assert_eq!(reported(ended(&[("build_failure_reason", json!("of_2030"))])).reason, "of_2030");
        let reason = ("build_failure_reason", json!("unknown_failure"));
        let success = reported(ended(&[("build_status", json!("success")), reason]));
        assert_eq!((success.end, success.reason.as_str()), (JobStatus::Succeeded, ""));
    }

    #[test]
    fn a_reduced_hook_parses_like_the_original() {
        let long = "x".repeat(100_000);
        for change in [
            vec![],
            vec![("commit", json!({"id": 7, "message": long})), ("pipeline_id", Value::Null)],
            vec![("project", json!({"web_url": 5})), ("repository", json!({"homepage": "https://a/b"}))],
            vec![("ref", json!(long)), ("build_name", json!(long)), ("project_id", json!(["2"]))],
            vec![("project", Value::Null), ("user", json!({"email": "secret"}))],
        ] {
            let whole = job(ended(&change));
            let host = whole.job.host.as_ref().map(|host| format!("https://{host}"));
            let text = whole.body.to_string();
            assert!(text.len() < 8 * KEPT_BYTES && !text.contains("secret"), "{}", text.len());
            let again = job(read(text.as_bytes(), host.as_deref()));
            assert_eq!((&again.reported, &again.body), (&whole.reported, &whole.body));
            let checked = |job: &GitlabJob| plimsoll_core::validated::key(Some(job.key.clone())).ok();
            assert_eq!(checked(&again.job), checked(&whole.job));
            let key = pb::Key::default();
            let rest = [again, whole].map(|ended| GitlabJob { key: key.clone(), ..ended.job });
            assert_eq!(rest[0], rest[1]);
        }
    }
}
