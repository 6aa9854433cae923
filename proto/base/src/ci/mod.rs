//! The CI systems that Plimsoll knows: one file and one row for each. A further system is a further file, its line in [`SYSTEMS`], its
//! recorded environments and log lines in `recorded`, and its guide. All else reads the rows.
//!
//! A row has what the system's documentation says, at the address in its file, and nothing else. Texts are as the system wrote them: those
//! who read a row clean and cut them.
//!
//! If the variables of several systems are set, one was started by a job of the other. The system counts whose workspace the current
//! directory is in; of several the innermost one, of none the first in the table: servers that live long stand last.

mod azure;
mod buildkite;
mod circleci;
mod github;
mod gitlab;
mod jenkins;
mod log;
mod remote;
mod rpm_builders;
mod tekton;
#[cfg(test)]
mod tests;
mod woodpecker;

pub use github::github_run;
pub use gitlab::GITLAB;
pub use log::{LogLine, LogMark, PhaseTool};
pub use remote::git_remote;
use serde_json::Value;

/// A CI system.
#[derive(Debug)]
pub struct CiSystem {
    /// Its word in ids and `--phases`.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// A variable that its jobs alone have, and its value; an empty text: any. `None`: its builds are known by their command.
    pub recognized_by: Option<(&'static str, &'static str)>,
    /// Variables without which a job gets no id from it.
    pub needs: &'static [&'static str],
    /// A variable whose value differs between all jobs on a machine, and that each process of a job inherits; empty if there is none.
    pub job_variable: &'static str,
    /// The variable with the directory that its jobs work in; empty if there is none.
    pub workspace: &'static str,
    /// What its variables say of a job.
    pub read: fn(&Sources<'_>) -> CiJob,
    /// The markers of phases in the output of its jobs.
    pub phases: Option<&'static PhaseTool>,
    /// Marks before and after a text that its log viewer folds, given time (seconds since 1970), a name that is unique in the log, and the
    /// heading. Each begins a line.
    pub fold: Option<Fold>,
    /// Names and addresses of its pages about an attempt. The addresses are not escaped.
    pub links: Option<Links>,
    /// What the guide of the agent says.
    pub columns: Columns,
    /// What the first page of the documentation says.
    pub support: Support,
}

/// Marks of a log viewer: see [`CiSystem::fold`].
pub type Fold = fn(u64, &str, &str) -> (String, String);

/// Pages about an attempt: see [`CiSystem::links`].
pub type Links = fn(&NamedAttempt<'_>) -> Vec<(String, String)>;

/// Columns of the guide.
#[derive(Debug)]
pub struct Columns {
    /// Where the key is from.
    pub key: &'static str,
    /// The form of the id.
    pub id: &'static str,
    /// Which jobs say themselves that they are not trusted.
    pub untrusted: &'static str,
}

/// What works for the jobs of a system.
#[derive(Debug)]
pub struct Support {
    /// How a job is measured.
    pub measured: &'static str,
    /// Whether a failure is judged.
    pub judged: &'static str,
    /// How a job gets its size.
    pub sized: &'static str,
    /// How a job is retried.
    pub retried: &'static str,
}

impl Eq for CiSystem {}

impl PartialEq for CiSystem {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The systems, in the order in which they count.
pub static SYSTEMS: [&CiSystem; 10] = [
    &GITLAB,
    &github::GITHUB,
    &buildkite::BUILDKITE,
    &circleci::CIRCLECI,
    &azure::AZURE,
    &woodpecker::WOODPECKER,
    &tekton::TEKTON,
    &jenkins::JENKINS,
    &rpm_builders::KOJI,
    &rpm_builders::COPR,
];

/// The variable by which a workflow passes on its matrix, as JSON or as any text.
pub const MATRIX: &str = "PLIMSOLL_MATRIX";

/// What a CI system says of a job. Texts are empty if they are unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CiJob {
    /// The project, as its users write it.
    pub project: String,
    /// The workflow, if jobs of several workflows of a project may have one name.
    pub stack: String,
    /// The job's name.
    pub job: String,
    /// Branch or tag.
    pub git_ref: String,
    /// Who started it.
    pub owner: String,
    /// Labels of the key, with their values: `pipeline` and `job` order the attempts of one job.
    pub labels: Vec<(&'static str, String)>,
    /// Id of the job's attempt, of any length. `NAME:PLACE:UNIT`, except for GitLab.
    pub id: Option<String>,
    /// The number of the attempt: 1 for the first.
    pub number: Option<u32>,
    /// Whether the job says that it builds what others than the project's own people wrote.
    pub is_foreign: bool,
}

/// What the agent sees of a job.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "closures have no text")]
pub struct Sources<'a> {
    /// The value of a variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The content of a file, if it is a text of a bounded size.
    pub file: &'a dyn Fn(&str) -> Option<String>,
    /// The current directory; empty if it is not known.
    pub directory: &'a str,
}

impl<'a> Sources<'a> {
    /// Variables alone.
    pub fn of_variables(variable: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { variable, file: &|_path| None, directory: "" }
    }

    /// A variable's value; `None` if it is empty or the text `None`, which Spack writes for a missing value.
    pub fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty() && value != "None")
    }

    /// A variable's value, or an empty text.
    pub fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default()
    }

    /// `ONE/OTHER`, if both variables are set.
    fn both(&self, one: &str, other: &str) -> Option<String> {
        Some(format!("{}/{}", self.get(one)?, self.get(other)?))
    }

    /// The labels whose variables are set.
    pub fn labels(&self, variables: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
        variables.iter().filter_map(|(label, variable)| Some((*label, self.get(variable)?))).collect()
    }
}

/// An attempt, by what is stored of it.
#[expect(missing_debug_implementations, reason = "closures have no text")]
pub struct NamedAttempt<'a> {
    /// Its id.
    pub id: &'a str,
    /// The project of its key.
    pub project: &'a str,
    /// A label of its key.
    pub label: &'a dyn Fn(&str) -> Option<&'a str>,
}

impl NamedAttempt<'_> {
    /// The system whose job it is, with its pages about the job.
    pub fn links(&self) -> Vec<(&'static str, String, String)> {
        let of_system = |system: &&'static CiSystem| {
            let links = system.links.map(|links| links(self)).unwrap_or_default();
            links.into_iter().map(|(name, address)| (system.title, name, address)).collect::<Vec<_>>()
        };
        SYSTEMS.iter().map(of_system).find(|links| !links.is_empty()).unwrap_or_default()
    }
}

/// The system that runs a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recognized {
    /// The system; `None` if it is none of the table.
    pub system: Option<&'static CiSystem>,
    /// What is unusual about its variables, as a sentence.
    pub note: Option<String>,
}

/// The system that runs the job with these variables.
pub fn recognize(sources: &Sources<'_>) -> Recognized {
    let found: Vec<&'static CiSystem> = SYSTEMS.into_iter().filter(|system| system.is_in(sources)).collect();
    // of equal ones, the last that is looked at counts
    let Some(system) = found.iter().rev().copied().max_by_key(|system| system.depth(sources)) else {
        return Recognized::default();
    };
    let missing: Vec<&str> =
        system.needs.iter().copied().filter(|name| sources.get(name).is_none()).collect();
    let note = if found.len() > 1 {
        let titles: Vec<&str> = found.iter().map(|system| system.title).collect();
        Some(format!(
            "variables of {} are set: the build counts as a job of {}",
            titles.join(" and "),
            system.title
        ))
    } else if missing.is_empty() {
        None
    } else {
        Some(format!(
            "{} sets no {} here: the job is known in part only, and has no id of its own",
            system.title,
            missing.join(", ")
        ))
    };
    Recognized { system: Some(system), note }
}

/// Whether an id is of the form `NAME:PLACE:UNIT`, as the systems except GitLab have it.
pub fn is_system_id(id: &str) -> bool {
    let named = |(name, rest): (&str, &str)| {
        rest.contains(':') && SYSTEMS.iter().any(|system| system.name == name && **system != GITLAB)
    };
    id.split_once(':').is_some_and(named)
}

impl CiSystem {
    /// What its variables say of a job. A job whose variables lack one of [`needs`](Self::needs) has no id. The values of a matrix
    /// ([`MATRIX`]) tell jobs apart in name, label and id, except in GitLab, whose own variables do.
    pub fn job(&self, sources: &Sources<'_>) -> CiJob {
        let mut job = (self.read)(sources);
        if self.needs.iter().any(|name| sources.get(name).is_none()) {
            job.id = None;
        }
        let Some(text) = Some(MATRIX).filter(|_| *self != GITLAB).and_then(|name| sources.get(name)) else {
            return job;
        };
        let matrix = matrix_values(&text);
        if matrix.is_empty() {
            return job;
        }
        let values = matrix.join(", ");
        job.job = format!("{}: [{values}]", job.job);
        let names = job.labels.iter_mut().filter(|(name, _)| *name == "job");
        names.for_each(|(_, name)| *name = format!("{name}: [{values}]"));
        // different values may be equal as words
        let hash = name_hash(&values) & 0xffff;
        job.id = job.id.map(|id| format!("{id}-{}-{hash:04x}", word(&matrix.join("-"))));
        job
    }

    /// A text for its log, without what its log viewer takes for a command: names of phases come from builds.
    pub fn plain(&self, text: &str) -> String {
        if self.phases.is_none_or(|tool| tool.name != github::GROUPS.name) {
            return text.to_owned();
        }
        let line = |line: &str| {
            if line.trim_start().starts_with("::") { line.replacen("::", ": :", 1) } else { line.to_owned() }
        };
        text.replace("##[", "# #[").split_inclusive('\n').map(line).collect()
    }

    /// A command for its log by which the page of the run shows this text, at the line of the source that begins it (`FILE:LINE:`);
    /// `None` if it has none. The form is that of
    /// <https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#setting-an-error-message>.
    pub fn annotation(&self, text: &str) -> Option<String> {
        let escaped = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
        let is_line = |line: &str| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
        let mut parts = text.splitn(3, ':');
        let place =
            parts.next().zip(parts.next()).filter(|(file, line)| !file.contains(' ') && is_line(line));
        // a comma ends a property
        let property = |text: &str| escaped(text).replace(',', "%2C");
        let place =
            place.map(|(file, line)| format!("file={},line={line},", property(file))).unwrap_or_default();
        (self.name == github::GITHUB.name)
            .then(|| format!("::error {place}title=Plimsoll::{}", escaped(text)))
    }

    /// Whether the variables are those of one of its jobs.
    fn is_in(&self, sources: &Sources<'_>) -> bool {
        let is_set = |(name, value): (&str, &str)| {
            sources.get(name).is_some_and(|found| value.is_empty() || found == value)
        };
        self.recognized_by.is_some_and(is_set)
    }

    /// Length of its workspace's path, if the current directory is in it; else 0.
    fn depth(&self, sources: &Sources<'_>) -> usize {
        let workspace = sources.text(self.workspace);
        let rest = sources.directory.strip_prefix(workspace.trim_end_matches('/'));
        rest.filter(|rest| rest.is_empty() || rest.starts_with('/')).map_or(0, |_rest| workspace.len())
    }
}

/// Values of a matrix that a job passed on as JSON, in the order of their names; any other text is one value.
fn matrix_values(text: &str) -> Vec<String> {
    let value = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => fields.values().map(value).collect(),
        Ok(Value::Array(values)) => values.iter().map(value).collect(),
        Ok(Value::Null) => Vec::new(),
        _plain => vec![text.to_owned()],
    }
}

/// A short name for a text: FNV-1a, 64 bits.
pub fn name_hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// An id that no GitLab job has. Its last part is never a number alone, which would be the number of a try.
fn id(name: &str, place: &str, unit: &str) -> String {
    match unit.rsplit_once('/') {
        Some((front, last)) if last.parse::<u32>().is_ok() => format!("{name}:{place}:{front}/_{last}"),
        _ => format!("{name}:{place}:{unit}"),
    }
}

/// A path or an address as a part of an id: without scheme and user.
fn place(text: &str) -> String {
    let text = text.split_once("://").map_or(text, |(_scheme, rest)| rest);
    let text = text.rsplit_once('@').map_or(text, |(_user, rest)| rest);
    in_characters(text.trim_matches('/'), "._-/")
}

/// A name as a part of an id: without the characters that separate parts.
fn word(text: &str) -> String {
    in_characters(text, "_-")
}

fn in_characters(text: &str, others: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || others.contains(c) { c } else { '_' }).collect()
}

/// The job's name with its part of a parallel job, by index from 0 and number of parts, as GitLab writes it: `test 1/4`.
fn part_name(job: String, part: Option<(String, String)>) -> String {
    let number = |text: &str| text.parse::<u32>().ok();
    let part = part.and_then(|(index, parts)| Some((number(&index)?.checked_add(1)?, number(&parts)?)));
    match part.filter(|(_, parts)| *parts > 1) {
        Some((index, parts)) => format!("{job} {index}/{parts}"),
        None => job,
    }
}

/// The name of a branch without `refs/heads/`.
fn plain_branch(text: &str) -> &str {
    text.strip_prefix("refs/heads/").unwrap_or(text)
}
