//! Lists all jobs of projects in a time range, for an import: how each ended, and whether it ran
//! the code of a fork.
//!
//! | request | for |
//! |---|---|
//! | `GET projects/:id` | the path of the project, and whether it is a fork |
//! | `GET projects/:id/jobs` | its jobs, newest first, back to a day before the range |
//! | `GET projects/:id/merge_requests/:iid` | whether a merge request comes from a fork, once for each with a pipeline |
//!
//! A token with the scope `read_api` suffices.

use std::collections::{BTreeSet, HashMap};

use plimsoll_core::domain::JobStatus;
use plimsoll_lab::import::prometheus::{ListedJob, ListedJobs, TimeRange};
use plimsoll_proto::{job::clean_and_cut, limits};
use serde_json::Value;

use super::{
    GitlabClient,
    answers::{parse_object, time, word_field},
    client::RequestFailure,
    job_hook::{is_path, key},
};
use crate::runtime::outgoing::KeptPart;

/// Largest answer about one project or merge request.
const OBJECT_BYTES: usize = 1 << 20;
/// Largest page of a list: a hundred jobs, each with its commit, user and runner.
const PAGE_BYTES: usize = 4 << 20;
/// Most pages that are read of one project: a hundred thousand jobs.
const MAX_PAGES: usize = 1000;
/// How long before the range jobs may have been created: a job may wait for a person or a time
/// before it starts.
const MADE_BEFORE_MS: u64 = 24 * 3_600_000;

/// Why jobs could not be listed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListFailure {
    /// GitLab does not answer.
    #[error("does not answer: try again later, or import without gitlab_url")]
    Away,
    /// An answer is larger than what is read of it.
    #[error("answers with more than {most} MiB: look at gitlab_url, or import without it", most = PAGE_BYTES >> 20)]
    TooLarge,
    /// The project has more jobs than are read.
    #[error("project {0} has more than {most} jobs in this time: shorten --since", most = MAX_PAGES * 100)]
    TooMany(u64),
}

/// A GitLab project.
struct Project {
    number: u64,
    path: String,
    is_fork: bool,
}

/// The jobs of these projects that ran in `range`, and the numbers of the projects whose jobs GitLab
/// does not show completely to this token. `on_progress` gets the progress, 0 to 1.
/// Errors: GitLab does not answer, or a project has too many jobs.
pub(crate) async fn list_jobs(
    client: &GitlabClient,
    projects: &BTreeSet<u64>,
    range: TimeRange,
    mut on_progress: impl FnMut(f64),
) -> Result<(ListedJobs, Vec<u64>), ListFailure> {
    let (mut jobs, mut hidden) = (ListedJobs::default(), Vec::new());
    for (done, number) in projects.iter().enumerate() {
        on_progress(share_done(done, projects.len()));
        if !add_jobs_of_project(client, *number, range, &mut jobs).await? {
            jobs.forget(*number);
            hidden.push(*number);
        }
    }
    jobs.sort();
    Ok((jobs, hidden))
}

/// Adds the jobs of one project. Returns false if GitLab does not show all of them to this token.
async fn add_jobs_of_project(
    client: &GitlabClient,
    number: u64,
    range: TimeRange,
    jobs: &mut ListedJobs,
) -> Result<bool, ListFailure> {
    let Some(project) = if_shown(fetch_project(client, number).await)? else { return Ok(false) };
    let mut requests = MergeRequests::default();
    let mut query = "per_page=100&pagination=keyset&order_by=id&sort=desc".to_owned();
    for _page in 0..MAX_PAGES {
        let path = format!("projects/{number}/jobs?{query}");
        // a token may be allowed to see a project but not its jobs
        let Some(answer) = if_shown(client.get(&path, KeptPart::All(PAGE_BYTES)).await)? else {
            return Ok(false);
        };
        let Ok(read) = serde_json::from_slice::<Vec<Value>>(&answer.body) else { return Ok(false) };
        for listed in &read {
            let Some(mut job) = listed_job(listed, &project) else { continue };
            if job.finished_ms.is_none_or(|end| end >= range.start_ms) {
                job.untrusted = project.is_fork || requests.is_foreign(client, &project, listed).await?;
                jobs.push(job);
            }
        }
        let made = read.iter().filter_map(|job| time(job, "created_at")).min();
        let is_over = made.is_none_or(|made| made.saturating_add(MADE_BEFORE_MS) < range.start_ms);
        match answer.next_query {
            Some(next) if !is_over => query = next,
            _ => return Ok(true),
        }
    }
    Err(ListFailure::TooMany(number))
}

/// GitLab's answer; `None` if GitLab does not show the object to this token.
fn if_shown<T>(answer: Result<T, RequestFailure>) -> Result<Option<T>, ListFailure> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(RequestFailure::Away) => Err(ListFailure::Away),
        Err(RequestFailure::TooLarge) => Err(ListFailure::TooLarge),
        Err(RequestFailure::Gone | RequestFailure::Refused | RequestFailure::Malformed) => Ok(None),
    }
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 projects")]
fn share_done(done: usize, of: usize) -> f64 {
    done as f64 / of.max(1) as f64
}

async fn fetch_project(client: &GitlabClient, number: u64) -> Result<Project, RequestFailure> {
    let body =
        parse_object(&client.get(&format!("projects/{number}"), KeptPart::All(OBJECT_BYTES)).await?.body)?;
    let path = word_field(&body, "path_with_namespace");
    if !is_path(&path) {
        return Err(RequestFailure::Malformed);
    }
    let is_fork = body.get("forked_from_project").is_some_and(Value::is_object);
    Ok(Project { number, path, is_fork })
}

/// A job of a list; `None` if the job never ran.
fn listed_job(listed: &Value, project: &Project) -> Option<ListedJob> {
    let id = listed.get("id").and_then(Value::as_u64).filter(|id| *id > 0)?;
    let name = clean_and_cut(listed.get("name")?.as_str()?, limits::LABEL_BYTES);
    let at = |place: &str| listed.pointer(place).and_then(Value::as_str).map(ToOwned::to_owned);
    let end = match word_field(listed, "status").as_str() {
        "success" => Some(JobStatus::Succeeded),
        "failed" => Some(JobStatus::Failed),
        "canceled" => Some(JobStatus::Canceled),
        _ => None,
    };
    let key = key(&name, |variable| match variable {
        "CI_PROJECT_PATH" => Some(project.path.clone()),
        "CI_COMMIT_REF_NAME" => at("/ref"),
        "CI_COMMIT_SHA" => at("/commit/id"),
        "CI_PIPELINE_ID" => listed.pointer("/pipeline/id").and_then(Value::as_u64).map(|id| id.to_string()),
        "CI_JOB_STAGE" => at("/stage"),
        "GITLAB_USER_LOGIN" => at("/user/username"),
        _ => None,
    });
    let reason =
        if end == Some(JobStatus::Failed) { word_field(listed, "failure_reason") } else { String::new() };
    let started_ms = time(listed, "started_at")?;
    let finished_ms = time(listed, "finished_at");
    Some(ListedJob {
        id,
        project: project.number,
        key,
        started_ms,
        finished_ms,
        end,
        reason,
        untrusted: false,
    })
}

/// Cache: whether a merge request comes from a fork.
#[derive(Debug, Default)]
struct MergeRequests {
    is_foreign_by_number: HashMap<u64, bool>,
}

impl MergeRequests {
    /// Whether the job ran for a merge request of a fork. A merge request that GitLab does not show
    /// counts as one of a fork.
    async fn is_foreign(
        &mut self,
        client: &GitlabClient,
        project: &Project,
        job: &Value,
    ) -> Result<bool, ListFailure> {
        let Some(request) = merge_request(job) else { return Ok(false) };
        if let Some(known) = self.is_foreign_by_number.get(&request) {
            return Ok(*known);
        }
        let path = format!("projects/{}/merge_requests/{request}", project.number);
        let fetched = if_shown(client.get(&path, KeptPart::All(OBJECT_BYTES)).await)?;
        let fetched = fetched.and_then(|answer| parse_object(&answer.body).ok());
        let source = fetched.and_then(|fetched| fetched.get("source_project_id").and_then(Value::as_u64));
        let is_foreign = source.is_none_or(|source| source != project.number);
        self.is_foreign_by_number.insert(request, is_foreign);
        Ok(is_foreign)
    }
}

/// The number of the merge request that a job ran for, from its ref: `refs/merge-requests/59/head`.
fn merge_request(job: &Value) -> Option<u64> {
    let git_ref = job.get("ref")?.as_str()?;
    git_ref.strip_prefix("refs/merge-requests/")?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_listed_job_has_key_time_and_outcome() {
        let project = Project { number: 23, path: "group/a".to_owned(), is_fork: false };
        let listed = json!({
            "id": 7, "name": "zlib@1.3 /abcdefg", "stage": "build", "status": "failed", "ref": "main",
            "failure_reason": "script_failure", "created_at": "2026-02-23T02:40:00.000Z",
            "started_at": "2026-02-23T02:41:37.886Z", "finished_at": "2026-02-23T02:42:37.886Z",
            "pipeline": {"id": 9}, "commit": {"id": "c0"}, "user": {"username": "ann"},
        });
        let job = listed_job(&listed, &project).unwrap();
        assert_eq!((job.id, job.started_ms), (7, 1_771_814_497_886));
        assert_eq!((job.end, job.reason.as_str()), (Some(JobStatus::Failed), "script_failure"));
        let key = &job.key;
        assert_eq!([&key.project, &key.package, &key.version], ["group/a", "zlib", "1.3"]);
        assert_eq!((key.labels["pipeline"].as_str(), key.owner.as_str()), ("9", "ann"));
        // never ran; no number; a word of a later GitLab
        for (field, value) in [("started_at", Value::Null), ("id", json!("7")), ("name", Value::Null)] {
            let mut listed = listed.clone();
            listed[field] = value;
            assert_eq!(listed_job(&listed, &project), None, "{field}");
        }
        let mut later = listed;
        later["status"] = json!("of_2030");
        assert_eq!(listed_job(&later, &project).unwrap().end, None);
    }

    #[test]
    fn merge_request_numbers_are_parsed_from_refs() {
        let of = |git_ref: &str| merge_request(&json!({ "ref": git_ref }));
        assert_eq!(of("refs/merge-requests/59/head"), Some(59));
        assert_eq!(of("refs/merge-requests/7/merge"), Some(7));
        assert_eq!((of("main"), of("refs/merge-requests/x/head")), (None, None));
    }
}
