//! The page at the end of a build, in both looks.

use std::time::Duration;

use plimsoll_client::delivery::DeliveryReport;
use plimsoll_proto::v1::{
    Action, Basis, Cause, Exit, OomOrigin, Outlook, Quantity, Resources, Source, Totals, Verdict,
};

use super::*;
use crate::job_summary::{Advice, MeasurementEnd, Settings, Style, render};

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

#[test]
fn a_good_build_says_everything_on_one_page() {
    let page = render(&good(), &Settings { style: Style::Text, utf8: true, ..Settings::default() }).unwrap();
    let expected = "\
plimsoll: hdf5@1.14.6 ended with exit code 0 after 1 min 40 s; needed 3.00 GiB, asked for 16.00 GiB (19 % of it needed), 8.00 GiB with page cache
  memory    needed 3.00 GiB, asked for 16.00 GiB, limit 4.00 GiB (19 % of it needed); 8.00 GiB with page cache
            ▂▄▆▂  full height is the limit, 4.00 GiB
            most in hdf5: build (3.00 GiB)
  cpu       6 min 30 s in 1 min 40 s, 3.9 cores on average, asked 4; held back by the limit for 2.5 s
  phases                                            time most needed         cpu
            hdf5: build                       1 min 20 s    3.00 GiB  2 min 40 s
            hdf5: cmake                           10.0 s    1.00 GiB      20.0 s
  samples   delivered as gitlab.com:7
  next run  memory request 3.75 GiB (this build's need and 25 %, without history)";
    assert_eq!(page, expected);
}

#[test]
fn a_build_measured_by_processes_says_so_and_what_is_not_seen() {
    let facts = BuildFacts { source: Source::ProcessTree, ..good() };
    let page = render(&facts, &Settings { style: Style::Text, ..Settings::default() }).unwrap();
    assert!(page.contains("; needed 3.00 GiB, measured by processes, asked for"), "{page}");
    assert!(page.contains("  memory    needed 3.00 GiB, measured by processes, asked for"), "{page}");
    assert!(page.contains("which do not show files in /dev/shm and other tmpfs"), "{page}");
    let line = render(&facts, &Settings::default()).unwrap();
    assert!(line.contains("needed 3.00 GiB, measured by processes"), "{line}");
}

#[test]
fn a_build_that_docker_ran_says_so_and_proposes_no_size() {
    let facts = BuildFacts { offloaded_to: "docker".to_owned(), ..good() };
    let page = render(&facts, &Settings { style: Style::Text, ..Settings::default() }).unwrap();
    assert!(page.contains(", but docker ran the work outside what was measured"), "{page}");
    assert!(
        page.contains("            docker ran the work outside what was measured: nothing is learnt"),
        "{page}"
    );
    assert!(!page.contains("next run"), "{page}");
}

#[test]
fn a_build_with_a_part_in_another_cgroup_says_what_was_not_measured() {
    let facts = BuildFacts { offloaded_to: "another-cgroup".to_owned(), ..good() };
    let page = render(&facts, &Settings { style: Style::Text, ..Settings::default() }).unwrap();
    let sentence = "a part of the build ran in another cgroup, which was not measured";
    assert!(page.contains(&format!(", but {sentence}")), "{page}");
    assert!(page.contains(&format!("{sentence}: nothing is learnt")), "{page}");
}

#[test]
fn a_killed_build_names_the_limit_and_the_verdict() {
    let mut facts = good();
    facts.totals.oom_kill = Some(2);
    facts.totals.oom_origin = OomOrigin::LimitAbove.into();
    facts.totals.starved_ms = Some(61_000);
    facts.advice.verdict = Some(Verdict {
        action: Action::FewerJobs.into(),
        cause: Cause::Oom.into(),
        confidence: 0.97,
        reason: "killed\x1b[2J at 4 GiB".to_owned(),
        attempts_left: 2,
        outlook: Some(Outlook { cost_memory_gib_hours: 0.5, ..Outlook::default() }),
        ..Verdict::default()
    });
    let page = report_body(&facts, true);
    assert!(page.contains("  starved   1 min 1 s at its memory limit"), "{page}");
    let killed =
        "  killed    2 processes by the kernel, at a limit above the build's own, which others may share";
    assert!(page.contains(killed), "{page}");
    assert!(
        page.contains(
            "  verdict   Retry with fewer build jobs: out of memory (97 % sure, 2 attempts left)\n            \
             killed\\u{1b}[2J at 4 GiB\n"
        ),
        "{page}"
    );
    assert!(page.contains("            cost: 0.5 GiB·h of memory, 0 core·h\n"), "{page}");
    assert!(page.contains("more memory than 3.00 GiB: it was held back there"), "{page}");
    facts.end = MeasurementEnd::Exited(Exit { code: Some(1), signal: None });
    let settings = Settings { style: Style::Text, utf8: true, ..Settings::default() };
    let page = render(&facts, &settings).unwrap();
    assert_eq!(page.matches("needed more than 4.00 GiB").count(), 2, "first line and table: {page}");
}

#[test]
fn the_servers_word_counts_more_than_one_build() {
    let mut facts = good();
    let quantity = |value| Some(Quantity { value, basis: None });
    facts.advice.prediction = Some(Prediction {
        memory_request_bytes: quantity(5 * GIB),
        memory_limit_bytes: quantity(6 * GIB),
        cpu_request_millicores: quantity(3500),
        build_jobs: quantity(4),
        attempts: 12,
        confidence: 0.9,
        ..Prediction::default()
    });
    let page = report_body(&facts, true);
    let next = "  next run  memory request 5.00 GiB, memory limit 6.00 GiB, cpu request 3.5 cores, build jobs 4 (from 12 attempts; the sizes are 90 % sure)\n";
    assert!(page.contains(next) && !page.contains("without history"), "{page}");
    facts.advice = Advice { problem: Some("no server".to_owned()), ..Advice::default() };
    let page = report_body(&facts, true);
    assert!(page.contains("no advice from the server: no server\n"), "{page}");
    assert!(page.contains("without history"), "{page}");
}

#[test]
fn a_default_is_no_advice_and_says_that_nothing_is_known() {
    let basis = Some(Basis { bound: SizeBound::Default.to_string(), ..Basis::default() });
    let default = |value| Some(Quantity { value, basis: basis.clone() });
    let mut facts = good();
    facts.advice.prediction = Some(Prediction {
        memory_request_bytes: default(2 * GIB),
        memory_limit_bytes: default(4 * GIB),
        confidence: 0.02,
        ..Prediction::default()
    });
    let expected = "  next run  nothing is known about it yet: the default is memory request 2.00 GiB, memory limit 4.00 GiB; this attempt asked \
                    for 16.00 GiB, limit 4.00 GiB\n";
    for code in [0, 1] {
        facts.end = MeasurementEnd::Exited(Exit { code: Some(code), signal: None });
        let page = report_body(&facts, true);
        assert!(page.contains(expected) && page.matches("next run").count() == 1, "{page}");
        assert!(!page.contains("2 % sure") && !page.contains("without history"), "{page}");
    }
}

#[test]
fn a_verdicts_size_after_a_failure_has_reasons_and_no_share_of_a_guess() {
    let mut facts = good();
    let stopped = Basis { bound: SizeBound::Stopped("128 MiB".to_owned()).to_string(), ..Basis::default() };
    let size = Some(Quantity { value: 256 << 20, basis: Some(stopped) });
    facts.advice.prediction = Some(Prediction {
        memory_limit_bytes: size,
        attempts: 40,
        confidence: 0.02,
        ..Prediction::default()
    });
    let page = report_body(&facts, true);
    assert!(page.contains("  next run  memory limit 256 MiB\n") && !page.contains(" sure"), "{page}");
}

#[test]
fn without_a_server_one_size_is_named_and_none_is_below_the_least() {
    let mut facts = good();
    facts.totals.need_peak_bytes = Some(304 << 10);
    let page = report_body(&facts, true);
    assert!(page.contains("next run  memory request 64 MiB (the least size; without history)\n"), "{page}");
    // 38 MiB were seen, and 40 MiB were the limit: that is what it needs more than
    facts.totals = Totals { need_peak_bytes: Some(38 << 20), oom_kill: Some(1), ..facts.totals };
    facts.resources.memory_limit_bytes = Some(40 << 20);
    facts.end = MeasurementEnd::Exited(Exit { code: Some(137), signal: None });
    let page = report_body(&facts, true);
    assert!(page.contains("next run  more memory than 40 MiB: it was held back there\n"), "{page}");
    assert!(!page.contains("38 MiB"), "{page}");
}

#[test]
fn every_reason_is_the_sentence_that_the_terminal_and_the_page_say() {
    for (kind, quantity) in reasons::examples() {
        let mut facts = good();
        facts.advice.prediction = Some(reasons::prediction_of(kind, &quantity));
        let page = report_body(&facts, true);
        let sentence = format!("            {}: {}\n", kind.as_str(), reasons::sentence(kind, &quantity));
        let is_shown = !matches!(kind, SizeKind::CpuLimit | SizeKind::MedianTime | SizeKind::LongTime);
        assert_eq!(page.contains(&sentence), is_shown, "{sentence:?} in {page}");
    }
}

#[test]
fn many_phases_are_eight_rows_and_a_sum() {
    let mut facts = good();
    // each name twice: a section that is left and entered again
    facts.phases = (0..40).map(|n| phase(&format!("phase {:02}", n % 20), n, 1000 + n % 20, GIB)).collect();
    let page = report_body(&facts, true);
    let rows: Vec<&str> = page.lines().filter(|line| line.contains("phase ")).collect();
    assert_eq!(rows.len(), 8 + 1, "{page}");
    assert!(rows[1].contains("phase 19") && rows[1].contains("2.0 s"), "{page}");
    let rest: u64 = (0..12).map(|n| 2 * (1000 + n)).sum();
    assert!(page.contains(&format!("(12 more){:>35}", figures::millis(rest))), "{page}");
}

#[test]
fn in_gitlab_the_page_is_folded_and_without_utf8_it_is_ascii() {
    let settings = Settings { style: Style::Text, fold: true, ..Settings::default() };
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
fn what_was_not_measured_is_not_made_up() {
    let page = report_body(&BuildFacts { measures_only: true, ..BuildFacts::default() }, true);
    let expected = "  memory    not measured\n  cpu       not known in 0 s\n  samples   kept nowhere: no server is set\n";
    assert_eq!(page, expected);
}
