//! The CI systems that Plimsoll knows: one file and one row for each. A further system is a further file, its line in [`SYSTEMS`], its
//! recorded environments and logs in `tests`, and its guide. All else reads the rows.
//!
//! A row only says what variables mean: texts are as the system wrote them, and those who read a row clean and cut them. It has what the
//! system's documentation says, at the address beside the row, and nothing else.

mod gitlab;
mod log;

pub use gitlab::{GITLAB, gitlab_job};
pub use log::{LogLine, LogMark, PhaseTool};

/// A CI system.
#[derive(Debug)]
pub struct CiSystem {
    /// Its word in ids, `--phases` and the JSON of reports.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// A variable that its jobs alone have, and its value; `None`: any value.
    pub recognized_by: (&'static str, Option<&'static str>),
    /// What its variables say of a job.
    pub read: fn(&Sources<'_>) -> CiJob,
    /// The markers of phases in the output of its jobs.
    pub phases: Option<&'static PhaseTool>,
    /// Marks before and after a text that its log viewer folds, given time (seconds since 1970), a name that is unique in the log, and the
    /// heading. The second mark begins a line.
    pub fold: Option<fn(u64, &str, &str) -> (String, String)>,
    /// Names and addresses of its pages about an attempt. The addresses are not escaped.
    pub links: Option<fn(&NamedAttempt<'_>) -> Vec<(String, String)>>,
}

impl Eq for CiSystem {}

impl PartialEq for CiSystem {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The systems, in the order in which they are looked for.
pub static SYSTEMS: [&CiSystem; 1] = [&GITLAB];

/// What a CI system says of a job. Texts are empty if they are unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CiJob {
    /// The project, as its users write it.
    pub project: String,
    /// The job's name.
    pub job: String,
    /// Branch or tag.
    pub git_ref: String,
    /// Who started it.
    pub owner: String,
    /// Labels of the key, with their values: `pipeline` and `job` order the attempts of one job.
    pub labels: Vec<(&'static str, String)>,
    /// Id of the job's attempt, with any characters and of any length.
    pub id: Option<String>,
}

/// The variables of a job.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "closures have no text")]
pub struct Sources<'a> {
    /// The value of a variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Sources<'_> {
    /// A variable's value; `None` if it is empty or the text `None`, which Spack writes for a missing value.
    pub fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty() && value != "None")
    }

    /// A variable's value, or an empty text.
    pub fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default()
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

/// The system that runs the job with these variables.
pub fn recognize(sources: &Sources<'_>) -> Option<&'static CiSystem> {
    SYSTEMS.into_iter().find(|system| system.is_in(sources))
}

impl CiSystem {
    /// Whether the variables are those of one of its jobs.
    fn is_in(&self, sources: &Sources<'_>) -> bool {
        let (name, value) = self.recognized_by;
        sources.get(name).is_some_and(|found| value.is_none_or(|value| found == value))
    }
}
