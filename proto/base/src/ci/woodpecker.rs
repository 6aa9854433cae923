//! Woodpecker. Variables: <https://woodpecker-ci.org/docs/usage/environment>. None of them says whether a pull request is of a fork, so
//! each one counts as foreign. A pipeline that is started again has another number.

use super::{CiJob, CiSystem, Columns, Sources, Support, id, place, word};

/// The row of Woodpecker.
pub(super) static WOODPECKER: CiSystem = CiSystem {
    name: "woodpecker",
    title: "Woodpecker",
    recognized_by: Some(("CI", "woodpecker")),
    needs: &["CI_REPO", "CI_PIPELINE_NUMBER", "CI_STEP_NAME"],
    job_variable: "",
    workspace: "CI_WORKSPACE",
    read,
    phases: None,
    fold: None,
    links: None,
    columns: Columns {
        key: "project `CI_REPO`, stack `CI_WORKFLOW_NAME`, package `CI_STEP_NAME`, ref, owner",
        id: "`woodpecker:HOST/OWNER/REPO:PIPELINE/WORKFLOW-STEP`",
        untrusted: "each pull request",
    },
    support: Support {
        measured: "`plimsoll run` in `commands`",
        judged: "yes",
        sized: "by `plimsoll predict`",
        retried: "in place: `--retry-in-place`",
    },
};

fn read(sources: &Sources<'_>) -> CiJob {
    let (repository, job) = (sources.text("CI_REPO"), sources.text("CI_STEP_NAME"));
    let workflow = sources.text("CI_WORKFLOW_NAME");
    let git_ref = ["CI_COMMIT_SOURCE_BRANCH", "CI_COMMIT_TAG", "CI_COMMIT_BRANCH"];
    let mut labels = sources.labels(&[("pipeline", "CI_PIPELINE_NUMBER"), ("commit", "CI_COMMIT_SHA")]);
    labels.push(("job", format!("{workflow}/{job}")));
    let id = sources.get("CI_PIPELINE_NUMBER").filter(|_| !repository.is_empty()).map(|number| {
        let host = sources.get("CI_SYSTEM_HOST").map(|host| place(&host) + "/").unwrap_or_default();
        let unit = format!("{}/{}-{}", word(&number), word(&workflow), word(&job));
        id("woodpecker", &format!("{host}{}", place(&repository)), &unit)
    });
    CiJob {
        project: repository,
        stack: workflow,
        git_ref: git_ref.into_iter().find_map(|name| sources.get(name)).unwrap_or_default(),
        owner: sources.text("CI_PIPELINE_AUTHOR"),
        is_foreign: sources.text("CI_PIPELINE_EVENT").starts_with("pull_request"),
        id,
        job,
        labels,
        ..CiJob::default()
    }
}
