//! Derives key and attempt of a CI job from what its CI system ([`ci`]) and Spack say. The agent inside the job and the server, which sees
//! only the job's pod, both use it, so that they derive the same key and the same attempt.

use std::time::{Duration, SystemTime};

use plimsoll_base::ci::{self, CiSystem, GITLAB, Sources};

use crate::{
    limits, spack,
    v1::{Hints, Key},
};

/// All variables that [`key`] and [`attempt`] read of a GitLab job.
pub const CI_VARIABLES: [&str; 19] = [
    "CI_PROJECT_PATH",
    "CI_COMMIT_REF_NAME",
    "CI_COMMIT_SHA",
    "CI_PIPELINE_ID",
    "CI_JOB_ID",
    "CI_JOB_NAME",
    "CI_JOB_STAGE",
    "CI_SERVER_HOST",
    "CI_SERVER_URL",
    "GITLAB_USER_LOGIN",
    "SPACK_CI_STACK_NAME",
    "SPACK_BUILD_JOBS",
    "SPACK_JOB_SPEC_PKG_NAME",
    "SPACK_JOB_SPEC_PKG_VERSION",
    "SPACK_JOB_SPEC_COMPILER_NAME",
    "SPACK_JOB_SPEC_COMPILER_VERSION",
    "SPACK_JOB_SPEC_ARCH",
    "PLIMSOLL_BUILD_KIND",
    "PLIMSOLL_SECURITY_FIX",
];

/// The variable with the variants of a spec, which have a limit of their own.
pub const VARIANTS: &str = "SPACK_JOB_SPEC_VARIANTS";

/// Labels that say why something is built, which decides where it runs, and the variables that they are read from.
const LABELS: [(&str, &str); 2] = [("kind", "PLIMSOLL_BUILD_KIND"), ("security", "PLIMSOLL_SECURITY_FIX")];

/// The values of the label `kind`: why something is built. Upper and lower case are equal.
pub const BUILD_KINDS: [&str; 5] = ["scratch", "explicit", "auto", "isolated", "orchestrator"];

/// Whether a text means yes or no, in upper or lower case; `None` if it means neither.
pub fn parse_yes_or_no(text: &str) -> Option<bool> {
    let is_one_of = |words: &[&str]| words.iter().any(|word| text.trim().eq_ignore_ascii_case(word));
    match (is_one_of(&["true", "1", "yes"]), is_one_of(&["false", "0", "no", ""])) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

/// One sentence for each of the labels `kind` and `security` with a value that is not known and is therefore ignored.
pub fn ignored_label_notes<'l>(label: impl Fn(&str) -> Option<&'l str>) -> Vec<String> {
    let strange_kind =
        label("kind").filter(|word| !BUILD_KINDS.iter().any(|kind| kind.eq_ignore_ascii_case(word.trim())));
    let of_kind = strange_kind.map(|word| {
        format!(
            "the label kind is {word:?}, which is none of {}: it counts as explicit",
            BUILD_KINDS.join(", ")
        )
    });
    let of_security = label("security").filter(|word| parse_yes_or_no(word).is_none()).map(|word| {
        format!("the label security is {word:?}, which is neither true nor false: it counts as false")
    });
    of_kind.into_iter().chain(of_security).collect()
}

/// What is known of a job in its environment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Job {
    /// Its key. Without a package from Spack, the job's name is the package, which may be empty; without an architecture from Spack, the
    /// architecture is empty.
    pub key: Key,
    /// The id of its attempt.
    pub attempt: Option<String>,
    /// The number of its attempt: 1 for the first.
    pub number: Option<u32>,
    /// Whether the job says that it builds what others than the project's own people wrote.
    pub is_foreign: bool,
}

/// The key of a GitLab job, for those who see some of its variables only.
pub fn key(lookup: impl Fn(&str) -> Option<String>) -> Key {
    Job::of(&GITLAB, &Sources::of_variables(&lookup)).key
}

/// The id of a GitLab job's attempt: the job's number and the host, because numbers are unique within one GitLab only.
pub fn attempt(lookup: impl Fn(&str) -> Option<String>) -> Option<String> {
    Job::of(&GITLAB, &Sources::of_variables(&lookup)).attempt
}

impl Job {
    /// The job of this system.
    pub fn of(system: &CiSystem, sources: &Sources<'_>) -> Self {
        let job = system.job(sources);
        let field = |text: &str| clean_and_cut(text, limits::KEY_FIELD_BYTES);
        let text = |name: &str| field(&sources.text(name));
        let or = |text: String, other: &str| if text.is_empty() { field(other) } else { text };
        let (variants, build_system) = spack::variants(&sources.text(VARIANTS));
        let labels = job.labels.into_iter().chain(sources.labels(&LABELS));
        let jobs = sources.get("SPACK_BUILD_JOBS").and_then(|jobs| build_jobs(&jobs));
        let key = Key {
            project: field(&job.project),
            stack: or(text("SPACK_CI_STACK_NAME"), &job.stack),
            package: or(text("SPACK_JOB_SPEC_PKG_NAME"), &job.job),
            version: text("SPACK_JOB_SPEC_PKG_VERSION"),
            variants: clean_and_cut(&variants, limits::VARIANTS_BYTES),
            compiler: spack::compiler(&text("SPACK_JOB_SPEC_COMPILER_NAME")).to_owned(),
            compiler_version: spack::compiler(&text("SPACK_JOB_SPEC_COMPILER_VERSION")).to_owned(),
            arch: text("SPACK_JOB_SPEC_ARCH"),
            build_system: field(&build_system),
            r#ref: field(&job.git_ref),
            owner: field(&job.owner),
            labels: labels
                .filter(|(_, value)| !value.is_empty())
                .map(|(label, value)| (label.to_owned(), clean_and_cut(&value, limits::LABEL_BYTES)))
                .collect(),
            hints: jobs.map(|jobs| Hints { build_jobs: Some(jobs), ..Hints::default() }),
        };
        Self {
            key,
            attempt: job.id.map(|id| fitting_id(&id)),
            number: job.number.filter(|number| *number > 0),
            is_foreign: job.is_foreign,
        }
    }
}

/// The id with characters that an id may contain, within the wire's limit. What is too long loses its end; ids that say their system, whose
/// ends tell jobs apart, get a hash instead of it.
fn fitting_id(id: &str) -> String {
    let fits: String = id.chars().map(|c| if is_id_char(c) { c } else { '_' }).collect();
    let is_short = fits.len() <= limits::ATTEMPT_BYTES;
    match fits.rsplit_once(':').filter(|_| !is_short && ci::is_system_id(&fits)) {
        Some((place, unit)) => {
            // what stands before the job names its run, which a token may prove
            let run = unit.split_once('/').map(|(run, _job)| format!("{run}/")).unwrap_or_default();
            with_suffix(place, &format!(":{run}h{:016x}", ci::name_hash(id)))
        }
        None => fits.chars().take(limits::ATTEMPT_BYTES).collect(),
    }
}

/// The parts of an attempt's id, `HOST:JOB.COMMAND/TRY`. `HOST` is left out if it is unknown, `COMMAND` and `TRY` if they are the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobExecution<'a> {
    /// Host of the CI system; empty if the id has none. Of a system with ids of its own, all that stands before the job: `NAME:PLACE`.
    pub host: &'a str,
    /// The job's number or name, in any characters that an id may contain.
    pub job: &'a str,
    /// Which of the commands that the job runs: empty for the first, else a suffix that is usually its number.
    pub command: &'a str,
    /// Which execution of this command within the job, from 1.
    pub try_number: u32,
}

impl<'a> JobExecution<'a> {
    /// Splits an attempt's id into its parts. A dot begins a command only after a job's number, and in the last part of an id that says its
    /// system, because other names may contain dots.
    pub fn read(attempt: &'a str) -> Self {
        let (host, rest) = attempt.rsplit_once(':').unwrap_or(("", attempt));
        let numbered = rest.rsplit_once('/').and_then(|(rest, tried)| Some((rest, tried.parse().ok()?)));
        let (rest, tried) = numbered.unwrap_or((rest, 1));
        let is_command =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let split = if ci::is_system_id(attempt) {
            rest.rsplit_once('.').filter(|(_, command)| !command.contains('/'))
        } else {
            rest.split_once('.').filter(|(job, _)| job.parse::<u64>().is_ok())
        };
        match split.filter(|(_, command)| is_command(command)) {
            Some((job, command)) => {
                Self { host, job, command: if command == "1" { "" } else { command }, try_number: tried }
            }
            None => Self { host, job: rest, command: "", try_number: tried },
        }
    }

    /// The job's number, by which the CI system orders its jobs; `None` if the job has a name that is no number.
    pub fn number(&self) -> Option<u64> {
        self.job.parse().ok()
    }
}

/// Most runs with one id. Each run costs the next one a look at the disk.
pub const MAX_RUNS: u32 = 100;

/// The id of another run under the same id: `ID.2`, or `ID.2/TRY`. It is cut to the wire's limit.
pub fn run_id(attempt: &str, number: u32) -> String {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let (rest, tried) = match attempt.rsplit_once('/').filter(|(_, tried)| is_number(tried)) {
        Some((rest, tried)) => (rest, format!("/{tried}")),
        None => (attempt, String::new()),
    };
    let has_commands = |job: &str| ci::is_system_id(rest) || JobExecution::read(job).number().is_some();
    let numbered = rest.rsplit_once('.').filter(|(job, command)| is_number(command) && has_commands(job));
    with_suffix(numbered.map_or(rest, |(job, _)| job), &format!(".{number}{tried}"))
}

/// The id with a suffix. The id is cut so that both together keep the wire's limit.
pub fn with_suffix(id: &str, suffix: &str) -> String {
    let most = limits::ATTEMPT_BYTES.saturating_sub(suffix.len());
    let cut: String = id.chars().take(most).collect();
    format!("{cut}{suffix}")
}

/// Whether an attempt's id may contain this character.
pub fn is_id_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._:/-".contains(c)
}

/// Parses a number of parallel jobs; `None` if it is not within the limits.
pub fn build_jobs(text: &str) -> Option<u32> {
    text.parse().ok().filter(|jobs| (1..=limits::BUILD_JOBS).contains(jobs))
}

/// The text without control characters, cut to `most` bytes.
pub fn clean_and_cut(text: &str, most: usize) -> String {
    let mut fitting = String::new();
    for c in text.chars().filter(|c| !c.is_control()) {
        if fitting.len().saturating_add(c.len_utf8()) > most {
            break;
        }
        fitting.push(c);
    }
    fitting
}

/// Reads a time of RFC 3339 in any time zone, because each GitLab server uses its own; milliseconds since 1970. `None` if it is none, or
/// before 1970.
pub fn unix_ms(text: &str) -> Option<u64> {
    let at = text.rfind(['Z', 'z', '+', '-']).filter(|&at| at >= "2000-01-01T00:00:00".len())?;
    let (local, zone) = text.split_at_checked(at)?;
    let local = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    let utc = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => local,
        ("+", zone) => local.checked_sub(zone_offset(zone)?)?,
        (_minus, zone) => local.checked_add(zone_offset(zone)?)?,
    };
    let since = utc.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

fn zone_offset(zone: &str) -> Option<Duration> {
    let (hours, minutes) = zone.split_once(':')?;
    let (hours, minutes): (u64, u64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then(|| Duration::from_secs(hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn only_listed_variables_are_looked_at() {
        let asked = RefCell::new(Vec::new());
        let lookup = |name: &str| {
            asked.borrow_mut().push(name.to_owned());
            None::<String>
        };
        assert_eq!(key(lookup), Key::default());
        assert_eq!(attempt(lookup), None);
        asked.borrow_mut().push("CI_SERVER_HOST".to_owned());
        for name in asked.borrow().iter() {
            assert!(CI_VARIABLES.contains(&name.as_str()) || name == VARIANTS, "{name}");
        }
        for name in CI_VARIABLES {
            assert!(asked.borrow().iter().any(|asked| asked == name), "{name} is never looked at");
        }
    }

    #[test]
    fn an_unknown_kind_or_flag_is_reported() {
        let problems = |kind: &'static str, security: &'static str| {
            ignored_label_notes(move |name| Some(if name == "kind" { kind } else { security })).len()
        };
        assert_eq!((problems("AUTO", "TRUE"), problems("auto", "0"), problems("bogus", "ja")), (0, 0, 2));
        assert_eq!(ignored_label_notes(|_name| None), Vec::<String>::new());
        assert_eq!(parse_yes_or_no("Yes"), Some(true));
        assert_eq!(parse_yes_or_no("False"), Some(false));
        assert_eq!(parse_yes_or_no("y"), None);
    }

    #[test]
    fn an_attempt_id_encodes_host_job_and_try() {
        for (id, host, job, command, tried) in [
            ("gitlab.com:7", "gitlab.com", "7", "", 1),
            ("gitlab.com:7.1", "gitlab.com", "7", "", 1),
            ("gitlab.com:7.2", "gitlab.com", "7", "2", 1),
            ("gitlab.com:7.2/3", "gitlab.com", "7", "2", 3),
            ("gitlab.com:7.01ARZ3NDEKTSV4RRFFQ69G5FAV", "gitlab.com", "7", "01ARZ3NDEKTSV4RRFFQ69G5FAV", 1),
            ("7/2", "", "7", "", 2),
            ("mine-1.2", "", "mine-1.2", "", 1),
            ("a/b", "", "a/b", "", 1),
            ("7.", "", "7.", "", 1),
            ("7.2.3", "", "7.2.3", "", 1),
            ("", "", "", "", 1),
            ("github:a/b:12.2/build", "github:a/b", "12.2/build", "", 1),
            ("github:a/b.c:12.2/build.3", "github:a/b.c", "12.2/build", "3", 1),
            ("github:a/b:12.2/build.3/2", "github:a/b", "12.2/build", "3", 2),
            ("circleci:a/b:42/2", "circleci:a/b", "42", "", 2),
            ("github:12", "github", "12", "", 1),
        ] {
            let expected = JobExecution { host, job, command, try_number: tried };
            assert_eq!(JobExecution::read(id), expected, "{id}");
        }
        assert_eq!(JobExecution::read("h:7.2").number(), Some(7));
        assert_eq!(JobExecution::read("mine").number(), None);
    }

    #[test]
    fn another_run_gets_the_next_number() {
        for (id, expected) in [
            ("gitlab.com:7", "gitlab.com:7.3"),
            ("gitlab.com:7.2", "gitlab.com:7.3"),
            ("7.1/2", "7.3/2"),
            ("gitlab.com:7/2", "gitlab.com:7.3/2"),
            ("mine", "mine.3"),
            ("a/b", "a/b.3"),
            ("mine-1.2", "mine-1.2.3"),
            ("github:a/b:12.2/build", "github:a/b:12.2/build.3"),
            ("github:a/b:12.2/build.2/4", "github:a/b:12.2/build.3/4"),
        ] {
            assert_eq!(run_id(id, 3), expected);
        }
        let read = JobExecution { host: "gitlab.com", job: "7", command: "3", try_number: 2 };
        assert_eq!(JobExecution::read(&run_id("gitlab.com:7/2", 3)), read);
        let long = run_id(&"x".repeat(limits::ATTEMPT_BYTES), 12);
        assert_eq!((long.len(), long.ends_with("x.12")), (limits::ATTEMPT_BYTES, true));
    }

    #[test]
    fn oversized_values_are_trimmed_for_the_wire() {
        let long = "x\u{7}é".repeat(1000);
        let key = key(|_name| Some(long.clone()));
        assert!(key.package.len() <= limits::KEY_FIELD_BYTES && !key.package.contains('\u{7}'));
        assert!(key.labels.values().all(|value| value.len() <= limits::LABEL_BYTES));
        assert_eq!(key.hints, None);
        let id = attempt(|_name| Some(long.clone())).unwrap();
        assert!(id.chars().count() <= limits::ATTEMPT_BYTES && id.chars().all(is_id_char), "{id}");
        let id = |job: &str| fitting_id(&format!("github:a/b:12.1/{}", job.repeat(200)));
        assert!(id("x").len() <= limits::ATTEMPT_BYTES && JobExecution::read(&id("x")).host == "github:a/b");
        assert_ne!(id("x"), id("y"), "their ends are not lost");
    }
}
