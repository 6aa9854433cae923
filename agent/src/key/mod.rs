//! What is built, as far as the surroundings say so: the environment of a GitLab or Spack job, the command, and `--key`.
//!
//! | part of the key | first of these that is set |
//! |---|---|
//! | any | `--key name=value` |
//! | package | `SPACK_JOB_SPEC_PKG_NAME`, `CI_JOB_NAME`, file name of the command |
//! | version, compiler, `compiler_version` | `SPACK_JOB_SPEC_PKG_VERSION`, `_COMPILER_NAME`, `_COMPILER_VERSION` |
//! | variants, `build_system` | `SPACK_JOB_SPEC_VARIANTS`, with `build_system=...` taken out |
//! | arch | `SPACK_JOB_SPEC_ARCH`, this machine's |
//! | stack, project, ref, owner | `SPACK_CI_STACK_NAME`, `CI_PROJECT_PATH`, `CI_COMMIT_REF_NAME`, `GITLAB_USER_LOGIN` |
//! | labels `stage`, `pipeline`, `job`, `commit` | `CI_JOB_STAGE`, `CI_PIPELINE_ID`, `CI_JOB_NAME`, `CI_COMMIT_SHA` |
//! | `build_jobs` | `SPACK_BUILD_JOBS`, `-j` of the command, `MAKEFLAGS` |
//!
//! A retry of a job has another id, but the same pipeline and name: by these labels the server finds the attempts before it, and by the
//! commit the same failure of another pipeline. No number of the attempt is read: GitLab has none for the job itself.
//!
//! The attempt's id is `CI_SERVER_HOST:CI_JOB_ID`, and what it asked for are the `KUBERNETES_*` that GitLab's runner reads.
//! This is the one module that reads the environment, apart from the settings that clap declares. What it finds there is made
//! to fit the bounds of the wire; what a person typed is refused with a reason instead.

mod assign;
mod secrets;

use std::{env, ffi::OsString, path::Path};

use plimsoll_proto::{
    job::{self, build_jobs, fitting},
    limits, quantity,
    v1::{Key, Resources},
};

pub use assign::{NAMES, assign};
pub(crate) use secrets::SECRET_BYTES;
pub use secrets::Secrets;

/// The variable with the token that says who delivers and who asks. A build does not get it.
pub(crate) const TOKEN: &str = "PLIMSOLL_TOKEN";

/// The token in the environment, if there is one. A mistake in it must not keep a build from running: it is told, and the token
/// counts as not set.
pub(crate) fn token() -> Option<String> {
    let told = |problem| tracing::warn!("{problem}");
    read_token(env::var_os(TOKEN)).map_err(told).ok().flatten()
}

fn read_token(value: Option<OsString>) -> Result<Option<String>, String> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    value.into_string().map(Some).map_err(|_value| format!("{TOKEN} is left out: it is not UTF-8"))
}

/// What the surroundings say about a job, read once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Job {
    /// Id of the attempt; `None` outside of CI.
    pub attempt: Option<String>,
    /// What is built; the package may be unknown.
    pub key: Key,
    /// What was asked for.
    pub asked: Resources,
    /// Parallel jobs according to `MAKEFLAGS`.
    make_jobs: Option<u32>,
    /// `MAKEFLAGS`; empty if it is not set.
    pub make_flags: String,
    /// A CI system runs this job (`CI`), and it is GitLab (`GITLAB_CI`).
    pub ci: bool,
    /// See [`Self::ci`].
    pub gitlab: bool,
    /// The locale says that text is UTF-8 (the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set).
    pub utf8: bool,
    /// What must not leave the job with its log.
    pub secrets: Secrets,
    /// What the runner is known by; those that the wire takes.
    pub runner_tags: Vec<String>,
    /// `XDG_STATE_HOME`, or `.local/state` of the home.
    pub state_dir: Option<String>,
}

/// GitLab writes tags as a JSON array, and wrote them with commas between before.
fn runner_tags(text: &str) -> Vec<String> {
    let plain = || text.split(',').map(|tag| tag.trim().to_owned()).collect();
    let tags: Vec<String> = serde_json::from_str(text).unwrap_or_else(|_no_array| plain());
    let fits = |tag: &String| !tag.is_empty() && *tag == fitting(tag, limits::KEY_FIELD_BYTES);
    tags.into_iter().filter(fits).take(limits::RUNNER_TAGS).collect()
}

impl Job {
    /// Reads the process environment.
    pub fn from_process() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the module that reads the environment")]
        let job = Self::read(|name| env::var(name).ok());
        Self { secrets: Secrets::of(env::vars_os()), ..job }
    }

    /// Reads an environment. Empty counts as not set, and so does the `None` that Spack writes.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| job::said(lookup(name));
        let mut key = job::key(&lookup);
        if key.arch.is_empty() {
            env::consts::ARCH.clone_into(&mut key.arch);
        }
        Self {
            attempt: job::attempt(&lookup),
            key,
            asked: asked(&get),
            ci: get("CI").is_some(),
            gitlab: get("GITLAB_CI").is_some(),
            utf8: ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(&get).is_some_and(|locale| {
                let locale = locale.to_ascii_uppercase();
                locale.contains("UTF-8") || locale.contains("UTF8")
            }),
            make_jobs: get("MAKEFLAGS").and_then(|flags| jobs_flag(flags.split_whitespace())),
            make_flags: get("MAKEFLAGS").unwrap_or_default(),
            secrets: Secrets::default(),
            runner_tags: get("CI_RUNNER_TAGS").map(|tags| runner_tags(&tags)).unwrap_or_default(),
            state_dir: get("XDG_STATE_HOME").or_else(|| Some(format!("{}/.local/state", get("HOME")?))),
        }
    }

    /// The key for a command, which may be empty if there is none, with the assignments of `--key` on top.
    ///
    /// # Errors
    /// An assignment is wrong, or nothing says what the package is.
    pub fn key_for(&self, command: &[OsString], assignments: &[String]) -> Result<Key, String> {
        let mut key = self.key.clone();
        for assignment in assignments {
            assign(&mut key, assignment)?;
        }
        if key.package.is_empty()
            && let Some(name) = command.first().and_then(|program| Path::new(program).file_name())
        {
            key.package = fitting(&name.to_string_lossy(), limits::KEY_FIELD_BYTES);
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
    fn read<T>(name: &str, value: Option<String>, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let read = parse(&value?);
        read.inspect_err(|error| tracing::warn!(name, error, "ignored a variable")).ok()
    }
    let memory = |name| read(name, get(name), quantity::bytes);
    let cpu = |name| read(name, get(name), quantity::cores);
    Resources {
        memory_request_bytes: memory("KUBERNETES_MEMORY_REQUEST"),
        memory_limit_bytes: memory("KUBERNETES_MEMORY_LIMIT"),
        cpu_request_cores: cpu("KUBERNETES_CPU_REQUEST"),
        cpu_limit_cores: cpu("KUBERNETES_CPU_LIMIT"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The variables of a job that an unmodified Spack 1.1.0 generates, and those that GitLab adds.
    const SPACK_JOB: &[(&str, &str)] = &[
        ("SPACK_JOB_SPEC_PKG_NAME", "curl"),
        ("SPACK_JOB_SPEC_PKG_VERSION", "8.15.0"),
        ("SPACK_JOB_SPEC_COMPILER_NAME", "gcc"),
        ("SPACK_JOB_SPEC_COMPILER_VERSION", "12.2.0"),
        ("SPACK_JOB_SPEC_ARCH", "linux-debian12-x86_64_v3"),
        (
            "SPACK_JOB_SPEC_VARIANTS",
            "~gssapi+nghttp2 build_system=autotools libs:=shared,static tls:=openssl",
        ),
        ("SPACK_CI_STACK_NAME", "e4s"),
        ("SPACK_BUILD_JOBS", "4"),
        ("CI_PROJECT_PATH", "spack/spack-packages"),
        ("CI_COMMIT_REF_NAME", "develop"),
        ("CI_JOB_NAME", "curl@8.15.0 /abcdefg"),
        ("CI_JOB_STAGE", "stage-3"),
        ("CI_PIPELINE_ID", "777"),
        ("CI_COMMIT_SHA", "c0ffee"),
        ("CI_JOB_ID", "12345"),
        ("CI_SERVER_HOST", "gitlab.spack.io"),
        ("GITLAB_USER_LOGIN", "bot"),
        ("KUBERNETES_MEMORY_REQUEST", "16G"),
        ("KUBERNETES_MEMORY_LIMIT", "96Gi"),
        ("KUBERNETES_CPU_REQUEST", "4000m"),
        ("HOME", "/root"),
    ];

    fn job(variables: &[(&str, &str)]) -> Job {
        let find = |name: &str| variables.iter().rfind(|(known, _)| *known == name);
        Job::read(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    fn command(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_token_that_is_no_text_counts_as_not_set_and_is_told_but_not_shown() {
        use std::os::unix::ffi::OsStringExt as _;
        assert_eq!(read_token(Some("secret".into())), Ok(Some("secret".to_owned())));
        assert_eq!((read_token(Some(OsString::new())), read_token(None)), (Ok(None), Ok(None)));
        let wrong = OsString::from_vec(b"secret\xff".to_vec());
        assert_eq!(read_token(Some(wrong)), Err("PLIMSOLL_TOKEN is left out: it is not UTF-8".to_owned()));
    }

    #[test]
    fn tags_of_the_runner_are_read_in_both_forms_and_bounded() {
        assert_eq!(runner_tags(r#"["docker", "big"]"#), ["docker", "big"]);
        assert_eq!(runner_tags("docker, big,"), ["docker", "big"]);
        let many = vec!["x"; 100].join(",") + "," + &"y".repeat(300);
        assert_eq!(runner_tags(&many).len(), limits::RUNNER_TAGS);
        assert_eq!(runner_tags(&"y".repeat(300)), Vec::<String>::new());
    }

    #[test]
    fn a_stock_spack_job_says_all_about_itself() {
        let job = job(SPACK_JOB);
        let key = job.key_for(&command(&["spack", "-d", "ci", "rebuild", "-j", "9"]), &[]).unwrap();
        let texts = [&key.package, &key.version, &key.compiler, &key.compiler_version, &key.arch, &key.stack];
        assert_eq!(texts, ["curl", "8.15.0", "gcc", "12.2.0", "linux-debian12-x86_64_v3", "e4s"]);
        assert_eq!((key.build_system.as_str(), key.hints.unwrap().build_jobs), ("autotools", Some(4)));
        assert_eq!(key.variants, "~gssapi+nghttp2 libs=shared,static tls=openssl");
        let texts = [&key.project, &key.r#ref, &key.owner, &key.labels["stage"]];
        assert_eq!(texts, ["spack/spack-packages", "develop", "bot", "stage-3"]);
        // the server finds a job's earlier attempts by these
        let lineage = ["pipeline", "job", "commit"].map(|label| key.labels[label].as_str());
        assert_eq!(lineage, ["777", "curl@8.15.0 /abcdefg", "c0ffee"]);
        assert_eq!(job.attempt.as_deref(), Some("gitlab.spack.io:12345"));
        let asked = job.asked;
        assert_eq!(
            (asked.memory_request_bytes, asked.memory_limit_bytes),
            (Some(16_000_000_000), Some(96 << 30))
        );
        assert_eq!((asked.cpu_request_cores, asked.cpu_limit_cores), (Some(4.0), None));
        assert_eq!(job.state_dir.as_deref(), Some("/root/.local/state"));
    }

    #[test]
    fn both_spack_spellings_of_one_build_are_one_key() {
        let older = [
            SPACK_JOB,
            &[(
                "SPACK_JOB_SPEC_VARIANTS",
                "~gssapi+nghttp2 build_system=autotools libs=shared,static tls=openssl",
            )],
        ];
        assert_eq!(job(&older.concat()), job(SPACK_JOB));
    }

    #[test]
    fn none_of_spack_means_not_known() {
        let variables = [
            ("SPACK_CI_STACK_NAME", "None"),
            ("SPACK_JOB_SPEC_COMPILER_NAME", "none"),
            ("SPACK_JOB_SPEC_COMPILER_VERSION", "none"),
        ];
        let key = job(&variables).key;
        assert_eq!([key.stack, key.compiler, key.compiler_version], ["", "", ""]);
    }

    #[test]
    fn a_plain_gitlab_job_is_named_by_its_job() {
        let job = job(&[("CI_JOB_NAME", "build: [amd64]"), ("CI_JOB_ID", "7"), ("MAKEFLAGS", "w -j6")]);
        let key = job.key_for(&command(&["make"]), &[]).unwrap();
        assert_eq!((key.package.as_str(), key.hints.unwrap().build_jobs), ("build: [amd64]", Some(6)));
        assert_eq!((job.attempt.as_deref(), key.arch.as_str()), (Some("7"), env::consts::ARCH));
    }

    #[test]
    fn without_anything_the_command_names_the_package() {
        let key = job(&[]).key_for(&command(&["/usr/bin/make", "-j3", "all"]), &[]).unwrap();
        assert_eq!((key.package.as_str(), key.hints.unwrap().build_jobs), ("make", Some(3)));
        assert!(job(&[]).key_for(&[], &[]).unwrap_err().contains("--key package=NAME"));
    }

    #[test]
    fn jobs_are_read_in_every_spelling() {
        for words in [
            vec!["-j8"],
            vec!["-j", "8"],
            vec!["--jobs", "8"],
            vec!["--jobs=8"],
            vec!["-j1", "--parallel", "8"],
        ] {
            assert_eq!(jobs_flag(words.iter().copied()), Some(8), "{words:?}");
        }
        for words in [vec!["-j"], vec!["-j", "all"], vec!["-j0"], vec!["-j9999"], vec!["-java"]] {
            assert_eq!(jobs_flag(words.iter().copied()), None, "{words:?}");
        }
    }

    #[test]
    fn what_a_person_says_wins() {
        let assignments = ["package=mine", "build_jobs=2", "stack="].map(str::to_owned);
        let key = job(SPACK_JOB).key_for(&command(&["make", "-j9"]), &assignments).unwrap();
        assert_eq!((key.package.as_str(), key.stack.as_str()), ("mine", ""));
        assert_eq!(key.hints.unwrap().build_jobs, Some(2));
    }

    #[test]
    fn an_unfit_environment_is_made_to_fit() {
        let long = "ä".repeat(3000);
        let job = job(&[
            ("CI_JOB_NAME", &long),
            ("SPACK_JOB_SPEC_VARIANTS", &long),
            ("CI_PROJECT_PATH", "a\u{7}b"),
            ("CI_JOB_ID", "1 2"),
            ("SPACK_BUILD_JOBS", "many"),
            ("KUBERNETES_MEMORY_LIMIT", "lots"),
        ]);
        assert_eq!((job.key.package.len(), job.key.variants.len()), (256, 2048));
        assert_eq!((job.key.project.as_str(), job.attempt.as_deref()), ("ab", Some("1_2")));
        assert_eq!((job.key.hints, job.asked.memory_limit_bytes), (None, None));
    }
}
