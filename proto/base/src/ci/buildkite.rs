//! Buildkite. Variables: <https://buildkite.com/docs/pipelines/configure/environment-variables>; groups of the log:
//! <https://buildkite.com/docs/pipelines/configure/managing-log-output>.
//!
//! Each retry is a job with an id of its own; attempts of a step are ordered by their build's number and the step's name.

use super::{
    CiJob, CiSystem, Columns, LogLine, LogMark, NamedAttempt, PhaseTool, Sources, Support, git_remote, id,
    part_name, place, word,
};

/// The row of Buildkite.
pub(super) static BUILDKITE: CiSystem = CiSystem {
    name: "buildkite",
    title: "Buildkite",
    recognized_by: Some(("BUILDKITE", "true")),
    needs: &["BUILDKITE_ORGANIZATION_SLUG", "BUILDKITE_PIPELINE_SLUG", "BUILDKITE_JOB_ID"],
    job_variable: "BUILDKITE_JOB_ID",
    workspace: "BUILDKITE_BUILD_CHECKOUT_PATH",
    read,
    phases: Some(&PhaseTool {
        name: "buildkite",
        markers: "groups of Buildkite",
        words: &["--- ", "+++ ", "~~~ "],
        parse: parse_group,
    }),
    // a group of its log lasts until the next one: the verdict would be folded, too
    fold: None,
    links: Some(links),
    columns: Columns {
        key: "project `BUILDKITE_ORGANIZATION_SLUG/BUILDKITE_PIPELINE_SLUG`, package `BUILDKITE_STEP_KEY`, else `BUILDKITE_LABEL`, with the part of a parallel step, ref",
        id: "`buildkite:ORGANIZATION/PIPELINE:JOB`",
        untrusted: "a pull request whose `BUILDKITE_PULL_REQUEST_REPO` is not the `BUILDKITE_REPO`",
    },
    support: Support {
        measured: "`plimsoll run` in a command",
        judged: "yes",
        sized: "by `plimsoll predict`",
        retried: "by exit code: `retry.automatic`",
    },
};

fn read(sources: &Sources<'_>) -> CiJob {
    let pipeline = sources.both("BUILDKITE_ORGANIZATION_SLUG", "BUILDKITE_PIPELINE_SLUG");
    let step = sources.get("BUILDKITE_STEP_KEY").or_else(|| sources.get("BUILDKITE_LABEL"));
    let part = sources.get("BUILDKITE_PARALLEL_JOB").zip(sources.get("BUILDKITE_PARALLEL_JOB_COUNT"));
    let job = part_name(step.unwrap_or_default(), part);
    let mut labels =
        sources.labels(&[("pipeline", "BUILDKITE_BUILD_NUMBER"), ("commit", "BUILDKITE_COMMIT")]);
    labels.push(("job", job.clone()));
    let id = pipeline.as_deref().zip(sources.get("BUILDKITE_JOB_ID"));
    CiJob {
        id: id.map(|(pipeline, job)| id_of(pipeline, &job)),
        project: pipeline.unwrap_or_default(),
        git_ref: sources.text("BUILDKITE_BRANCH"),
        number: sources
            .get("BUILDKITE_RETRY_COUNT")
            .and_then(|retries| retries.parse::<u32>().ok()?.checked_add(1)),
        is_foreign: is_foreign(sources),
        job,
        labels,
        ..CiJob::default()
    }
}

fn id_of(pipeline: &str, job: &str) -> String {
    id("buildkite", &place(pipeline), &word(job))
}

fn is_foreign(sources: &Sources<'_>) -> bool {
    let is_request = sources.get("BUILDKITE_PULL_REQUEST").is_some_and(|number| number != "false");
    let repository = |name: &str| git_remote(&sources.get(name)?);
    // an alias of ssh has the name of its host in front: `github.com-app`
    let is_own = |((of, path), (own, own_path)): ((String, String), (String, String))| {
        path == own_path && (of == own || own.strip_prefix(&of).is_some_and(|rest| rest.starts_with('-')))
    };
    let of = repository("BUILDKITE_PULL_REQUEST_REPO").zip(repository("BUILDKITE_REPO"));
    is_request && !of.is_some_and(is_own)
}

fn links(attempt: &NamedAttempt<'_>) -> Vec<(String, String)> {
    let of_pipeline = attempt.id.strip_prefix("buildkite:").and_then(|id| id.split_once(':'));
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let build = (attempt.label)("pipeline").filter(is_number);
    let Some(((pipeline, _job), build)) = of_pipeline.zip(build) else { return Vec::new() };
    if pipeline.contains("..") || pipeline.starts_with('/') {
        return Vec::new();
    }
    vec![(format!("build {build}"), format!("https://buildkite.com/{pipeline}/builds/{build}"))]
}

fn parse_group(line: LogLine<'_>) -> Option<LogMark> {
    let text = str::from_utf8(line.text).ok()?;
    let name = ["--- ", "+++ ", "~~~ "].into_iter().find_map(|mark| text.strip_prefix(mark))?;
    Some(LogMark::Phase(name.to_owned()))
}
