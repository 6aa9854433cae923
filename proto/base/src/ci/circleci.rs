//! `CircleCI`. Variables: <https://circleci.com/docs/reference/variables/>. `CIRCLE_PR_NUMBER`, `_REPONAME` and `_USERNAME` are set for pull
//! requests of forks only, and not for projects of the GitHub App and of GitLab: there, trust follows from the token.

use super::{CiJob, CiSystem, Columns, Sources, Support, id, part_name, place, word};

/// The row of `CircleCI`.
pub(super) static CIRCLECI: CiSystem = CiSystem {
    name: "circleci",
    title: "CircleCI",
    recognized_by: Some(("CIRCLECI", "true")),
    needs: &["CIRCLE_PROJECT_USERNAME", "CIRCLE_PROJECT_REPONAME", "CIRCLE_BUILD_NUM"],
    job_variable: "CIRCLE_WORKFLOW_JOB_ID",
    workspace: "CIRCLE_WORKING_DIRECTORY",
    read,
    phases: None,
    fold: None,
    links: None,
    columns: Columns {
        key: "project `CIRCLE_PROJECT_USERNAME/CIRCLE_PROJECT_REPONAME`, package `CIRCLE_JOB` with the part of a parallel job, ref, owner",
        id: "`circleci:OWNER/REPO:BUILD`, with `/node-N` for a part",
        untrusted: "`CIRCLE_PR_NUMBER`, `CIRCLE_PR_REPONAME` or `CIRCLE_PR_USERNAME` is set; projects of GitLab and of the GitHub App set none of them, so that their tokens decide",
    },
    support: Support {
        measured: "`plimsoll run` in a `run` step",
        judged: "yes",
        sized: "by `plimsoll predict`",
        retried: "in place: `--retry-in-place`",
    },
};

fn read(sources: &Sources<'_>) -> CiJob {
    let project = sources.both("CIRCLE_PROJECT_USERNAME", "CIRCLE_PROJECT_REPONAME");
    let part = sources.get("CIRCLE_NODE_INDEX").zip(sources.get("CIRCLE_NODE_TOTAL"));
    let job = part_name(sources.text("CIRCLE_JOB"), part.clone());
    let node = part.filter(|(_, total)| total != "1").map(|(index, _)| format!("/node-{}", word(&index)));
    let mut labels = sources.labels(&[("pipeline", "CIRCLE_PIPELINE_ID"), ("commit", "CIRCLE_SHA1")]);
    labels.push(("job", job.clone()));
    let id = project.as_deref().zip(sources.get("CIRCLE_BUILD_NUM")).map(|(project, build)| {
        id("circleci", &place(project), &format!("{}{}", word(&build), node.unwrap_or_default()))
    });
    let of_fork = ["CIRCLE_PR_NUMBER", "CIRCLE_PR_REPONAME", "CIRCLE_PR_USERNAME"];
    CiJob {
        project: project.unwrap_or_default(),
        git_ref: sources.get("CIRCLE_BRANCH").or_else(|| sources.get("CIRCLE_TAG")).unwrap_or_default(),
        owner: sources.text("CIRCLE_USERNAME"),
        is_foreign: of_fork.into_iter().any(|name| sources.get(name).is_some()),
        id,
        job,
        labels,
        ..CiJob::default()
    }
}
