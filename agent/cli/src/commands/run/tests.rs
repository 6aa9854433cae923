//! The options of `run`.

use std::{path::PathBuf, time::Duration};

use clap::Parser as _;

use super::*;
use crate::commands::{Cli, Command};

fn settings(words: &[&str], variables: &[(&str, &str)]) -> Result<run::Settings, String> {
    let line = ["plimsoll", "run"].iter().chain(words);
    let job = CiJob::read(|name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    });
    match Cli::try_parse_from(line).map_err(|error| error.to_string())?.command {
        Command::Run(args) => args.settings(&job),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_shortest_line_measures_with_defaults() {
    let settings = settings(&["--server", "http://x:1", "--", "make", "-j4"], &[("HOME", "/h")]).unwrap();
    assert_eq!(settings.command, ["make", "-j4"]);
    let attempt = settings.attempt;
    assert_eq!((attempt.key.package.as_str(), attempt.number, attempt.id), ("(unnamed)", 1, None));
    assert_eq!((attempt.interval, attempt.patience), (Duration::from_secs(1), Duration::from_secs(5)));
    let delivery = attempt.delivery;
    assert_eq!((delivery.server.as_deref(), delivery.spool_bytes), (Some("http://x:1"), 64 << 20));
    assert_eq!(delivery.spool_dir, PathBuf::from("/h/.local/state/plimsoll/spool"));
}

#[test]
fn the_line_wins_over_the_environment() {
    let variables = [("CI_JOB_ID", "7"), ("KUBERNETES_MEMORY_REQUEST", "1Gi"), ("XDG_STATE_HOME", "/s")];
    let line = "--attempt mine/1 --request-memory 2GiB --limit-memory 3G --limit-memory-most 3G --number 2 --retries mine/0 --server none \
                --spool-dir /d --key package=zlib -- true";
    let settings = settings(&line.split(' ').collect::<Vec<_>>(), &variables).unwrap();
    let attempt = settings.attempt;
    assert_eq!((attempt.id.as_deref(), attempt.retries.as_str()), (Some("mine/1"), "mine/0"));
    assert_eq!(attempt.asked.memory_request_bytes, Some(2 << 30));
    assert_eq!(settings.limit_memory, Some(3_000_000_000));
    assert_eq!(settings.limit_memory_most, Some(3_000_000_000));
    assert_eq!((attempt.delivery.server, attempt.key.package.as_str()), (None, "zlib"));
}

#[test]
fn verdicts_are_acted_on_only_when_requested() {
    let line = ["--exit-code-for", "bigger=82,as_is=83", "--exit-code-for", "no=84", "--", "true"];
    let acting = settings(&line, &[("CI_JOB_ID", "7"), ("MAKEFLAGS", "-j4")]).unwrap().acting;
    assert_eq!(Ok(acting.exit_codes), run::ExitCodes::parse(["bigger=82", "as-is=83", "no=84"]));
    assert_eq!((acting.retries, acting.make_flags.as_str(), acting.shares_id), (0, "-j4", true));
    let line = ["--retry-in-place", "2", "--attempt", "mine", "--", "true"];
    let acting = settings(&line, &[]).unwrap().acting;
    assert_eq!((acting.exit_codes.is_empty(), acting.retries, acting.shares_id), (true, 2, false));
}

#[test]
fn wrong_usage_is_refused_before_the_command_starts() {
    let needs_limit = "must be set by --limit-memory, and not be above it";
    for (line, expected) in [
        (vec!["--limit-memory-most", "3GiB", "--", "x"], needs_limit),
        (
            vec!["--limit-memory", "2GiB", "--limit-memory-most", "1GiB", "--", "x"],
            "--limit-memory-most 1.00 GiB: the",
        ),
        (vec!["make"], "unexpected argument"),
        (vec!["--"], "required"),
        (vec!["--attempt", "a b", "--", "x"], "expected 1 to 128"),
        (vec!["--interval", "0s", "--", "x"], "expected 10ms to 1h"),
        (vec!["--patience", "2h", "--", "x"], "expected 0s to 1h"),
        (vec!["--patience", "999999999y", "--", "x"], "expected 0s to 1h"),
        (vec!["--limit-memory", "lots", "--", "x"], "is not a size"),
        (vec!["--number", "0", "--", "x"], "0 is not in"),
        (vec!["--key", "pkg=x", "--", "x"], "names are: project"),
        (vec!["--exit-code-for", "bigger=0", "--", "x"], "--exit-code-for \"bigger=0\": 0 would make"),
        (vec!["--exit-code-for", "no=1", "--exit-code-for", "no=2", "--", "x"], "no has a code already"),
        (vec!["--retry-in-place", "11", "--", "x"], "--retry-in-place \"11\": expected 1 to 10"),
        (vec!["--retry-in-place", "0", "--", "x"], "expected 1 to 10"),
    ] {
        let error = settings(&line, &[]).unwrap_err();
        assert!(error.contains(expected), "{line:?}: {error}");
    }
}
