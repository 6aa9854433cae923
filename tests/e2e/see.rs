//! What people see on a terminal: statistics, lists, one attempt, and what runs now.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use plimsoll_proto::v1 as pb;
use plimsoll_support::KilledChild;
use plimsoll_tests::{Answer, Programs, Sender, Site, assert_has, assert_lacks, batch, finish, hello};

use crate::tools::has_script;

/// A name that is made up to do harm.
const HOSTILE: &str = "<script>alert(1)</script>\u{202e}包";

/// Milliseconds since 1970 of an hour ago.
fn an_hour_ago() -> u64 {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    u64::try_from(now.as_millis()).unwrap() - 3_600_000
}

fn opening(attempt: &str, package: &str) -> pb::Hello {
    let labels = [("job".to_owned(), HOSTILE.to_owned())].into();
    pb::Hello {
        key: Some(pb::Key {
            package: package.to_owned(),
            version: "1.3".to_owned(),
            labels,
            ..pb::Key::default()
        }),
        started_unix_ms: an_hour_ago(),
        resources: Some(pb::Resources { memory_limit_bytes: Some(64 << 20), ..pb::Resources::default() }),
        ..hello(attempt, package)
    }
}

/// One attempt that has ended after so many samples of a second, with this code.
async fn ended(site: &Site, attempt: &str, package: &str, samples: u64, code: i32) {
    let mut stream = Sender::connect(&site.server.url()).await.unwrap();
    stream.build(opening(attempt, package), samples, Some(code)).await.unwrap();
}

async fn some_attempts() -> Site {
    let site = Site::start().unwrap();
    for (attempt, package, samples, code) in
        [("a1", "zlib", 3, 0), ("a2", HOSTILE, 30, 0), ("a3", "zlib", 9, 2), ("a4", "zlib", 20, 0)]
    {
        ended(&site, attempt, package, samples, code).await;
    }
    site
}

fn output_of(site: &Site, words: &str) -> String {
    let answer = site.agent.call(&words.split(' ').collect::<Vec<_>>());
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{words}: {answer:?}");
    harmless(&answer.stdout);
    answer.stdout
}

fn harmless(text: &str) {
    let bad = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
    assert_eq!(bad, None, "{text:?}");
}

fn refused(site: &Site, words: &str) -> String {
    let Answer { code, stdout, stderr } = site.agent.call(&words.split(' ').collect::<Vec<_>>());
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{words}: {stderr}");
    stderr
}

#[tokio::test(flavor = "multi_thread")]
async fn weekly_statistics_are_shown_by_group_and_time() {
    let site = some_attempts().await;
    let text = output_of(&site, "stats --since 7d --by package");
    let hostile = r"<script>alert(1)</script>\u{202e}包";
    assert_has(&text, ["attempts    4: 3 (75 %) succeeded", "1 (25 %)", "over time", "by package", hostile]);
    let json = site.agent.json(&["stats", "--package", "zlib", "--step", "1h"]);
    assert_eq!((&json["totals"]["attempts"], &json["totals"]["failed"]), (&3.into(), &1.into()));
    assert!(!json["steps"].as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_listed_in_order_page_by_page() {
    let site = some_attempts().await;
    let ids = |words: &[&str]| {
        let json = site.agent.json(&[&["attempts"], words].concat());
        let all = json["attempts"].as_array().unwrap().clone();
        let ids: Vec<String> = all.iter().map(|a| a["attempt"].as_str().unwrap().to_owned()).collect();
        (ids.join(" "), json["next_page_token"].as_str().unwrap().to_owned())
    };
    assert_eq!(ids(&["--order", "need"]).0, "a2 a4 a3 a1");
    assert_eq!(ids(&["--order", "wall", "--outcome", "succeeded"]).0, "a2 a4 a1");
    let (first, token) = ids(&["--order", "need", "--limit", "3"]);
    assert_eq!((first.as_str(), token.is_empty()), ("a2 a4 a3", false));
    assert_eq!(ids(&["--order", "need", "--page-token", &token]).0, "a1");
    let first = output_of(&site, "attempts --since 2h --limit 2");
    let way_on = first.trim_end().rsplit(" and ").next().unwrap();
    assert_eq!(output_of(&site, &format!("attempts {way_on}")).lines().count(), 3, "{way_on}");
    let text = output_of(&site, "attempts --package zlib --outcome failed");
    assert!(text.contains("  zlib@1.3  failed, unknown cause") && text.ends_with("  a3\n"), "{text}");
    let other = refused(&site, &format!("attempts --order wall --page-token {token}"));
    assert!(other.contains("page_token: belongs to another filter or order"), "{other}");
    let made_up = refused(&site, "attempts --page-token moon");
    assert!(made_up.contains("start from the first page"), "{made_up}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_shows_its_series_and_verdict() {
    let site = some_attempts().await;
    let ask = pb::ShouldRetryRequest {
        attempt: "a3".to_owned(),
        log_tail: "x.c:3:1: error: expected ';'\u{1b}[2J".into(),
        ..pb::ShouldRetryRequest::default()
    };
    site.server.judge(ask).await.unwrap();
    let text = output_of(&site, "show a3");
    let verdict = "verdict     Do not retry: the build itself fails";
    assert_has(&text, ["attempt     a3", "result      failed", "full height: the limit, 64 MiB", verdict]);
    let json = site.agent.json(&["show", "a3", "--samples", "4"]);
    assert_eq!((&json["verdict"]["cause"], &json["downsampled"]), (&"deterministic".into(), &true.into()));
    assert!(json["verdict"]["given_unix_ms"].as_u64().unwrap() > an_hour_ago());
    assert!(json["series"].as_array().unwrap().len() <= 4);
    assert!(refused(&site, "show unknown").contains("no attempt unknown is known here"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_number_finds_its_attempt() {
    let site = Site::start().unwrap();
    ended(&site, "git.example:201", "zlib", 3, 0).await;
    ended(&site, "git.example:1201", "zlib", 3, 0).await;
    assert_eq!(site.agent.json(&["show", "201"])["summary"]["attempt"], "git.example:201");
    assert!(refused(&site, "show 01").contains("no attempt 01 is known here"));
    ended(&site, "other.example:201", "zlib", 3, 0).await;
    let several = refused(&site, "show 201");
    assert!(several.contains("name its host: git.example:201, other.example:201"), "{several}");
    ended(&site, "201", "zlib", 3, 0).await;
    assert_eq!(site.agent.json(&["show", "201"])["summary"]["attempt"], "201");
}

/// The next line of JSON that `watch` writes.
fn next(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> serde_json::Value {
    serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_watch_prints_json_lines() {
    let site = Site::start().unwrap();
    let mut stream = Sender::connect(&site.server.url()).await.unwrap();
    stream.exchange(opening("a1", "zlib")).await.unwrap();
    let mut child = KilledChild(site.agent.command(&["watch"]).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    assert_eq!(next(&mut lines)["running"][0]["attempt"], "a1");
    stream.exchange(batch("a1", 1, 2)).await.unwrap();
    stream.exchange(finish("a1", 2, Some(0))).await.unwrap();
    let mut changes = std::iter::from_fn(|| Some(next(&mut lines)));
    assert!(changes.any(|change| change["ended"] == serde_json::json!(["a1"])));
    drop(child);
    // one that loses its server says so
    let mut command = site.agent.command(&["watch"]);
    let mut child = KilledChild(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    next(&mut lines);
    site.server.kill().unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(3));
    drop(site.dir);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_lists_what_runs_again_and_again() {
    if !has_script() {
        return;
    }
    let site = Site::start().unwrap();
    let mut stream = Sender::connect(&site.server.url()).await.unwrap();
    stream.exchange(opening("a1", HOSTILE)).await.unwrap();
    stream.exchange(batch("a1", 1, 60)).await.unwrap();
    let mut command = Command::new("script");
    command
        .args(["-qec", "stty cols 70; exec timeout --foreground 60 $P watch", "/dev/null"])
        .current_dir(site.dir.path());
    command.env("SHELL", "/bin/sh").env("P", &Programs::for_tests().agent).env("NO_COLOR", "1");
    command.env("PLIMSOLL_SERVER", site.server.url());
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = KilledChild(piped.spawn().unwrap());
    let shown = BufReader::new(child.0.stdout.take().unwrap());
    let mut lines = String::new();
    for line in shown.lines() {
        lines += &(line.unwrap() + "\n");
        if lines.matches("<script>alert").count() == 2 {
            break;
        }
    }
    assert_eq!((lines.matches("1 running").count(), lines.matches("94 %").count()), (2, 2), "{lines:?}");
    assert_lacks(&lines, ["\u{202e}", "\u{1b}["]);
}
