//! The key of a build, from the environment of a GitLab or Spack job, the command, and `--key`.
//!
//! | part of the key | first of these that is set |
//! |---|---|
//! | any | `--key name=value` |
//! | package | `SPACK_JOB_SPEC_PKG_NAME`, `CI_JOB_NAME`, file name of the command (in CI only if the project is known, else `(unnamed)`) |
//! | version, compiler, `compiler_version` | `SPACK_JOB_SPEC_PKG_VERSION`, `_COMPILER_NAME`, `_COMPILER_VERSION` |
//! | variants, `build_system` | `SPACK_JOB_SPEC_VARIANTS`, with `build_system=...` taken out |
//! | arch | `SPACK_JOB_SPEC_ARCH`, this machine's |
//! | stack, project, ref, owner | `SPACK_CI_STACK_NAME`, `CI_PROJECT_PATH`, `CI_COMMIT_REF_NAME`, `GITLAB_USER_LOGIN` |
//! | labels `stage`, `pipeline`, `job`, `commit` | `CI_JOB_STAGE`, `CI_PIPELINE_ID`, `CI_JOB_NAME`, `CI_COMMIT_SHA` |
//! | package, version, arch, owner, project, `build_system` of an RPM | `mock`, `rpmbuild` or `copr-rpmbuild` and its options (`rpm`), before the others |
//! | `build_jobs` | of an RPM the macros of RPM or the processors (`rpm`), `SPACK_BUILD_JOBS`, `-j` of the command, `MAKEFLAGS` |
//!
//! A retry of a job has another id, but the same pipeline and name: the server uses these labels to find earlier attempts, and the commit
//! to find the same failure in another pipeline. No attempt number is read, because GitLab does not offer one to the job itself.
//!
//! The attempt's id is `CI_SERVER_HOST:CI_JOB_ID`, and its requests are the `KUBERNETES_*` variables that GitLab's runner reads, where a
//! size of 0 means none. An invalid size is skipped with a warning. This is the only module that reads the environment, apart from the
//! settings that clap declares. Values from the environment are cut to the bounds of the wire; invalid options are refused with a reason.

mod assign;
mod copr_task;
mod mock_config;
mod rpm;
mod secrets;
#[cfg(test)]
mod tests;

use std::{env, ffi::OsString, path::Path, thread::available_parallelism};

use plimsoll_base::{
    ci::{self, CiSystem, GITLAB, Sources},
    quantity,
};
use plimsoll_proto::{
    job::{self, build_jobs, clean_and_cut},
    limits,
    v1::{Key, Resources},
};

pub use assign::{assign, key_names};
pub(crate) use rpm::program as rpm_program;
pub(crate) use secrets::SECRET_BYTES;
pub use secrets::Secrets;

/// Package of a build in CI that nothing names: the name of its program, such as `python3`, would be that of many builds.
const UNNAMED: &str = "(unnamed)";

/// Whether nothing names the build of this key, so that nothing may be learnt from it.
pub(crate) fn is_unnamed(key: &Key) -> bool {
    key.package == UNNAMED && key.project.is_empty()
}

/// Variable with the token of the agent and of requests. It is not passed on to builds.
pub(crate) const TOKEN_VARIABLE: &str = "PLIMSOLL_TOKEN";

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
    /// The key of the job; the package may be unknown.
    pub key: Key,
    /// Memory and CPU that the job requests.
    pub asked: Resources,
    /// Parallel jobs according to `MAKEFLAGS`.
    make_jobs: Option<u32>,
    /// Number of processors in the variable `RPM_BUILD_NCPUS`.
    rpm_ncpus: Option<u32>,
    /// The variable `MAKEFLAGS`; empty if it is not set.
    pub make_flags: String,
    /// Whether a CI system runs this job (the variable `CI` is set).
    pub ci: bool,
    /// The CI system that runs this job, if it is known.
    pub recognized: Option<&'static CiSystem>,
    /// Whether the locale uses UTF-8 (the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set).
    pub utf8: bool,
    /// Values to mask in the log.
    pub secrets: Secrets,
    /// Tags of the runner, as far as the wire accepts them.
    pub runner_tags: Vec<String>,
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

impl CiJob {
    /// Reads the process environment.
    pub fn from_process() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the module that reads the environment")]
        let job = Self::read(|name| env::var(name).ok());
        Self { secrets: Secrets::of(env::vars_os()), ..job }
    }

    /// Reads an environment. Empty values count as unset, and so does `None`, which Spack writes.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let sources = Sources { variable: &lookup };
        let get = |name: &str| sources.get(name);
        let recognized = ci::recognize(&sources);
        let (mut key, attempt) = job::of(recognized.unwrap_or(&GITLAB), &sources);
        if let Some(jobs) = get("SPACK_BUILD_JOBS").filter(|_| key.hints.is_none()) {
            let error = format!("{jobs:?} is no number of build jobs from 1 to {}", limits::BUILD_JOBS);
            tracing::warn!(name = "SPACK_BUILD_JOBS", error, "ignored a variable");
        }
        if key.arch.is_empty() {
            env::consts::ARCH.clone_into(&mut key.arch);
        }
        Self {
            attempt,
            key,
            asked: asked(&get),
            ci: get("CI").is_some(),
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
            state_dir: get("XDG_STATE_HOME").or_else(|| Some(format!("{}/.local/state", get("HOME")?))),
        }
    }

    /// The CI system whose variables are read: GitLab, if none is recognized.
    pub(crate) fn system(&self) -> &'static CiSystem {
        self.recognized.unwrap_or(&GITLAB)
    }

    /// The key of a command, which may be empty, with the assignments of `--key` applied.
    /// Errors: an assignment is invalid, or the package is unknown.
    pub fn key_for(&self, command: &[OsString], assignments: &[String]) -> Result<Key, String> {
        let mut key = self.key.clone();
        rpm::describe(&mut key, command, self.rpm_ncpus);
        for (at, assignment) in assignments.iter().enumerate() {
            let name = |assignment: &String| assignment.split('=').next().map(str::to_owned);
            if assignments.iter().take(at).any(|earlier| name(earlier) == name(assignment)) {
                return Err(format!(
                    "--key {} is given twice; give it once",
                    name(assignment).unwrap_or_default()
                ));
            }
            assign(&mut key, assignment)?;
        }
        if key.package.is_empty()
            && let Some(name) =
                rpm::behind_unbuffer(command).first().and_then(|program| Path::new(program).file_name())
        {
            let is_known = !self.ci || self.recognized.is_some() || !key.project.is_empty();
            let name = if is_known { &*name.to_string_lossy() } else { UNNAMED };
            key.package = clean_and_cut(name, limits::KEY_FIELD_BYTES);
        }
        if key.package.is_empty() {
            return Err("the package is not known: say --key package=NAME".to_owned());
        }
        let words = command.iter().skip(1).filter_map(|word| word.to_str());
        if let Some(jobs) = jobs_flag(words).or(self.make_jobs) {
            key.hints.get_or_insert_default().build_jobs.get_or_insert(jobs);
        }
        Ok(key)
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
