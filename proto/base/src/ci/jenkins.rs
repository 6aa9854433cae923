//! Jenkins. Variables: `core/src/main/resources/jenkins/model/CoreEnvironmentContributor/buildEnv.properties` of jenkinsci/jenkins,
//! `src/main/resources/jenkins/branch/BranchNameContributor/buildEnv.properties` of jenkinsci/branch-api-plugin (branches and changes), and
//! <https://github.com/jenkinsci/pipeline-stage-step-plugin/pull/10> (`STAGE_NAME`). Jenkins sets `JENKINS_URL` only if its address is
//! configured.
//!
//! A stage that a `retry` step runs again is another command of the same build, because nothing in its variables tells the two apart.

use super::{CiJob, CiSystem, Columns, LogLine, LogMark, PhaseTool, Sources, Support, place, word};

/// The row of Jenkins.
pub(super) static JENKINS: CiSystem = CiSystem {
    name: "jenkins",
    title: "Jenkins",
    recognized_by: Some(("JENKINS_URL", "")),
    needs: &["JOB_NAME", "BUILD_NUMBER"],
    job_variable: "BUILD_TAG",
    workspace: "WORKSPACE",
    read,
    phases: Some(&PhaseTool {
        name: "jenkins",
        markers: "stages of Jenkins, in a log that is piped in: Jenkins writes them itself",
        words: &["[Pipeline] "],
        parse: parse_stage,
    }),
    fold: None,
    links: None,
    columns: Columns {
        key: "project `JOB_NAME`, without the branch in a multibranch project; package `STAGE_NAME`, else the last part of the project; ref `CHANGE_BRANCH`, `BRANCH_NAME`",
        id: "`jenkins:HOST/JOB_NAME:BUILD/STAGE`",
        untrusted: "a change from a fork: `CHANGE_FORK` is set",
    },
    support: Support {
        measured: "`sh 'plimsoll run -- ...'`",
        judged: "yes",
        sized: "by `plimsoll predict`",
        retried: "in place, or by exit code in the pipeline",
    },
};

fn read(sources: &Sources<'_>) -> CiJob {
    let full = sources.text("JOB_NAME");
    // a multibranch project writes a slash in a branch so; any job may have a parameter of this name
    let is_branch =
        |last: &str| sources.get("BRANCH_NAME").is_some_and(|branch| last.replace("%2F", "/") == branch);
    let of_branch = full.rsplit_once('/').filter(|(_, last)| is_branch(last));
    let project = of_branch.map_or(full.as_str(), |(project, _branch)| project).to_owned();
    let last = project.rsplit('/').next().unwrap_or_default();
    let job = sources.get("STAGE_NAME").unwrap_or_else(|| last.to_owned());
    let git_ref =
        ["CHANGE_BRANCH", "BRANCH_NAME", "GIT_BRANCH"].into_iter().find_map(|name| sources.get(name));
    let mut labels = sources.labels(&[("pipeline", "BUILD_NUMBER"), ("commit", "GIT_COMMIT")]);
    labels.push(("job", job.clone()));
    let id = sources.get("JENKINS_URL").zip(sources.get("BUILD_NUMBER")).filter(|_| !full.is_empty());
    CiJob {
        id: id.map(|(server, build)| {
            let unit = format!("{}/{}", word(&build), word(&job));
            super::id("jenkins", &format!("{}/{}", place(&server), place(&full)), &unit)
        }),
        git_ref: git_ref.unwrap_or_default(),
        is_foreign: sources.get("CHANGE_FORK").is_some(),
        project,
        job,
        labels,
        ..CiJob::default()
    }
}

/// `[Pipeline] { (Build)` begins a stage; `[Pipeline] // stage` ends it.
fn parse_stage(line: LogLine<'_>) -> Option<LogMark> {
    let (_time, step) = str::from_utf8(line.text).ok()?.split_once("[Pipeline] ")?;
    if step.trim() == "// stage" {
        return Some(LogMark::PhaseEnd);
    }
    let name = step.trim().strip_prefix("{ (")?.strip_suffix(')')?;
    Some(LogMark::Phase(name.to_owned()))
}
