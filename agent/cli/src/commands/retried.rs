//! Finds the earlier runs of one job in GitLab's list of a pipeline's jobs (`GET
//! /projects/:id/pipelines/:id/jobs?include_retried=true`). They have the same name. Runs that had no agent
//! count too.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use plimsoll_proto::{
    job::{self, JobExecution},
    limits,
    v1::RetriedJob,
};
use serde::Deserialize;

/// Largest list that is read, bytes: some ten thousand jobs.
const MAX_INPUT_BYTES: u64 = 64 << 20;

/// A job in GitLab's list; other fields are ignored.
#[derive(Debug, Deserialize)]
struct ListedJob {
    id: u64,
    name: String,
    status: String,
    failure_reason: Option<String>,
    created_at: Option<String>,
    finished_at: Option<String>,
}

/// The runs of the job of `attempt` in the list at `path` (`-` is standard input), newest first; at most as
/// many as the wire allows. `name` is the job's name, if it is known without the list.
/// Errors: the list cannot be read or parsed, or does not show which jobs are runs of this one.
pub(super) fn retried(path: &Path, attempt: &str, name: Option<&str>) -> Result<Vec<RetriedJob>, String> {
    let wrong = |why: String| format!("--include-retried {}: {why}", path.display());
    let mut text = String::new();
    let read = |stream: &mut dyn Read, text: &mut String| {
        stream.take(MAX_INPUT_BYTES.saturating_add(1)).read_to_string(text)
    };
    let bytes = match path.to_str() {
        Some("-") => read(&mut io::stdin().lock(), &mut text),
        _file => File::open(path).and_then(|mut file| read(&mut file, &mut text)),
    };
    if bytes.map_err(|error| wrong(error.to_string()))? as u64 > MAX_INPUT_BYTES {
        return Err(wrong(format!(
            "it is longer than {MAX_INPUT_BYTES} bytes; give the list of one pipeline"
        )));
    }
    runs_of(&text, attempt, name).map_err(wrong)
}

fn runs_of(text: &str, attempt: &str, name: Option<&str>) -> Result<Vec<RetriedJob>, String> {
    let mut jobs: Vec<ListedJob> = Vec::new();
    // GitLab sends the list in pages; if a user wrote several pages into one file, it has several lists
    for page in serde_json::Deserializer::from_str(text).into_iter::<Vec<ListedJob>>() {
        jobs.extend(page.map_err(|error| format!("it is not a list of GitLab's jobs: {error}"))?);
    }
    let own = JobExecution::read(attempt).number();
    let asked = jobs.iter().find(|job| Some(job.id) == own).map(|job| job.name.as_str());
    let Some(name) = asked.or(name).map(str::to_owned) else {
        return Err(format!(
            "the job of the attempt {attempt} is not in it; give the list of its pipeline, with include_retried=true"
        ));
    };
    jobs.retain(|job| job.name == name);
    jobs.sort_by_key(|job| std::cmp::Reverse(job.id));
    jobs.truncate(limits::RETRIED_JOBS);
    jobs.into_iter().map(to_wire).collect()
}

fn to_wire(job: ListedJob) -> Result<RetriedJob, String> {
    let time = |field: &str, text: Option<String>| {
        let text = text.filter(|text| !text.is_empty());
        text.map(|text| {
            job::unix_ms(&text).ok_or_else(|| format!("job {}: {field} {text:?} is not a time", job.id))
        })
        .transpose()
    };
    Ok(RetriedJob {
        created_unix_ms: time("created_at", job.created_at)?,
        finished_unix_ms: time("finished_at", job.finished_at)?,
        id: job.id.to_string(),
        name: cut_to_wire(&job.name),
        status: cut_to_wire(&job.status),
        failure_reason: cut_to_wire(&job.failure_reason.unwrap_or_default()),
    })
}

/// The text, cut to the length that the wire allows.
fn cut_to_wire(text: &str) -> String {
    let mut text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.truncate(text.floor_char_boundary(limits::REASON_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"[
        {"id": 7, "name": "build: [a]", "status": "failed", "failure_reason": "script_failure", "stage": "x",
         "created_at": "2024-01-15T10:00:00.500Z", "finished_at": "2024-01-15T12:00:00.000+02:00"},
        {"id": 8, "name": "build: [b]", "status": "success", "created_at": "2024-01-15T10:00:00Z"},
        {"id": 9, "name": "build: [a]", "status": "running", "failure_reason": null,
         "created_at": "2024-01-15T04:30:00.000-05:30", "finished_at": null}
    ]"#;

    #[test]
    fn runs_of_a_job_match_id_or_name() {
        let by_id = runs_of(LIST, "gitlab.com:9", None).unwrap();
        assert_eq!(by_id.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["9", "7"]);
        assert_eq!(runs_of(LIST, "gitlab.com:7.2/3", None).unwrap(), by_id);
        assert_eq!(runs_of(LIST, "elsewhere", Some("build: [a]")).unwrap(), by_id);
        assert_eq!(runs_of(LIST, "gitlab.com:1", Some("build: [c]")).unwrap(), []);
        let ten = 1_705_312_800_000;
        let [running, failed] = by_id.as_slice() else { panic!("{by_id:?}") };
        assert_eq!((running.created_unix_ms, running.finished_unix_ms), (Some(ten), None));
        assert_eq!((failed.created_unix_ms, failed.finished_unix_ms), (Some(ten + 500), Some(ten)));
        assert_eq!((failed.status.as_str(), failed.failure_reason.as_str()), ("failed", "script_failure"));
    }

    #[test]
    fn listed_pages_concatenate_and_only_newest_runs_remain() {
        let page = |from: u64| {
            let job = |id| format!(r#"{{"id":{id},"name":"{}","status":"failed"}}"#, "n".repeat(300));
            format!("[{}]", (from..from + 80).map(job).collect::<Vec<_>>().join(","))
        };
        let runs = runs_of(&(page(0) + "\n" + &page(80)), "159", None).unwrap();
        assert_eq!((runs.len(), runs[0].id.as_str(), runs[0].name.len()), (limits::RETRIED_JOBS, "159", 256));
    }

    #[test]
    fn unusable_job_lists_are_refused_with_a_remedy() {
        for (text, expected) in [
            (r#"{"message":"401 Unauthorized"}"#, "not a list of GitLab's jobs"),
            (r#"[{"id":1}]"#, "missing field `name`"),
            (LIST, "give the list of its pipeline, with include_retried=true"),
            ("", "give the list of its pipeline"),
        ] {
            let error = runs_of(text, "gitlab.com:4711", None).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let odd = r#"[{"id":1,"name":"a","status":"failed","created_at":"yesterday"}]"#;
        assert_eq!(runs_of(odd, "1", None).unwrap_err(), "job 1: created_at \"yesterday\" is not a time");
        let absent = retried(Path::new("/no/such/list"), "1", None).unwrap_err();
        assert!(absent.starts_with("--include-retried /no/such/list: "), "{absent}");
    }
}
