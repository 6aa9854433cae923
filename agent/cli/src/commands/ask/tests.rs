//! What can be typed, and what is asked then.

use clap::{CommandFactory as _, Parser as _};

use super::*;
use crate::commands::{Cli, Command};

fn job(variables: &[(&str, &str)]) -> CiJob {
    CiJob::read(|name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    })
}

fn parse(words: &[&str]) -> Result<Command, String> {
    let line = ["plimsoll"].iter().chain(words);
    Cli::try_parse_from(line).map(|cli| cli.command).map_err(|error| error.to_string())
}

/// Whether the command of a line is there: those for people are left out of the container's binary.
fn is_in_this_build(line: &str) -> bool {
    let name = line.split(' ').next().unwrap();
    cfg!(feature = "people") || Cli::command().find_subcommand(name).is_some()
}

fn question(words: &[&str], job: &CiJob) -> Result<ShouldRetryRequest, String> {
    match parse(&[&["should-retry"], words].concat())? {
        Command::ShouldRetry(args) => args.question(job),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_command_can_be_parsed() {
    for line in [
        "predict --key package=zlib -o env",
        "predict --key package=zlib --explain jobs --limit-memory 4GiB",
        "explain --key package=zlib -o json",
        "should-retry --attempt a/1 --exit-code -1",
        "should-retry a/1 --exit-code -1",
        "stats --package zlib --group-by cause --since 7d -o text",
        "attempts --project p --stack s --limit 5",
        "stats --by label=team --step 1d --ref-class protected --cause oom --label a=b --until 2025-11-21",
        "attempts --order waste --version 1.3 --page-token x --limit 10000",
        "show --attempt a",
        "show a",
        "watch -o json",
    ]
    .into_iter()
    .filter(|line| is_in_this_build(line))
    {
        assert!(parse(&line.split(' ').collect::<Vec<_>>()).is_ok(), "{line}");
    }
    for line in [
        "predict -o yaml",
        "predict --explain weather",
        "predict --explain jobs --limit-memory much",
        "should-retry --signal 65",
        "should-retry --signal 9 --exit-code 1",
        "stats --since tomorrow",
        "attempts --limit 10001",
        "show",
        "watch -o html",
        "explain -o env",
    ] {
        assert!(parse(&line.split(' ').collect::<Vec<_>>()).is_err(), "{line}");
    }
}

#[test]
fn what_the_caller_saw_is_asked_with() {
    let line = "--attempt a --signal 9 --failure-reason script_failure --container-reason OOMKilled \
                --pod-reason Evicted --key package=zlib --number 2";
    let asked = question(&line.split(' ').collect::<Vec<_>>(), &job(&[])).unwrap();
    assert_eq!((asked.attempt.as_str(), asked.number, asked.exit.unwrap().signal), ("a", 2, Some(9)));
    let reasons = [&asked.failure_reason, &asked.container_reason, &asked.pod_reason];
    assert_eq!(reasons, ["script_failure", "OOMKilled", "Evicted"]);
    assert_eq!(asked.key.unwrap().package, "zlib");
}

#[test]
fn the_environment_speaks_only_of_its_own_job() {
    let job = job(&[("CI_JOB_ID", "7"), ("CI_JOB_NAME", "judge")]);
    let own = question(&[], &job).unwrap();
    assert_eq!((own.attempt.as_str(), own.key.unwrap().package.as_str(), own.exit), ("7", "judge", None));
    for named in [&["--attempt", "8"][..], &["8"]] {
        let asked = question(named, &job).unwrap();
        assert_eq!((asked.key, &*asked.attempt, asked.newest_run), (None, "8", false), "{named:?}");
    }
    assert!(question(&["8", "--attempt", "8"], &job).is_err());
    assert!(question(&[], &CiJob::default()).unwrap_err().contains("name its ID"));
}

#[test]
fn an_unreadable_log_is_wrong_usage() {
    let words = ["--attempt", "a", "--log", "/no/such/log"];
    assert!(question(&words, &CiJob::default()).unwrap_err().contains("--log /no/such/log"));
}

#[test]
fn what_gitlab_lists_is_asked_with() {
    let (_dir, path) = plimsoll_support::temporary::file_name("jobs.json");
    std::fs::write(
        &path,
        r#"[{"id":7,"name":"judge","status":"failed"},{"id":8,"name":"x","status":"failed"}]"#,
    )
    .unwrap();
    let job = job(&[("CI_JOB_ID", "9"), ("CI_JOB_NAME", "judge")]);
    let asked = question(&["--include-retried", path.to_str().unwrap()], &job).unwrap();
    assert_eq!(asked.include_retried.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["7"]);
    let both = question(&["--include-retried", "-", "--log", "-"], &job).unwrap_err();
    assert!(both.contains("one standard input"), "{both}");
}

#[tokio::test]
async fn explained_jobs_are_refused_in_env_format() {
    let words = ["predict", "--key", "package=zlib", "--explain", "jobs", "-o", "env"];
    let Command::Predict(args) = parse(&words).unwrap() else { panic!("not predict") };
    let failure = args.ask(&CiJob::default()).await.unwrap_err();
    assert!(
        matches!(&failure, QuestionFailure::Question(text) if text.contains("-o text or -o json")),
        "{failure}"
    );
}
