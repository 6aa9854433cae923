//! The key of a build, from the environment of a job, the command, the source in the current directory, and `--key`.
//!
//! | part of the key | first of these that is set |
//! |---|---|
//! | any | `--key name=value` |
//! | package, version, arch, owner, project, `build_system` of an RPM | `mock`, `rpmbuild` or `copr-rpmbuild` and its options (`rpm`) |
//! | version, compiler, `compiler_version` | `SPACK_JOB_SPEC_PKG_VERSION`, `_COMPILER_NAME`, `_COMPILER_VERSION` |
//! | variants, `build_system` | `SPACK_JOB_SPEC_VARIANTS`, with `build_system=...` taken out |
//! | arch | `SPACK_JOB_SPEC_ARCH`, this machine's |
//! | project, ref, owner, stack, labels | what the CI system says (`plimsoll_base::ci`); `SPACK_CI_STACK_NAME`; project in an unknown CI system: the git remote (`checkout`) |
//! | package | `SPACK_JOB_SPEC_PKG_NAME`, the job's name in the CI system, a manifest (`checkout`) with its version, the last part of the project or git remote, `(unnamed)` |
//! | `build_jobs` | of an RPM the macros of RPM or the processors (`rpm`), `SPACK_BUILD_JOBS`, `-j` of the command, `MAKEFLAGS` |
//!
//! The program's name is never the package: `python3` is the program of many builds.
//!
//! A retry of a job may have another id, but the same pipeline and name: the server uses these labels to find earlier attempts, and the commit
//! to find the same failure in another pipeline.
//!
//! The requests are the `KUBERNETES_*` variables that GitLab's runner reads, where a
//! size of 0 means none. An invalid size is skipped with a warning. This is the only module that reads the environment, apart from the
//! settings that clap declares. Values from the environment are cut to the bounds of the wire; invalid options are refused with a reason.

mod assign;
mod checkout;
mod copr_task;
mod mock_config;
mod rpm;
mod secrets;
#[cfg(test)]
mod tests;

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    thread::available_parallelism,
    time::{Duration, UNIX_EPOCH},
};

use checkout::Checkout;
use plimsoll_base::{
    ci::{self, CiSystem, GITLAB, Recognized, Sources},
    quantity,
};
use plimsoll_client::id_token::IdTokenSource;
use plimsoll_proto::{
    job::{Job, build_jobs, clean_and_cut},
    limits,
    v1::{Key, Resources},
};

pub use assign::{assign, key_names};
pub(crate) use rpm::program as rpm_program;
pub(crate) use secrets::SECRET_BYTES;
pub use secrets::Secrets;

/// Package of a build that nothing names: the name of its program, such as `python3`, would be that of many builds.
const UNNAMED: &str = "(unnamed)";

/// Whether nothing names the build of this key, so that nothing may be learnt from it.
pub(crate) fn is_unnamed(key: &Key) -> bool {
    key.package == UNNAMED && key.project.is_empty()
}

/// Most bytes of the file with the event that started a job. GitHub sends no larger events than 25 MB, and most have 20 KB.
const EVENT_BYTES: u64 = 4 << 20;

/// Variable with the token of the agent and of requests. It is not passed on to builds.
pub(crate) const TOKEN_VARIABLE: &str = "PLIMSOLL_TOKEN";

/// Variable with the audience of the ID tokens that a job of GitHub Actions asks for. Without it none is asked for: a job may have the
/// right to ID tokens for another purpose.
const AUDIENCE_VARIABLE: &str = "PLIMSOLL_TOKEN_AUDIENCE";

/// Where a job of GitHub Actions or Forgejo Actions gets ID tokens; `None` if it may not have any, or is not to ask.
pub(crate) fn id_tokens() -> Option<IdTokenSource> {
    #[expect(clippy::disallowed_methods, reason = "the module that reads the environment")]
    let get = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let audience = get(AUDIENCE_VARIABLE)?;
    let (url, bearer) = get("ACTIONS_ID_TOKEN_REQUEST_URL").zip(get("ACTIONS_ID_TOKEN_REQUEST_TOKEN"))?;
    Some(IdTokenSource::new(&url, &bearer, &audience))
}

/// The token in the environment, if there is one. An invalid one must not keep a build from running: it is reported, and ignored.
pub(crate) fn token() -> Option<String> {
    let warn = |problem| tracing::warn!("{problem}");
    read_token(env::var_os(TOKEN_VARIABLE)).map_err(warn).ok().flatten()
}

fn read_token(value: Option<OsString>) -> Result<Option<String>, String> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    value.into_string().map(Some).map_err(|_value| format!("{TOKEN_VARIABLE} is left out: it is not UTF-8"))
}

/// A CI job's environment, read once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CiJob {
    /// Id of the attempt; `None` outside of CI.
    pub attempt: Option<String>,
    /// Number of the attempt, if the CI system says it.
    pub number: Option<u32>,
    /// Whether the job says that it builds what others than the project's own people wrote.
    pub is_foreign: bool,
    /// The key of the job; the package may be unknown.
    pub key: Key,
    /// What is unusual about the job's variables, as a sentence.
    pub note: Option<String>,
    /// The directory whose source is built, if it is known.
    pub directory: Option<PathBuf>,
    /// Memory and CPU that the job requests.
    pub asked: Resources,
    /// Parallel jobs according to `MAKEFLAGS`.
    make_jobs: Option<u32>,
    /// Number of processors in the variable `RPM_BUILD_NCPUS`.
    rpm_ncpus: Option<u32>,
    /// The variable `MAKEFLAGS`; empty if it is not set.
    pub make_flags: String,
    /// Whether a CI system runs this job: a known one, or the variable `CI` is set.
    pub ci: bool,
    /// The CI system that runs this job, if it is known.
    pub recognized: Option<&'static CiSystem>,
    /// Whether the locale uses UTF-8 (the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set).
    pub utf8: bool,
    /// Values to mask in the log.
    pub secrets: Secrets,
    /// Tags of the runner, as far as the wire accepts them.
    pub runner_tags: Vec<String>,
    /// When the CI system ends the job, milliseconds since 1970, if it says so.
    pub ends_unix_ms: Option<u64>,
    /// Directory for state files: `XDG_STATE_HOME`, or `.local/state` in the home directory.
    pub state_dir: Option<String>,
}

/// Parses the runner's tags. GitLab writes them as a JSON array; older versions separate them by commas.
fn runner_tags(text: &str) -> Vec<String> {
    let plain = || text.split(',').map(|tag| tag.trim().to_owned()).collect();
    let tags: Vec<String> = serde_json::from_str(text).unwrap_or_else(|_no_array| plain());
    let fits = |tag: &String| !tag.is_empty() && *tag == clean_and_cut(tag, limits::KEY_FIELD_BYTES);
    tags.into_iter().filter(fits).take(limits::RUNNER_TAGS).collect()
}

/// The end of a GitLab job: `CI_JOB_STARTED_AT` (RFC 3339), and the seconds in `CI_JOB_TIMEOUT` later.
fn job_end(started: Option<String>, timeout: Option<String>) -> Option<u64> {
    let started = humantime::parse_rfc3339_weak(&started?).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let end = started.checked_add(Duration::from_secs(timeout?.parse().ok()?))?;
    u64::try_from(end.as_millis()).ok()
}

impl CiJob {
    /// Reads the process environment.
    pub fn from_process() -> Self {
        let directory = env::current_dir().ok();
        let at = directory.as_deref().and_then(Path::to_str).unwrap_or_default();
        #[expect(clippy::disallowed_methods, reason = "the module that reads the environment")]
        let variable = |name: &str| env::var(name).ok();
        let file = |path: &str| mock_config::read_start(path, EVENT_BYTES);
        let job = Self::read_from(&Sources { variable: &variable, file: &file, directory: at });
        Self { secrets: Secrets::of(env::vars_os()), directory, ..job }
    }

    /// Reads an environment. Empty values count as unset, and so does `None`, which Spack writes.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Self {
        Self::read_from(&Sources::of_variables(&lookup))
    }

    fn read_from(sources: &Sources<'_>) -> Self {
        let get = |name: &str| sources.get(name);
        let Recognized { system: recognized, note } = ci::recognize(sources);
        let Job { mut key, attempt, number, is_foreign } = Job::of(recognized.unwrap_or(&GITLAB), sources);
        if let Some(jobs) = get("SPACK_BUILD_JOBS").filter(|_| key.hints.is_none()) {
            let error = format!("{jobs:?} is no number of build jobs from 1 to {}", limits::BUILD_JOBS);
            tracing::warn!(name = "SPACK_BUILD_JOBS", error, "ignored a variable");
        }
        if key.arch.is_empty() {
            env::consts::ARCH.clone_into(&mut key.arch);
        }
        Self {
            attempt,
            number,
            is_foreign,
            key,
            note,
            directory: None,
            asked: asked(&get),
            ci: get("CI").is_some() || recognized.is_some(),
            recognized,
            utf8: ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(&get).is_some_and(|locale| {
                let locale = locale.to_ascii_uppercase();
                locale.contains("UTF-8") || locale.contains("UTF8")
            }),
            make_jobs: get("MAKEFLAGS").and_then(|flags| jobs_flag(flags.split_whitespace())),
            rpm_ncpus: get("RPM_BUILD_NCPUS").and_then(|ncpus| build_jobs(&ncpus)),
            make_flags: get("MAKEFLAGS").unwrap_or_default(),
            secrets: Secrets::default(),
            runner_tags: get("CI_RUNNER_TAGS").map(|tags| runner_tags(&tags)).unwrap_or_default(),
            ends_unix_ms: job_end(get("CI_JOB_STARTED_AT"), get("CI_JOB_TIMEOUT")),
            state_dir: get("XDG_STATE_HOME").or_else(|| Some(format!("{}/.local/state", get("HOME")?))),
        }
    }

    /// The CI system whose variables are read: GitLab, if none is recognized.
    pub(crate) fn system(&self) -> &'static CiSystem {
        self.recognized.unwrap_or(&GITLAB)
    }

    /// The same job with the source in another directory.
    pub(crate) fn in_directory(&self, directory: Option<PathBuf>) -> Self {
        Self { directory, ..self.clone() }
    }

    /// A sentence about a job that says that it is not trusted; `None` for any other job.
    pub(crate) fn foreign_note(&self) -> Option<String> {
        let note =
            "it builds a change from a fork, or a pull request of unknown origin: it counts as untrusted";
        self.is_foreign.then(|| note.to_owned())
    }

    /// The key of a command, which may be empty, with the assignments of `--key` applied.
    /// Errors: an assignment is invalid, or the package is unknown.
    pub fn key_for(&self, command: &[OsString], assignments: &[String]) -> Result<Key, String> {
        self.named_key(command, assignments).map(|(key, _notes)| key)
    }

    /// The key of a command, as [`Self::key_for`] has it, and sentences about what is unusual in it.
    /// Errors: an assignment is invalid, or the package is unknown.
    pub(crate) fn named_key(
        &self,
        command: &[OsString],
        assignments: &[String],
    ) -> Result<(Key, Vec<String>), String> {
        let mut key = self.key.clone();
        rpm::describe(&mut key, command, self.rpm_ncpus);
        let name = |assignment: &String| assignment.split('=').next().map(str::to_owned);
        for (at, assignment) in assignments.iter().enumerate() {
            if assignments.iter().take(at).any(|earlier| name(earlier) == name(assignment)) {
                return Err(format!(
                    "--key {} is given twice; give it once",
                    name(assignment).unwrap_or_default()
                ));
            }
            assign(&mut key, assignment)?;
        }
        let is_given =
            |field: &str| assignments.iter().any(|assignment| name(assignment).as_deref() == Some(field));
        let mut notes: Vec<String> = self.note.clone().into_iter().collect();
        self.name_by_checkout(&mut key, command, &is_given, &mut notes);
        if key.package.is_empty() {
            return Err("the package is not known: say --key package=NAME".to_owned());
        }
        let words = command.iter().skip(1).filter_map(|word| word.to_str());
        if let Some(jobs) = jobs_flag(words).or(self.make_jobs) {
            key.hints.get_or_insert_default().build_jobs.get_or_insert(jobs);
        }
        Ok((key, notes))
    }

    /// Fills in project and package from the source in the current directory, if neither a CI system nor a person names them. A question
    /// without a command gets no package.
    fn name_by_checkout(
        &self,
        key: &mut Key,
        command: &[OsString],
        is_given: &dyn Fn(&str) -> bool,
        notes: &mut Vec<String>,
    ) {
        let needs_project = self.ci && key.project.is_empty() && !is_given("project");
        let needs_package = key.package.is_empty() && !command.is_empty();
        if !needs_project && !needs_package {
            return;
        }
        let Checkout { project, package, version, manifest } =
            self.directory.as_deref().map(Checkout::read).unwrap_or_default();
        let field = |text: &str| clean_and_cut(text, limits::KEY_FIELD_BYTES);
        if needs_project && !project.is_empty() {
            key.project = field(&project);
            notes.push(format!(
                "the project is {}, by the git remote: the CI system does not say it",
                key.project
            ));
        }
        if !needs_package {
            return;
        }
        let repository = if key.project.is_empty() { &project } else { &key.project };
        let last = repository.rsplit('/').next().unwrap_or_default();
        let is_manifest = !package.is_empty();
        let named = [package.as_str(), last].into_iter().map(field).find(|name| !name.is_empty());
        key.package = named.unwrap_or_else(|| UNNAMED.to_owned());
        if is_manifest && key.version.is_empty() && !is_given("version") {
            key.version = field(&version);
        }
        if self.ci && !is_unnamed(key) {
            let by = if is_manifest { manifest } else { "the project" };
            notes.push(format!("the package is {}, by {by}: nothing says the name of the job", key.package));
        }
    }
}

fn asked(get: &impl Fn(&str) -> Option<String>) -> Resources {
    fn read<T: Default + PartialOrd>(
        name: &str,
        value: Option<String>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let read = parse(&value?);
        let size = read.inspect_err(|error| tracing::warn!(name, error, "ignored a variable")).ok()?;
        Some(size).filter(|size| *size > T::default())
    }
    let memory = |name| read(name, get(name), quantity::memory_or_zero);
    let cpu = |name| read(name, get(name), quantity::parse_cores);
    Resources {
        memory_request_bytes: memory("KUBERNETES_MEMORY_REQUEST"),
        memory_limit_bytes: memory("KUBERNETES_MEMORY_LIMIT"),
        cpu_request_cores: cpu("KUBERNETES_CPU_REQUEST"),
        cpu_limit_cores: cpu("KUBERNETES_CPU_LIMIT"),
    }
}

/// Number of processors that this process may use: those that it is bound to, reduced by the CPU limit of its control groups.
pub(crate) fn processors() -> Option<u32> {
    available_parallelism().ok().and_then(|processors| u32::try_from(processors.get()).ok())
}

/// The last of `-jN`, `-j N`, `--jobs N`, `--jobs=N`, `--parallel N` and `--parallel=N`.
pub(crate) fn jobs_flag<'a>(words: impl Iterator<Item = &'a str>) -> Option<u32> {
    let mut words = words.peekable();
    let mut found = None;
    while let Some(word) = words.next() {
        let jobs = match word {
            "-j" | "--jobs" | "--parallel" => words.peek().and_then(|next| build_jobs(next)),
            _ => ["--jobs=", "--parallel=", "-j"]
                .into_iter()
                .find_map(|flag| word.strip_prefix(flag))
                .and_then(build_jobs),
        };
        found = jobs.or(found);
    }
    found
}
