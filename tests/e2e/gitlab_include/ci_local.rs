//! The include in a pipeline that GitLab's language and a runner's shells really run: `gitlab-ci-local` (npm) reads `include`, `default`,
//! `!reference`, `needs`, artifacts and dotenv as GitLab does. Needs `rsync` too; skipped with a reason without them, unless
//! `PLIMSOLL_GITLAB_CI_LOCAL_REQUIRED` is set.

use std::collections::BTreeMap;

use super::*;

const PIPELINE: &str = r#"
include: [{ local: plimsoll.gitlab-ci.yml }]
stages: [first, second]
compile:
  stage: first
  script:
    - echo built > out.txt
    - echo "FROM_COMPILE=one" > build.env
  artifacts:
    paths: [out.txt]
    reports: { dotenv: build.env }
own-steps:
  stage: first
  before_script:
    - !reference [.plimsoll-measure, before_script]
    - OWN=before
  script:
    - echo "script says $OWN"
  after_script:
    - echo "after says ${OWN:-nothing}"
broken:
  stage: first
  allow_failure: true
  script:
    - (exit 3)
    - echo it went on
use:
  stage: second
  needs: [compile]
  script:
    - test "$(cat out.txt)-$FROM_COMPILE" = built-one
    - plimsoll --version
without:
  stage: second
  variables: { PLIMSOLL_MEASURE: "off" }
  script:
    - echo unmeasured
"#;

/// Whether what runs pipelines is here.
fn is_here() -> bool {
    let missing = ["gitlab-ci-local", "rsync", "git"].into_iter().find(|program| found(program).is_none());
    let required = std::env::var_os("PLIMSOLL_GITLAB_CI_LOCAL_REQUIRED").is_some();
    assert!(
        missing.is_none() || !required,
        "{missing:?} is missing, and PLIMSOLL_GITLAB_CI_LOCAL_REQUIRED is set"
    );
    if let Some(missing) = missing {
        eprintln!("skipped: {missing} is not installed");
    }
    missing.is_none()
}

fn git(checkout: &Path, words: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@example"]).args(words).current_dir(checkout);
    assert!(git.output().unwrap().status.success(), "{words:?}");
}

/// Runs all jobs of the pipeline; gives what was said.
fn run(fleet: &Fleet) -> Output {
    let checkout = fleet.checkout();
    std::fs::write(checkout.join("plimsoll.gitlab-ci.yml"), INCLUDE).unwrap();
    std::fs::write(checkout.join(".gitlab-ci.yml"), PIPELINE).unwrap();
    git(&checkout, &["init", "--quiet"]);
    git(&checkout, &["remote", "add", "origin", "https://gitlab.example/group/app.git"]);
    git(&checkout, &["add", "."]);
    git(&checkout, &["commit", "--quiet", "--message", "one"]);
    let mut command = Command::new("gitlab-ci-local");
    command.arg("--force-shell-executor").current_dir(&checkout);
    command.arg("--home").arg(fleet.dir.path().join("home"));
    for (name, value) in [
        ("PLIMSOLL_SERVER", fleet.server.url()),
        ("PLIMSOLL_AGENT_URL", format!("http://{}/agent", fleet.server.http)),
        ("PLIMSOLL_SPOOL_DIR", fleet.dir.path().join("spool").display().to_string()),
    ] {
        command.args(["--variable", &format!("{name}={value}")]);
    }
    command.output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_with_the_include_is_only_measured() {
    if !is_here() {
        return;
    }
    let Some(fleet) = Fleet::start() else { return };
    let output = run(&fleet);
    let printed = text(&output);
    assert!(output.status.success(), "{printed}");
    assert_has(&printed, ["script says before", "after says nothing", "> plimsoll 0."]);
    // what a job prints stands behind `>`, what it runs behind `$`
    let is_complaint =
        |line: &str| line.contains("> plimsoll:") && line.contains("the job goes on unmeasured");
    assert!(!printed.contains("> it went on") && !printed.lines().any(is_complaint), "{printed}");
    let agent = Agent::new(Programs::for_tests(), fleet.server.url(), fleet.dir.path());
    let attempts = agent.json(&["attempts"]);
    let measured: BTreeMap<&str, Option<i64>> = attempts["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .inspect(|attempt| assert_eq!(attempt["key"]["project"], "group/app", "{attempt}"))
        .map(|attempt| (attempt["key"]["package"].as_str().unwrap(), attempt["exit_code"].as_i64()))
        .collect();
    let expected = [("broken", Some(3)), ("compile", Some(0)), ("own-steps", Some(0)), ("use", Some(0))];
    assert_eq!(measured, BTreeMap::from(expected), "{printed}");
}
