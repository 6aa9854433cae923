//! The report at the end of a build, recorded: `golden/reports.txt` has each report below the sentence that it keeps true.

use std::{fmt::Write as _, time::Duration};

use plimsoll_client::delivery::DeliveryReport;
use plimsoll_proto::{
    fixtures::assert_pinned,
    reasons::SizeBound,
    v1::{
        Action, Basis, Cause, Exit, Key, LargestProcess, OomOrigin, Outcome, Outlook, Phase, Prediction,
        Quantity, Rescue, Resources, Source, Totals, Verdict,
    },
};

use super::{Advice, BuildFacts, MeasurementEnd, Settings, Style, name, render};

const GIB: u64 = 1 << 30;

fn phase(name: &str, started_ms: u64, wall_ms: u64, need: u64) -> Phase {
    Phase { name: name.to_owned(), started_ms, wall_ms, need_peak_bytes: need, cpu_usec: wall_ms * 2000 }
}

fn good() -> BuildFacts {
    BuildFacts {
        name: "hdf5@1.14.6".to_owned(),
        end: MeasurementEnd::Exited(Exit { code: Some(0), signal: None }),
        wall: Duration::from_secs(100),
        totals: Totals {
            cpu_usec: 390_000_000,
            memory_peak_bytes: Some(8 * GIB),
            need_peak_bytes: Some(3 * GIB),
            oom_kill: Some(0),
            throttled_usec: Some(2_500_000),
            ..Totals::default()
        },
        resources: Resources {
            memory_request_bytes: Some(16 * GIB),
            memory_limit_bytes: Some(4 * GIB),
            cpu_request_cores: Some(4.0),
            cpu_limit_cores: None,
        },
        phases: vec![phase("hdf5: cmake", 0, 10_000, GIB), phase("hdf5: build", 10_000, 80_000, 3 * GIB)],
        curve: vec![GIB, 2 * GIB, 3 * GIB, GIB],
        attempt: "gitlab.com:7".to_owned(),
        delivery: DeliveryReport { delivered: true, ..DeliveryReport::default() },
        ..BuildFacts::default()
    }
}

/// The facts of [`good`] with a change.
fn with(change: impl FnOnce(&mut BuildFacts)) -> BuildFacts {
    let mut facts = good();
    change(&mut facts);
    facts
}

fn ended(code: i32) -> MeasurementEnd {
    MeasurementEnd::Exited(Exit { code: Some(code), signal: None })
}

fn quantity(value: u64, bound: Option<&SizeBound>) -> Quantity {
    let basis = bound.map(|bound| Basis { bound: bound.to_string(), ..Basis::default() });
    Quantity { value, basis }
}

fn verdict() -> Verdict {
    Verdict {
        action: Action::FewerJobs.into(),
        cause: Cause::Oom.into(),
        confidence: 0.97,
        reason: "killed\u{1b}[2J at 4 GiB".to_owned(),
        attempts_left: 2,
        outlook: Some(Outlook {
            cost_memory_gib_hours: 0.5,
            failure_line: "x.c:3: error\u{1b}[2J ".to_owned() + &"word ".repeat(100),
            ..Outlook::default()
        }),
        ..Verdict::default()
    }
}

fn largest() -> LargestProcess {
    let (program, file) = ("cc1plus".to_owned(), "big.cc".to_owned());
    LargestProcess { program, file, memory_bytes: 2 * GIB, elapsed_ms: 61_000 }
}

fn killed(facts: &mut BuildFacts, origin: OomOrigin) {
    facts.totals.oom_kill = Some(2);
    facts.totals.oom_origin = origin.into();
    facts.end = ended(1);
}

/// A default, what many builds need, and a size after a failure.
fn predictions() -> [Prediction; 3] {
    let default = Prediction {
        memory_request_bytes: Some(quantity(2 * GIB, Some(&SizeBound::Default))),
        memory_limit_bytes: Some(quantity(4 * GIB, Some(&SizeBound::Default))),
        confidence: 0.02,
        ..Prediction::default()
    };
    let known = Prediction {
        memory_request_bytes: Some(quantity(5 * GIB, None)),
        memory_limit_bytes: Some(quantity(6 * GIB, None)),
        cpu_request_millicores: Some(quantity(3500, None)),
        build_jobs: Some(quantity(4, None)),
        attempts: 12,
        confidence: 0.9,
        ..Prediction::default()
    };
    let stopped = SizeBound::Stopped("128 MiB".to_owned());
    let guess = Prediction {
        memory_limit_bytes: Some(quantity(256 << 20, Some(&stopped))),
        attempts: 40,
        confidence: 0.02,
        ..known.clone()
    };
    [default, known, guess]
}

fn pages() -> Vec<(&'static str, BuildFacts)> {
    let predicted = |prediction: Prediction| with(|facts| facts.advice.prediction = Some(prediction));
    let [default, known, guess] = predictions();
    let nothing = BuildFacts { measures_only: true, end: ended(0), ..BuildFacts::default() };
    vec![
        ("a good build says everything on one page", good()),
        (
            "processes were measured, and what they do not show",
            with(|facts| facts.source = Source::ProcessTree),
        ),
        ("a build that docker ran has no size", with(|facts| facts.offloaded_to = "docker".to_owned())),
        ("a part ran in another cgroup", with(|facts| facts.offloaded_to = "another-cgroup".to_owned())),
        (
            "a killed build names the limit and the verdict",
            with(|facts| {
                killed(facts, OomOrigin::LimitAbove);
                facts.totals.starved_ms = Some(61_000);
                facts.advice.verdict = Some(verdict());
            }),
        ),
        ("the server's word counts more than one build", predicted(known)),
        (
            "the largest process is named, and what rescue did",
            with(|facts| {
                facts.largest_process = Some(largest());
                facts.totals.compilers_peak = Some(8);
                facts.rescue = Some(Rescue { pauses: 1, paused_ms: 18_000, ..Rescue::default() });
            }),
        ),
        ("no advice has its reason", with(|facts| facts.advice.problem = Some("no server".to_owned()))),
        ("a default is no advice", predicted(default)),
        ("a size after a failure has no share of a guess", predicted(guess)),
        ("no size is below the least", with(|facts| facts.totals.need_peak_bytes = Some(304 << 10))),
        (
            "a limit that was met is what it needs more than",
            with(|facts| {
                killed(facts, OomOrigin::OwnLimit);
                facts.totals.need_peak_bytes = Some(38 << 20);
                facts.resources.memory_limit_bytes = Some(40 << 20);
            }),
        ),
        (
            "many phases are eight rows and a sum",
            with(|facts| {
                // each name twice: a section that is left and entered again
                let phases = (0..40).map(|n| phase(&format!("phase {:02}", n % 20), n, 1000 + n % 20, GIB));
                facts.phases = phases.collect();
            }),
        ),
        ("what was not measured is not made up", nothing),
    ]
}

fn lines() -> Vec<(&'static str, BuildFacts)> {
    let judged = |verdict| with(|facts| facts.advice.verdict = Some(verdict));
    let unknown = Verdict {
        action: Action::AsIs.into(),
        cause: Cause::Unknown.into(),
        reason: "the cause is not known: its log was not read: the retry policy allows another attempt with the same size".to_owned(),
        ..verdict()
    };
    let long = Verdict { reason: "word ".repeat(100) + "end", outlook: None, ..verdict() };
    let by = |origin, need| {
        with(|facts| {
            killed(facts, origin);
            facts.totals.need_peak_bytes = Some(need);
        })
    };
    vec![
        ("a good build says what it used of what was asked", good()),
        (
            "an exit status that is not known",
            with(|facts| facts.end = MeasurementEnd::Ended("its process ended")),
        ),
        ("a failing line is cut", judged(verdict())),
        ("a reason is never cut", judged(long)),
        ("without a cause the line says first what is not known", judged(unknown)),
        (
            "no verdict has its reason",
            with(|facts| facts.advice.problem = Some("the server is away".to_owned())),
        ),
        ("the limit that was met is blamed", by(OomOrigin::OwnLimit, 4 * GIB - 1)),
        (
            "a killed build names its largest process, and what rescue did",
            with(|facts| {
                killed(facts, OomOrigin::OwnLimit);
                facts.largest_process = Some(largest());
                facts.rescue = Some(Rescue { ended_ms: Some(90_000), ..Rescue::default() });
            }),
        ),
        ("others may share the limit", by(OomOrigin::LimitAbove, GIB)),
        (
            "a signal, and where the samples wait",
            with(|facts| {
                facts.end = MeasurementEnd::Exited(Exit { code: None, signal: Some(9) });
                let problem = Some("connection refused".to_owned());
                facts.delivery = DeliveryReport {
                    problem,
                    kept: Some("/spool/job-7".into()),
                    lost: 2,
                    ..DeliveryReport::default()
                };
            }),
        ),
    ]
}

#[test]
fn a_job_reads_the_same_report_as_ever() {
    let mut all = String::new();
    let page = Settings { style: Style::Text, utf8: true, ..Settings::default() };
    let line = Settings { short_verdict: true, ..Settings::default() };
    for (settings, cases) in [(page, pages()), (line, lines())] {
        for (promise, facts) in cases {
            let _written = writeln!(all, "## {promise}\n{}\n", render(&facts, &settings).unwrap());
        }
    }
    assert!(!all.contains('\u{1b}'), "no name moves the cursor");
    assert_pinned(&all, include_str!("golden/reports.txt"), "agent_job_summary");
}

#[test]
fn the_line_style_shows_no_verdict() {
    let verdict = Some(Verdict { cause: Cause::Oom.into(), ..Verdict::default() });
    let facts = with(|facts| facts.advice.verdict = verdict);
    assert_eq!(render(&facts, &Settings::default()).unwrap().lines().count(), 1);
}

#[test]
fn gitlab_folds_the_page_in_ascii_without_utf8() {
    let settings =
        Settings { style: Style::Text, fold: Some(&plimsoll_base::ci::GITLAB), ..Settings::default() };
    let page = render(&good(), &settings).unwrap();
    assert!(page.is_ascii(), "{page}");
    let (start, rest) =
        page.split_once(":plimsoll[collapsed=true]\r\x1b[0Kplimsoll: hdf5@1.14.6 ended").unwrap();
    assert!(start.starts_with("\x1b[0Ksection_start:") && rest.contains(" needed 3.00 GiB"), "{page}");
    let end = page.lines().last().unwrap();
    let verdict = Some(Verdict { cause: Cause::Oom.into(), ..Verdict::default() });
    let advice = Advice { verdict, ..Advice::default() };
    let failed = render(&BuildFacts { advice, ..good() }, &settings).unwrap();
    let (_folded, verdict) = failed.split_once("section_end:").unwrap();
    assert!(verdict.contains("\n  verdict   "), "{failed}");
    assert!(end.starts_with("\x1b[0Ksection_end:") && end.ends_with(":plimsoll\r\x1b[0K"), "{page}");
    let again = render(&BuildFacts { number: 2, ..good() }, &settings).unwrap();
    assert!(again.contains(":plimsoll_2[collapsed=true]") && again.contains(":plimsoll_2\r"), "{again}");
}

#[test]
fn a_key_without_package_uses_the_command_name() {
    let key = Key { version: "1".to_owned(), ..Key::default() };
    assert_eq!(name(&key, &["/usr/bin/make".into()]), "make");
}

#[test]
fn an_unknown_exit_status_is_no_failure() {
    let facts = with(|facts| facts.end = MeasurementEnd::Ended("its process ended"));
    assert_eq!(facts.summary().outcome(), Outcome::Ended);
}
