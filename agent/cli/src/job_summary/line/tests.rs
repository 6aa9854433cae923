//! The one line at the end of a build.

use std::time::Duration;

use plimsoll_client::delivery::DeliveryReport;
use plimsoll_proto::v1::{Action, Cause, Exit, Outlook, Resources, Totals, Verdict};

use super::*;
use crate::job_summary::{Advice, Settings, render};

fn line(totals: &Totals, resources: &Resources, exit: Exit, report: &DeliveryReport) -> String {
    let facts = BuildFacts {
        name: "zlib@1.3".to_owned(),
        end: MeasurementEnd::Exited(exit),
        wall: Duration::from_millis(12_300),
        totals: *totals,
        resources: *resources,
        attempt: "job-7".to_owned(),
        delivery: report.clone(),
        ..BuildFacts::default()
    };
    ReportLine(&facts).to_string()
}

#[test]
fn a_good_build_says_what_it_used_of_what_was_asked() {
    let totals = Totals {
        cpu_usec: 21_000_000,
        memory_peak_bytes: Some(324 << 20),
        oom_kill: Some(0),
        reclaim_failures: Some(0),
        need_peak_bytes: Some(281 << 20),
        ..Totals::default()
    };
    let resources = Resources { memory_request_bytes: Some(2 << 30), ..Resources::default() };
    let report = DeliveryReport { delivered: true, ..DeliveryReport::default() };
    assert_eq!(
        line(&totals, &resources, Exit { code: Some(0), signal: None }, &report),
        "plimsoll: zlib@1.3 ended with exit code 0 after 12.3 s; needed 281 MiB, asked for 2.00 GiB (14 % of it needed), \
         324 MiB with page cache, CPU 21.0 s (1.71 cores), samples delivered as job-7"
    );
}

#[test]
fn an_end_whose_exit_status_is_not_known_is_said_to_be_that() {
    let end = MeasurementEnd::Ended("its process ended");
    let facts = BuildFacts { name: "unit".to_owned(), end, ..BuildFacts::default() };
    assert_eq!(facts.summary().outcome(), plimsoll_proto::v1::Outcome::Ended);
    let line = ReportLine(&facts).to_string();
    let expected = "plimsoll: unit ended (its process ended), exit status not known, after 0 s";
    assert!(line.starts_with(expected), "{line}");
}

#[test]
fn on_a_terminal_the_verdict_follows_and_its_reason_is_never_cut() {
    let outlook = Outlook { failure_line: "x.c:3: error\u{1b}[2J".to_owned(), ..Outlook::default() };
    let verdict = Verdict {
        action: Action::No.into(),
        cause: Cause::Deterministic.into(),
        confidence: 0.8,
        reason: "the build itself is broken: a retry would fail in the same way".to_owned(),
        outlook: Some(outlook),
        ..Verdict::default()
    };
    let mut facts = BuildFacts {
        advice: Advice { verdict: Some(verdict), ..Advice::default() },
        ..BuildFacts::default()
    };
    let settings = Settings { short_verdict: true, ..Settings::default() };
    let lines = |facts: &BuildFacts, settings: &Settings| {
        let text = render(facts, settings).unwrap();
        text.split_once('\n').map(|(_line, verdict)| verdict.to_owned())
    };
    let expected = "plimsoll: Do not retry: the build itself fails (80 % sure)\nplimsoll: failure: x.c:3: error\\u{1b}[2J";
    assert_eq!(lines(&facts, &settings).as_deref(), Some(expected));
    assert_eq!(lines(&facts, &Settings::default()), None, "nothing was wanted");
    let verdict = facts.advice.verdict.as_mut().unwrap();
    verdict.outlook.as_mut().unwrap().failure_line = "word ".repeat(100);
    let rows = lines(&facts, &settings).unwrap();
    assert!(rows.ends_with("word ...") && rows.lines().nth(1).unwrap().len() < 170, "{rows}");
    let verdict = facts.advice.verdict.as_mut().unwrap();
    (verdict.outlook, verdict.reason) = (None, "word ".repeat(100) + "end");
    assert!(
        lines(&facts, &settings).unwrap().ends_with("word end"),
        "the reason is advice: all of it is shown"
    );
    facts.advice = Advice { problem: Some("the server is away".to_owned()), ..Advice::default() };
    assert_eq!(lines(&facts, &settings).as_deref(), Some("plimsoll: no verdict: the server is away"));
    facts.advice = Advice::default();
    assert_eq!(lines(&facts, &settings), None, "a build that passed");
}

#[test]
fn a_failure_of_unknown_cause_says_what_is_not_known_and_how_to_make_it_known_before_the_policy() {
    let reason = "the cause is not known: its log was not read (to make it known, put `plimsoll run` in front of the build): \
                  the retry policy allows another attempt with the same size";
    let mut verdict = Verdict {
        action: Action::AsIs.into(),
        cause: Cause::Unknown.into(),
        confidence: 0.2,
        reason: reason.to_owned(),
        attempts_left: 1,
        ..Verdict::default()
    };
    let lines = |verdict: &Verdict| {
        let advice = Advice { verdict: Some(verdict.clone()), ..Advice::default() };
        short_verdict(&BuildFacts { advice, ..BuildFacts::default() })
    };
    let first = "\nplimsoll: Cause not known: its log was not read; the retry policy allows another attempt with the same size (1 attempt left)";
    assert_eq!(lines(&verdict), format!("{first}\nplimsoll: {reason}"));
    verdict.outlook = Some(Outlook { failure_line: "the moon is full".to_owned(), ..Outlook::default() });
    assert_eq!(lines(&verdict), format!("{first}\nplimsoll: failure: the moon is full\nplimsoll: {reason}"));
}

#[test]
fn a_killed_build_says_who_killed_it_and_where_the_samples_wait() {
    let mut totals = Totals { oom_kill: Some(1), need_peak_bytes: Some(255 << 20), ..Totals::default() };
    totals.set_oom_origin(OomOrigin::OwnLimit);
    let resources = Resources { memory_limit_bytes: Some(256 << 20), ..Resources::default() };
    let problem = Some("connection refused".to_owned());
    let report =
        DeliveryReport { problem, kept: Some("/spool/job-7".into()), lost: 2, ..DeliveryReport::default() };
    assert_eq!(
        line(&totals, &resources, Exit { code: None, signal: Some(9) }, &report),
        "plimsoll: zlib@1.3 was ended by SIGKILL after 12.3 s; the kernel killed 1 process at the limit of 256 MiB; \
         needed more than 256 MiB, limit 256 MiB (more than 100 % of it needed), CPU not known, samples of job-7 kept for the next run in \
         /spool/job-7, 2 lost: connection refused"
    );
}

#[test]
fn a_kill_is_blamed_on_the_limit_that_was_met() {
    let resources = Resources { memory_limit_bytes: Some(256 << 20), ..Resources::default() };
    let exit = Exit { code: Some(1), signal: None };
    let killed = |origin, need| {
        let mut totals = Totals { oom_kill: Some(1), need_peak_bytes: Some(need), ..Totals::default() };
        totals.set_oom_origin(origin);
        line(&totals, &resources, exit, &DeliveryReport::default())
    };
    assert!(killed(OomOrigin::OwnLimit, 250 << 20).contains("killed 1 process at the limit of 256 MiB"));
    assert!(killed(OomOrigin::OwnLimit, 20 << 20).contains("or at one that the build set itself"));
    assert!(killed(OomOrigin::LimitAbove, 20 << 20).contains("at a limit above the build's own"));
    assert!(killed(OomOrigin::Host, 20 << 20).contains("because the whole machine had no memory left"));
    assert!(killed(OomOrigin::Unspecified, 20 << 20).contains("killed 1 process for memory; needed more"));
}

#[test]
fn a_key_without_a_package_is_named_after_the_command() {
    let key = Key { version: "1".to_owned(), ..Key::default() };
    assert_eq!(name(&key, &["/usr/bin/make".into()]), "make");
}
