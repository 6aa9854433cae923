//! Acting on a verdict: the exit code that stands for it, another try in the same place, and nothing at all where there is no verdict.

mod in_place;
mod judge;

use std::{fs, net::TcpListener};

use plimsoll_proto::v1::Action;
use plimsoll_tests::{Agent, Answer, Programs, Site, assert_has};

use judge::{Judge, verdict};

/// A compile error, as every compiler writes it.
const BROKEN: &str = "echo \"main.c:3:5: error: 'x' undeclared (first use in this function)\"; exit 1";
/// A failure that no rule knows.
const MOON: &str = "echo 'fatal: the moon is full'; exit 1";
/// A code for each verdict.
const CODES: &str = "no=80,as-is=81,bigger=82,fewer-jobs=83,longer=84,elsewhere=85";

/// Runs a shell script whose output is read, with these options. Waits so long for a verdict that no slow machine is without one.
fn run(agent: &Agent, options: &[&str], script: &str) -> Answer {
    run_within("2m", agent, options, script)
}

/// As [`run`], with another patience.
fn run_within(patience: &str, agent: &Agent, options: &[&str], script: &str) -> Answer {
    let read = ["run", "--phases", "gitlab", "--patience", patience, "--key", "package=zlib"];
    agent.call(&[&read, options, &["--", "sh", "-c", script]].concat())
}

#[test]
fn a_failure_exits_with_its_verdicts_code() {
    let site = Site::start().unwrap();
    let codes = ["--exit-code-for", CODES];
    let ran = run(&site.agent, &codes, BROKEN);
    assert_eq!(ran.code, Some(80), "{ran:?}");
    assert!(ran.stderr.contains("exit code 80 in place of 1: the verdict is no: "), "{}", ran.stderr);
    let moon = ["run", "--phases", "gitlab", "--patience", "2m", "--key", "package=moon"];
    let ran = site.agent.call(&[&moon[..], &codes, &["--", "sh", "-c", MOON]].concat());
    assert_eq!(ran.code, Some(81), "{ran:?}");
    let ran = run(&site.agent, &["--exit-code-for", "bigger=82", "--exit-code-for", "longer=84"], BROKEN);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("exit code 1 stays: no code is set for the verdict no"), "{}", ran.stderr);
    let fleet = site.agent.with("PLIMSOLL_EXIT_CODE_FOR", "no=90");
    assert_eq!(run(&fleet, &["--quiet"], BROKEN).code, Some(90), "from the variable of a fleet");
}

#[test]
fn an_oom_killed_child_exits_with_bigger() {
    let site = Site::start().unwrap();
    let script = "head -c 200M /dev/zero | tail >/dev/null; exit 2";
    let report = site.dir.path().join("report.json");
    let options =
        ["--limit-memory", "64MiB", "--exit-code-for", CODES, "--report-file", report.to_str().unwrap()];
    let ran = run(&site.agent, &options, script);
    if ran.stderr.contains("without the memory limit") {
        eprintln!("skipped: {}", ran.stderr);
        return;
    }
    assert_eq!(ran.code, Some(82), "{ran:?}");
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    let verdict = &report["verdict"];
    assert_eq!((&verdict["action"], &verdict["cause"]), (&"bigger".into(), &"oom".into()), "{report}");
    assert!(verdict["outlook"]["cost_memory_gib_hours"].as_f64().unwrap() > 0.0, "{report}");
    assert!(verdict["next"]["memory_limit_bytes"]["value"].as_u64().unwrap() > 64 << 20, "{report}");
}

#[test]
fn a_build_that_passes_is_never_changed() {
    let site = Site::start().unwrap();
    let options = ["--exit-code-for", CODES, "--retry-in-place", "3"];
    let ran = run(&site.agent, &options, "echo error: nothing; exit 0");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "error: nothing\n"), "{ran:?}");
}

#[test]
fn the_report_shows_what_the_verdict_rests_on() {
    let site = Site::start().unwrap();
    let ran = run(&site.agent, &["--report", "text", "--exit-code-for", "as-is=81"], MOON);
    assert_eq!(ran.code, Some(81), "{ran:?}");
    let parts = [
        "verdict   Cause not known: no rule knows a line of its log that says why; the retry policy allows another attempt",
        "            the cause is not known: no rule knows a line of its log that says why (to make it known, ",
        "failure: fatal: the moon is full",
        "cost: ",
        "next run  nothing is known about it yet: the default is memory request ",
    ];
    assert_has(&ran.stderr, parts);
}

#[test]
fn without_a_server_the_exit_code_is_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    for (server, why) in
        [("http://127.0.0.1:9", "the samples were not delivered"), ("none", "no server is set")]
    {
        let agent = Agent::new(Programs::for_tests(), server, &dir.path().join("spool"));
        let ran = run(&agent, &["--exit-code-for", CODES, "--retry-in-place", "2"], "echo once; exit 3");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), "once\n"), "{ran:?}");
        let line = format!("exit code 3 stays: no verdict: {why}");
        assert_eq!(ran.stderr.matches(&line).count(), 1, "{line}: {}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_leaves_the_exit_code_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    // one takes connections and never says a word, the other takes the attempt and gives no verdict
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let judge = Judge::with(&[]).await;
    let silent = format!("http://{}", silent.local_addr().unwrap());
    for server in [silent.as_str(), judge.url()] {
        let agent = Agent::new(Programs::for_tests(), server, &dir.path().join("spool"));
        let options = ["--exit-code-for", CODES, "--retry-in-place", "2"];
        let call = move || run_within("2s", &agent, &options, "echo once; exit 3");
        let ran = tokio::task::spawn_blocking(call).await.unwrap();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), "once\n"), "{ran:?}");
        assert_eq!(ran.stderr.matches("exit code 3 stays: no verdict: the s").count(), 1, "{}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_counts_even_without_a_prediction() {
    let dir = tempfile::tempdir().unwrap();
    let judge = Judge::with(&[verdict(Action::Elsewhere)]).await;
    let agent = Agent::new(Programs::for_tests(), judge.url(), &dir.path().join("spool"));
    let options = ["--exit-code-for", CODES, "--report", "text"];
    let ran = tokio::task::spawn_blocking(move || run(&agent, &options, "exit 3")).await.unwrap();
    assert_eq!(ran.code, Some(85), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_tail_is_sent_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let judge = Judge::with(&[verdict(Action::No)]).await;
    let agent = Agent::new(Programs::for_tests(), judge.url(), &dir.path().join("spool"));
    let agent = agent.with("DEPLOY_TOKEN", "glpat-1234567890");
    let script = "echo out; echo \"error: https://x:$DEPLOY_TOKEN@y\" >&2; exit 1";
    let ran = tokio::task::spawn_blocking(move || run(&agent, &["--exit-code-for", "no=80"], script))
        .await
        .unwrap();
    assert_eq!(ran.code, Some(80), "{ran:?}");
    let [asked] = &judge.asked()[..] else { panic!("asked more than once") };
    let tail = String::from_utf8(asked.log_tail.clone()).unwrap();
    assert!(tail.contains("out\n") && tail.contains("error: https://x:[MASKED]@y\n"), "{tail}");
}

#[test]
fn a_job_retry_is_recognized_without_options() {
    let site = Site::start().unwrap();
    let job = |id: &str, pipeline: &str| {
        let variables = [("CI_JOB_ID", id), ("CI_PIPELINE_ID", pipeline), ("CI_JOB_NAME", "moon")];
        variables.iter().fold(site.agent.clone(), |agent, (name, value)| agent.with(name, value))
    };
    let codes = ["--exit-code-for", CODES];
    assert_eq!(run(&job("1", "7"), &codes, MOON).code, Some(81), "the first failure is tried again");
    let again = run(&job("2", "7"), &codes, MOON);
    assert_eq!(again.code, Some(80), "the retry failed in the same way: {again:?}");
    assert_eq!(run(&job("3", "8"), &codes, MOON).code, Some(81), "another pipeline starts anew");
}

#[test]
fn each_run_in_a_job_is_an_attempt() {
    let site = Site::start().unwrap();
    let job = site.agent.clone().with("CI_JOB_ID", "4711").with("CI_SERVER_HOST", "gitlab.com");
    for script in ["exit 0", "exit 3"] {
        let ran = run(&job, &[], script);
        assert!(ran.stderr.contains("samples delivered as gitlab.com:4711"), "{}", ran.stderr);
    }
    let exit =
        |attempt: &str| site.agent.json(&["show", "--attempt", attempt])["summary"]["exit_code"].clone();
    assert_eq!((exit("gitlab.com:4711"), exit("gitlab.com:4711.2")), (0.into(), 3.into()));
    assert_eq!(site.server.get("/readyz").unwrap().0, 200);
}

#[test]
fn should_retry_shows_costs_and_accepts_gitlabs_list() {
    let site = Site::start().unwrap();
    run(&site.agent, &["--attempt", "7"], MOON);
    let (log, list) = (site.dir.path().join("log"), site.dir.path().join("jobs.json"));
    fs::write(&log, "fatal: the moon is full\n").unwrap();
    let jobs = r#"[{"id":6,"name":"moon","status":"failed","failure_reason":"runner_system_failure",
                    "created_at":"2024-01-15T10:00:00.500Z","finished_at":"2024-01-15T11:00:00Z"},
                   {"id":7,"name":"moon","status":"failed","created_at":"2024-01-15T11:00:00Z"}]"#;
    fs::write(&list, jobs).unwrap();
    let (log, list) = (log.to_str().unwrap(), list.to_str().unwrap());
    let asked = ["should-retry", "--attempt", "7", "--log", log];
    let verdict = site.agent.json(&asked);
    assert_eq!(verdict["action"], "as_is", "as far as agents know, it is the first failure: {verdict}");
    assert_eq!(verdict["outlook"]["signature_line"], "fatal: the moon is full", "{verdict}");
    assert!(verdict["outlook"]["cost_memory_gib_hours"].as_f64().unwrap() > 0.0, "{verdict}");
    assert_eq!(verdict["outlook"]["pass_rate"], serde_json::Value::Null, "{verdict}");
    let text = site.agent.call(&asked).stdout;
    assert!(text.contains("\nfailure: fatal: the moon is full\n") && text.contains("\ncost: "), "{text}");
    let asked = [&asked[..], &["--include-retried", list]].concat();
    let verdict = site.agent.json(&asked);
    assert_eq!(verdict["action"], "no", "it was tried again already: {verdict}");
    assert_eq!(site.agent.call(&asked).code, Some(10));
    fs::write(list, "{}").unwrap();
    let refused = site.agent.call(&asked);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--include-retried"), "{refused:?}");
}
