//! GitLab CI. <https://docs.gitlab.com/ci/variables/predefined_variables/>; sections:
//! <https://docs.gitlab.com/ci/jobs/job_logs/#custom-collapsible-sections>.
//!
//! The id is `CI_SERVER_HOST:CI_JOB_ID`, without a word for the system. No attempt number is read, because GitLab does not offer one to the
//! job itself. Whether a job is trusted follows from its token alone.

use super::{CiJob, CiSystem, Columns, LogLine, LogMark, NamedAttempt, PhaseTool, Sources, Support};

/// The row of GitLab. Jobs of no known system are read by it, too, because Spack's runners and webhooks pass on some of its variables only.
pub static GITLAB: CiSystem = CiSystem {
    name: "gitlab",
    title: "GitLab",
    recognized_by: Some(("GITLAB_CI", "")),
    needs: &[],
    job_variable: "CI_JOB_ID",
    workspace: "CI_PROJECT_DIR",
    read,
    phases: Some(&PhaseTool {
        name: "gitlab",
        markers: "GitLab's sections",
        words: &["section_"],
        parse: parse_section,
    }),
    fold: Some(fold),
    links: Some(links),
    columns: Columns {
        key: "project `CI_PROJECT_PATH`, package `CI_JOB_NAME`, ref, owner",
        id: "`CI_SERVER_HOST:CI_JOB_ID`",
        untrusted: "not known: its token decides",
    },
    support: Support {
        measured: "an include, or `plimsoll run`",
        judged: "yes, also by hooks and logs",
        sized: "pods when they are created; `plimsoll recommend`",
        retried: "by exit code: `retry: exit_codes`",
    },
};

/// Label with GitLab's address, for links to it. It is only set if GitLab is not at `https`.
const SERVER_URL_LABEL: &str = "ci_server_url";

/// Longest address in a label, bytes: the wire's bound of a label.
const URL_BYTES: usize = 128;

fn read(sources: &Sources<'_>) -> CiJob {
    let job = sources.get("CI_JOB_ID");
    let of_host = |job: String| match sources.get("CI_SERVER_HOST") {
        Some(host) => format!("{host}:{job}"),
        None => job,
    };
    let mut labels = sources.labels(&[
        ("stage", "CI_JOB_STAGE"),
        ("pipeline", "CI_PIPELINE_ID"),
        ("job", "CI_JOB_NAME"),
        ("commit", "CI_COMMIT_SHA"),
    ]);
    let url = sources.get("CI_SERVER_URL").filter(|url| url.starts_with("http://") && url.len() <= URL_BYTES);
    labels.extend(url.map(|url| (SERVER_URL_LABEL, url)));
    CiJob {
        project: sources.text("CI_PROJECT_PATH"),
        job: sources.text("CI_JOB_NAME"),
        git_ref: sources.text("CI_COMMIT_REF_NAME"),
        owner: sources.text("GITLAB_USER_LOGIN"),
        labels,
        id: job.map(of_host),
        ..CiJob::default()
    }
}

/// Host and number of the GitLab job whose first command has this id. `None` for any other id, also for that of a host without a dot. The
/// form belongs to GitLab alone.
fn gitlab_job(attempt: &str) -> Option<(&str, &str)> {
    let (host, job) = attempt.split_once(':')?;
    let is_host =
        host.contains('.') && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    (is_host && is_number(job)).then_some((host, job))
}

/// The pages of the job and, if known, its pipeline. The addresses begin with `https://` and the host, unless the job has reported an
/// `http` address of the same host.
fn links(attempt: &NamedAttempt<'_>) -> Vec<(String, String)> {
    let Some((host, job)) = gitlab_job(attempt.id) else { return Vec::new() };
    let project = attempt.project.trim_matches('/');
    if project.is_empty() || project.contains("..") {
        return Vec::new();
    }
    let plain = (attempt.label)(SERVER_URL_LABEL).filter(|url| is_address_of_host(url, host));
    let server = plain.map_or_else(|| format!("https://{host}"), |url| url.trim_end_matches('/').to_owned());
    let pipeline = (attempt.label)("pipeline").filter(|pipeline| is_number(pipeline));
    let link = |kind: &str, id: &str| (format!("{kind} {id}"), format!("{server}/{project}/-/{kind}s/{id}"));
    [Some(link("job", job)), pipeline.map(|id| link("pipeline", id))].into_iter().flatten().collect()
}

/// Whether the address is `http`, of this host, with an optional port. No other address may become a link.
fn is_address_of_host(url: &str, host: &str) -> bool {
    let rest = url.strip_prefix("http://").and_then(|rest| rest.trim_end_matches('/').strip_prefix(host));
    rest.is_some_and(|port| port.is_empty() || port.strip_prefix(':').is_some_and(is_number))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn fold(now: u64, name: &str, heading: &str) -> (String, String) {
    (
        format!("\x1b[0Ksection_start:{now}:{name}[collapsed=true]\r\x1b[0K{heading}"),
        format!("\x1b[0Ksection_end:{now}:{name}\r\x1b[0K"),
    )
}

/// Parses GitLab's `section_start:1560896352:my_section[collapsed=true]` up to the CR. A script that the shell
/// prints (`set -x`) has the CR as the two characters `\r`, and does not match.
fn parse_section(line: LogLine<'_>) -> Option<LogMark> {
    if line.line_end != b'\r' {
        return None;
    }
    let text = str::from_utf8(line.text).ok()?;
    let (_before, mark) = text.rsplit_once("section_")?;
    let (kind, rest) = mark.split_once(':')?;
    let (time, rest) = rest.split_once(':')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let (name, options) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
    let options_fit = options.is_empty() || (options.starts_with('[') && options.ends_with(']'));
    if !is_number(time) || !options_fit {
        return None;
    }
    match kind {
        "start" => Some(LogMark::SectionStart(name.to_owned())),
        "end" => Some(LogMark::SectionEnd(name.to_owned())),
        _ => None,
    }
}
