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
    assert_eq!(
        (asked.memory_request_bytes, asked.memory_limit_bytes),
        (Some(16_000_000_000), Some(96 << 30))
    );
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
fn without_anything_the_command_names_the_package() {
    let key = job(&[]).key_for(&command(&["/usr/bin/make", "-j3", "all"]), &[]).unwrap();
    assert_eq!((key.package.as_str(), key.hints.unwrap().build_jobs), ("make", Some(3)));
    assert!(job(&[]).key_for(&[], &[]).unwrap_err().contains("--key package=NAME"));
    let twice = ["package=a", "label.x=1", "label.y=1", "package=b"].map(str::to_owned);
    assert_eq!(job(&[]).key_for(&[], &twice).unwrap_err(), "--key package is given twice; give it once");
    assert_eq!(job(&[]).key_for(&[], &twice[1..]).unwrap().package, "b");
}

#[test]
fn an_unknown_ci_system_names_no_build() {
    let github = [("CI", "true"), ("GITHUB_REPOSITORY", "a/b")];
    for (variables, assignments, package, is_nameless) in [
        (&github[..], &[][..], "(unnamed)", true),
        (&github, &["version=1"], "(unnamed)", true),
        (&github, &["package=app"], "app", false),
        (&github, &["project=a/b"], "python3", false),
        (&[("CI", "true"), ("CI_JOB_NAME", "test")], &[], "test", false),
        (&[("CI", "true"), ("CI_PROJECT_PATH", "a/b")], &[], "python3", false),
        (&[], &[], "python3", false),
    ] {
        let assignments: Vec<String> = assignments.iter().map(|text: &&str| (*text).to_owned()).collect();
        let key = job(variables).key_for(&command(&["/usr/bin/python3", "t.py"]), &assignments).unwrap();
        assert_eq!((key.package.as_str(), is_unnamed(&key)), (package, is_nameless), "{variables:?}");
    }
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
