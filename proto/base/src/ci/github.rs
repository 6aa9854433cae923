//! GitHub Actions, and Forgejo and Gitea Actions, which set the same variables.
//!
//! Variables: <https://docs.github.com/en/actions/reference/workflows-and-actions/variables>; the event's file:
//! <https://docs.github.com/en/webhooks/webhook-events-and-payloads#pull_request>; groups:
//! <https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#grouping-log-lines>.
//!
//! `GITHUB_JOB` is the same for all jobs of a matrix, and the matrix is not in the environment: a workflow passes it as `PLIMSOLL_MATRIX`.

use serde_json::Value;

use super::{
    CiJob, CiSystem, Columns, LogLine, LogMark, NamedAttempt, PhaseTool, Sources, Support, id, place, word,
};

const SERVER: &str = "https://github.com";
/// What the issuers of self-hosted servers have behind the server's address: GitHub Enterprise Server
/// (<https://docs.github.com/en/enterprise-server@latest/actions/reference/security/oidc>), and Forgejo.
const ISSUER_PATHS: [&str; 2] = ["/_services/token", "/api/actions"];
/// The host of GitHub's own issuers, before the rest of their domain.
const CLOUD_ISSUER: &str = "token.actions.";

/// The row of GitHub Actions.
pub(super) static GITHUB: CiSystem = CiSystem {
    name: "github",
    title: "GitHub Actions",
    recognized_by: Some(("GITHUB_ACTIONS", "true")),
    needs: &["GITHUB_REPOSITORY", "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB"],
    job_variable: "RUNNER_TRACKING_ID",
    workspace: "GITHUB_WORKSPACE",
    read,
    phases: Some(&GROUPS),
    fold: Some(|_now, _name, heading| (format!("::group::{heading}"), "::endgroup::".to_owned())),
    links: Some(links),
    columns: Columns {
        key: "project `GITHUB_REPOSITORY`, stack `GITHUB_WORKFLOW`, package `GITHUB_JOB` and the matrix (`PLIMSOLL_MATRIX: ${{ toJSON(matrix) }}`), ref, owner",
        id: "`github:OWNER/REPO:RUN.ATTEMPT/JOB`; the host before `OWNER`, if it is not github.com",
        untrusted: "a pull request whose head is of another repository, by `GITHUB_EVENT_PATH`; one whose event cannot be read",
    },
    support: Support {
        measured: "an action or job hooks for whole jobs, or `plimsoll run` in a `run:` step",
        judged: "yes",
        sized: "by `plimsoll predict`",
        retried: "in place: `--retry-in-place`; GitHub retries no job by its exit code",
    },
};

/// Groups, as a workflow command prints them, and as they are in a log. Azure Pipelines has the same.
pub(super) static GROUPS: PhaseTool = PhaseTool {
    name: "github",
    markers: "groups of GitHub and Azure",
    words: &["::group::", "::endgroup::", "##[group]", "##[endgroup]"],
    parse: parse_group,
};

/// How the ids of a run's jobs begin, by the claims of an ID token, which names the run and not the job: `github:PLACE`, before the
/// colon, and `RUN.ATTEMPT/` behind it.
pub fn github_run(issuer: &str, repository: &str, run: &str, attempt: &str) -> (String, String) {
    let issuer = issuer.trim_end_matches('/');
    let server = place(ISSUER_PATHS.iter().find_map(|path| issuer.strip_suffix(path)).unwrap_or(issuer));
    let cloud = server.strip_prefix(CLOUD_ISSUER).map(|domain| domain.split('/').next().unwrap_or_default());
    let host = match cloud {
        // its path is the name of an enterprise
        Some("githubusercontent.com") => String::new(),
        Some(domain) => format!("{domain}/"),
        None => format!("{server}/"),
    };
    (format!("github:{host}{}", place(repository)), format!("{}.{}/", word(run), word(attempt)))
}

fn read(sources: &Sources<'_>) -> CiJob {
    let repository = sources.text("GITHUB_REPOSITORY");
    let job = sources.text("GITHUB_JOB");
    let server = sources.get("GITHUB_SERVER_URL").filter(|server| server != SERVER);
    let host = server.map(|server| place(&server) + "/").unwrap_or_default();
    let unit = sources
        .get("GITHUB_RUN_ID")
        .zip(sources.get("GITHUB_RUN_ATTEMPT"))
        .map(|(run, attempt)| format!("{}.{}/{}", word(&run), word(&attempt), word(&job)));
    let mut labels = sources.labels(&[("pipeline", "GITHUB_RUN_ID"), ("commit", "GITHUB_SHA")]);
    labels.push(("job", job.clone()));
    CiJob {
        stack: sources.text("GITHUB_WORKFLOW"),
        git_ref: sources
            .get("GITHUB_HEAD_REF")
            .or_else(|| sources.get("GITHUB_REF_NAME"))
            .unwrap_or_default(),
        owner: sources.text("GITHUB_ACTOR"),
        id: unit.map(|unit| id("github", &format!("{host}{}", place(&repository)), &unit)),
        number: sources.get("GITHUB_RUN_ATTEMPT").and_then(|number| number.parse().ok()),
        is_foreign: is_foreign(sources, &repository),
        project: repository,
        job,
        labels,
    }
}

/// Whether the job builds a pull request of another repository, or of one that is not known.
fn is_foreign(sources: &Sources<'_>, repository: &str) -> bool {
    if !sources.text("GITHUB_EVENT_NAME").starts_with("pull_request") {
        return false;
    }
    let event = sources.get("GITHUB_EVENT_PATH").and_then(|path| (sources.file)(&path));
    let event: Option<Value> = event.and_then(|text| serde_json::from_str(&text).ok());
    let head = event.as_ref().and_then(|event| event.pointer("/pull_request/head/repo/full_name"));
    head.and_then(Value::as_str) != Some(repository)
}

fn links(attempt: &NamedAttempt<'_>) -> Vec<(String, String)> {
    let of_github = attempt.id.strip_prefix("github:").and_then(|id| id.split_once(':'));
    let Some((repository, unit)) = of_github.filter(|(place, _)| place.matches('/').count() == 1) else {
        return Vec::new();
    };
    let run = unit.split('.').next().filter(|run| run.bytes().all(|byte| byte.is_ascii_digit()));
    let is_plain = !repository.contains("..") && !repository.starts_with('/');
    let link = |run: &str| (format!("run {run}"), format!("{SERVER}/{repository}/actions/runs/{run}"));
    run.filter(|run| !run.is_empty() && is_plain).map(link).into_iter().collect()
}

fn parse_group(line: LogLine<'_>) -> Option<LogMark> {
    let text = str::from_utf8(line.text).ok()?.trim();
    if ["::endgroup::", "##[endgroup]"].contains(&text) {
        return Some(LogMark::PhaseEnd);
    }
    let name = text.strip_prefix("::group::").or_else(|| text.strip_prefix("##[group]"))?;
    Some(LogMark::Phase(name.to_owned()))
}
