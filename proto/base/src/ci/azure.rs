//! Azure Pipelines. Variables: <https://learn.microsoft.com/en-us/azure/devops/pipelines/build/variables>. Its log has the groups of GitHub:
//! <https://learn.microsoft.com/en-us/azure/devops/pipelines/scripts/logging-commands#formatting-commands>.
//!
//! `SYSTEM_JOBID` is read together with the build and the attempt: it names a job within them.

use super::{CiJob, CiSystem, Columns, Sources, Support, github::GROUPS, id, place, plain_branch, word};

/// The row of Azure Pipelines.
pub(super) static AZURE: CiSystem = CiSystem {
    name: "azure",
    title: "Azure Pipelines",
    recognized_by: Some(("TF_BUILD", "True")),
    needs: &["SYSTEM_COLLECTIONURI", "SYSTEM_TEAMPROJECT", "BUILD_BUILDID", "SYSTEM_JOBID"],
    job_variable: "SYSTEM_JOBID",
    workspace: "PIPELINE_WORKSPACE",
    read,
    phases: Some(&GROUPS),
    fold: Some(|_now, _name, heading| (format!("##[group]{heading}"), "##[endgroup]".to_owned())),
    links: None,
    columns: Columns {
        key: "project `BUILD_REPOSITORY_NAME`, with `SYSTEM_TEAMPROJECT` before it if it has no owner; stack `BUILD_DEFINITIONNAME`, package `SYSTEM_JOBDISPLAYNAME`, ref, owner",
        id: "`azure:HOST/ORGANIZATION/PROJECT:BUILD.ATTEMPT/JOB`",
        untrusted: "`SYSTEM_PULLREQUEST_ISFORK` is `True`",
    },
    support: Support {
        measured: "`plimsoll run` in a `script` step",
        judged: "yes",
        sized: "by `plimsoll predict`",
        retried: "in place: `--retry-in-place`",
    },
};

fn read(sources: &Sources<'_>) -> CiJob {
    let (team, repository) = (sources.text("SYSTEM_TEAMPROJECT"), sources.text("BUILD_REPOSITORY_NAME"));
    let project = match (repository.contains('/'), repository.is_empty()) {
        (true, _) => repository,
        (false, true) => team.clone(),
        (false, false) => format!("{team}/{repository}"),
    };
    let job =
        sources.get("SYSTEM_JOBDISPLAYNAME").or_else(|| sources.get("SYSTEM_JOBNAME")).unwrap_or_default();
    let branch = sources.get("SYSTEM_PULLREQUEST_SOURCEBRANCH").or_else(|| sources.get("BUILD_SOURCEBRANCH"));
    let number = sources.get("SYSTEM_JOBATTEMPT").map_or(Some(1), |number| number.parse::<u32>().ok());
    let unit = sources.get("BUILD_BUILDID").zip(sources.get("SYSTEM_JOBID")).zip(number);
    let mut labels = sources.labels(&[
        ("pipeline", "BUILD_BUILDID"),
        ("commit", "BUILD_SOURCEVERSION"),
        ("stage", "SYSTEM_STAGENAME"),
    ]);
    labels.push(("job", job.clone()));
    let at = sources.get("SYSTEM_COLLECTIONURI").map(|at| format!("{}/{}", place(&at), place(&team)));
    CiJob {
        id: at.zip(unit).map(|(at, ((build, job), number))| {
            id("azure", &at, &format!("{}.{number}/{}", word(&build), word(&job)))
        }),
        stack: sources.text("BUILD_DEFINITIONNAME"),
        git_ref: branch.map(|branch| plain_branch(&branch).to_owned()).unwrap_or_default(),
        owner: sources.text("BUILD_REQUESTEDFOR"),
        is_foreign: sources.text("SYSTEM_PULLREQUEST_ISFORK").eq_ignore_ascii_case("true"),
        number,
        project,
        job,
        labels,
    }
}
