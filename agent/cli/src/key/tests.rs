//! Keys of jobs, of commands and of people.

use super::*;

/// The variables of a job that an unmodified Spack 1.1.0 generates, and those that GitLab adds.
const SPACK_JOB: &[(&str, &str)] = &[
    ("SPACK_JOB_SPEC_PKG_NAME", "curl"),
    ("SPACK_JOB_SPEC_PKG_VERSION", "8.15.0"),
    ("SPACK_JOB_SPEC_COMPILER_NAME", "gcc"),
    ("SPACK_JOB_SPEC_COMPILER_VERSION", "12.2.0"),
    ("SPACK_JOB_SPEC_ARCH", "linux-debian12-x86_64_v3"),
    ("SPACK_JOB_SPEC_VARIANTS", "~gssapi+nghttp2 build_system=autotools libs:=shared,static tls:=openssl"),
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

fn job(variables: &[(&str, &str)]) -> CiJob {
    let find = |name: &str| variables.iter().rfind(|(known, _)| *known == name);
    CiJob::read(|name| find(name).map(|(_, value)| (*value).to_owned()))
}

fn command(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

#[test]
fn a_non_utf8_token_is_ignored_and_hidden() {
    use std::os::unix::ffi::OsStringExt as _;
    assert_eq!(read_token(Some("secret".into())), Ok(Some("secret".to_owned())));
    assert_eq!((read_token(Some(OsString::new())), read_token(None)), (Ok(None), Ok(None)));
    let wrong = OsString::from_vec(b"secret\xff".to_vec());
    assert_eq!(read_token(Some(wrong)), Err("PLIMSOLL_TOKEN is left out: it is not UTF-8".to_owned()));
}

#[test]
fn runner_tags_are_parsed_and_bounded() {
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
    assert_eq!(asked.memory_request_bytes, Some(16_000_000_000));
    assert_eq!(asked.memory_limit_bytes, Some(96 << 30));
    assert_eq!((asked.cpu_request_cores, asked.cpu_limit_cores), (Some(4.0), None));
    assert_eq!(job.state_dir.as_deref(), Some("/root/.local/state"));
}

#[test]
fn both_spack_spellings_yield_one_key() {
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
fn a_gitlab_job_names_its_package() {
    let job = job(&[("CI_JOB_NAME", "build: [amd64]"), ("CI_JOB_ID", "7"), ("MAKEFLAGS", "w -j6")]);
    let key = job.key_for(&command(&["make"]), &[]).unwrap();
    assert_eq!((key.package.as_str(), key.hints.unwrap().build_jobs), ("build: [amd64]", Some(6)));
    assert_eq!((job.attempt.as_deref(), key.arch.as_str()), (Some("7"), env::consts::ARCH));
}

#[test]
fn a_question_without_a_package_is_refused() {
    assert!(job(&[]).key_for(&[], &[]).unwrap_err().contains("--key package=NAME"));
    let twice = ["package=a", "label.x=1", "label.y=1", "package=b"].map(str::to_owned);
    assert_eq!(job(&[]).key_for(&[], &twice).unwrap_err(), "--key package is given twice; give it once");
    assert_eq!(job(&[]).key_for(&[], &twice[1..]).unwrap().package, "b");
}

/// A checkout with these files, named `checkout`.
fn checkout(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let (dir, at) = plimsoll_support::temporary::file_name("checkout");
    std::fs::create_dir(&at).unwrap();
    for (name, text) in files {
        let file = at.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    (dir, at)
}

const REMOTE: (&str, &str) = (
    ".git/config",
    "[core]\n\tbare = false\n[remote \"fork\"]\n\turl = git@x:me/app.git\n[remote \"origin\"]\n\turl = https://bot:s3cret@git.example/acme/app.git\n",
);
const CARGO: (&str, &str) = ("Cargo.toml", "[package]\nname = \"ship\"\nversion = \"1.2.0\"\n");

#[test]
fn no_build_is_named_after_its_interpreter() {
    let (here, ci): (&[_], &[_]) = (&[], &[("CI", "true")]);
    let gitlab: &[_] = &[("CI", "true"), ("GITLAB_CI", "true"), ("CI_JOB_NAME", "test")];
    let named = "the package is ";
    for (variables, files, assignment, expected, note) in [
        (here, &[REMOTE, CARGO][..], "arch=", ["", "ship", "1.2.0"], ""),
        (here, &[CARGO, ("package.json", "{}")], "arch=", ["", "ship", "1.2.0"], ""),
        (
            here,
            &[("package.json", r#"{"name": "@a/b", "version": "2.0"}"#)],
            "arch=",
            ["", "@a/b", "2.0"],
            "",
        ),
        (here, &[("pyproject.toml", "[project]\nname = \"pie\"\n")], "arch=", ["", "pie", ""], ""),
        (here, &[("go.mod", "module example.org/x // y\ngo 1.22\n")], "arch=", ["", "example.org/x", ""], ""),
        (here, &[("Cargo.toml", "[workspace]\n"), REMOTE], "arch=", ["", "app", ""], ""),
        (here, &[("Cargo.toml", "[package\n"), ("go.mod", "module \"m\"")], "arch=", ["", "m", ""], ""),
        (here, &[], "arch=", ["", "(unnamed)", ""], ""),
        (here, &[CARGO], "package=mine", ["", "mine", ""], ""),
        (here, &[CARGO], "version=7", ["", "ship", "7"], ""),
        (ci, &[REMOTE], "arch=", ["acme/app", "app", ""], "the project is acme/app, by the git remote"),
        (ci, &[REMOTE, CARGO], "project=own/x", ["own/x", "ship", "1.2.0"], named),
        (ci, &[REMOTE], "package=mine", ["acme/app", "mine", ""], "the project is acme/app"),
        (ci, &[], "arch=", ["", "(unnamed)", ""], ""),
        (ci, &[], "project=a/b", ["a/b", "b", ""], named),
        (ci, &[(".git", "gitdir: .git/worktrees/x\n")], "arch=", ["", "(unnamed)", ""], ""),
        (&[("CI", "true"), ("CI_PROJECT_PATH", "a/b")], &[], "arch=", ["a/b", "b", ""], named),
        (gitlab, &[REMOTE, CARGO], "project=a/b", ["a/b", "test", ""], ""),
    ] {
        let (_dir, at) = checkout(files);
        let job = CiJob { directory: Some(at), ..job(variables) };
        let assignments = [assignment.to_owned()];
        let (key, notes) = job.named_key(&command(&["/usr/bin/python3", "t.py"]), &assignments).unwrap();
        assert_eq!([key.project.as_str(), &key.package, &key.version], expected, "{variables:?} {files:?}");
        assert!(notes.first().map_or(note.is_empty(), |first| first.starts_with(note)), "{notes:?}");
        assert_eq!(is_unnamed(&key), expected[1] == "(unnamed)");
        let line = crate::doctor::check_job(&job);
        assert_eq!(line.is_some(), job.ci);
        assert!(!format!("{notes:?}{line:?}").contains("s3cret"));
    }
    let lost = CiJob { directory: Some("/nowhere/".into()), ..job(ci) };
    assert_eq!(lost.key_for(&command(&["make"]), &[]).unwrap().package, "(unnamed)");
}

#[test]
fn a_checkout_is_read_from_below_and_in_worktrees() {
    let (_dir, at) = checkout(&[
        REMOTE,
        ("pyproject.toml", "[tool.poetry]\nname = \"pie\"\nversion = \"3\"\n"),
        ("src/deep/x", ""),
        ("work/.git", "gitdir: ../.git/worktrees/work\n"),
        (".git/worktrees/work/commondir", "../..\n"),
    ]);
    let read = |path: &str| {
        let Checkout { project, package, version, manifest } = Checkout::read(&at.join(path));
        [project, package, version, manifest.to_owned()]
    };
    assert_eq!(read("src/deep"), ["acme/app", "pie", "3", "pyproject.toml"]);
    assert_eq!(read("work"), ["acme/app", "", "", ""], "a worktree is a checkout of its own");
    std::fs::write(at.join(".git/config"), "[remote \"a\"]\nurl=/srv/x\n[remote \"b\"]\nurl=ssh://h/b/c\n")
        .unwrap();
    assert_eq!(read("work")[0], "b/c");
    std::fs::write(at.join("work/package.json"), " ".repeat(2 << 20)).unwrap();
    assert_eq!(read("work")[1], "");
}

#[test]
fn a_job_of_github_names_number_and_trust() {
    let variables = [
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_REPOSITORY", "octocat/app"),
        ("GITHUB_RUN_ID", "12"),
        ("GITHUB_RUN_ATTEMPT", "2"),
        ("GITHUB_JOB", "build"),
        ("GITHUB_EVENT_NAME", "pull_request"),
    ];
    let fork = job(&variables);
    assert_eq!((fork.attempt.as_deref(), fork.number), (Some("github:octocat/app:12.2/build"), Some(2)));
    assert!(fork.ci && fork.foreign_note().unwrap().contains("counts as untrusted"));
    let lost = crate::doctor::check_job(&CiJob { recognized: None, ..fork }).unwrap();
    assert!(lost.finding.contains("a CI system that is not known: project octocat/app"), "{lost:?}");
    let secrets = Secrets::of([("MY_TOKEN".into(), "octocat/app".into())]);
    let masked = crate::doctor::check_job(&CiJob { secrets, ..job(&variables) }).unwrap();
    assert!(!masked.finding.contains("octocat"), "{masked:?}");
}

#[test]
fn jobs_are_read_in_every_spelling() {
    for words in
        [vec!["-j8"], vec!["-j", "8"], vec!["--jobs", "8"], vec!["--jobs=8"], vec!["-j1", "--parallel", "8"]]
    {
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
fn unusable_sizes_in_variables_are_ignored() {
    let sizes = [
        "KUBERNETES_MEMORY_REQUEST",
        "KUBERNETES_MEMORY_LIMIT",
        "KUBERNETES_CPU_REQUEST",
        "KUBERNETES_CPU_LIMIT",
    ];
    for text in ["0", "0Mi", "000m", "0.0", "-1", "", " ", "lots", "9223372036854775808", "-0", "1e99", "NaN"]
    {
        let asked = job(&sizes.map(|name| (name, text))).asked;
        assert_eq!(asked, Resources::default(), "{text:?}");
    }
    // memory without its unit is bytes, of which no build has so few
    let asked = job(&sizes.map(|name| (name, "2"))).asked;
    let cpu = Resources { cpu_request_cores: Some(2.0), cpu_limit_cores: Some(2.0), ..Resources::default() };
    assert_eq!(asked, cpu);
    // one that cannot be used costs no other
    let asked = job(&[("KUBERNETES_CPU_LIMIT", "0"), ("KUBERNETES_MEMORY_LIMIT", "2Gi")]).asked;
    assert_eq!(asked, Resources { memory_limit_bytes: Some(2 << 30), ..Resources::default() });
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
