//! What people read of an attempt.

use plimsoll_proto::v1::{Cause, Exit, Key, Phase, Resources, Sample, Totals};

use super::*;
use crate::job_summary::{BuildFacts, MeasurementEnd, Settings, Style, render};

pub(in crate::ask) fn summary() -> Summary {
    Summary {
        attempt: "gitlab:7".to_owned(),
        key: Some(Key { package: "zlib".to_owned(), version: "1.3".to_owned(), ..Key::default() }),
        wall_ms: 61_000,
        need_peak_bytes: Some(1 << 30),
        oom_kill: Some(1),
        outcome: Outcome::Failed.into(),
        cause: Cause::Oom.into(),
        exit: Some(Exit { code: Some(2), signal: None }),
        censored: true,
        ..Summary::default()
    }
}

fn show(shown: &GetAttemptResponse) -> String {
    render_attempt(shown, TerminalStyle::default())
}

#[test]
fn an_attempt_is_drawn_and_described() {
    let series = [1, 4, 8].map(|n| Sample { elapsed_ms: n, need_bytes: n, ..Sample::default() }).to_vec();
    let summary = Summary {
        number: 2,
        retries: "gitlab:6".to_owned(),
        pool: "bi\u{1b}g".to_owned(),
        started_unix_ms: 1_763_715_907_000,
        ..summary()
    };
    let text = show(&GetAttemptResponse { summary: Some(summary), series, ..Default::default() });
    for expected in [
        "attempt     gitlab:7, try 2, after gitlab:6\n",
        "what        zlib@1.3\n",
        "where       pool bi\\u{1b}g\n",
        "result      failed, out of memory (exit 2)\n",
        "time        2025-11-21 09:06 UTC, after 1 min 1 s\n",
        "needed more than 1.00 GiB (mean not known); asked for nothing; ",
        "cpu         not known\n",
        "1 process killed for memory",
        "need        ▁▁█  full height: 1.00 GiB\n",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
    assert!(show(&GetAttemptResponse::default()).starts_with("nothing is known"));
}

#[test]
fn an_attempt_says_that_processes_were_measured_and_who_did_the_work() {
    let summary = Summary {
        source: Source::ProcessTree.into(),
        offloaded_to: "docker".to_owned(),
        censored: false,
        ..summary()
    };
    let text = show(&GetAttemptResponse { summary: Some(summary), ..Default::default() });
    assert!(text.contains("needed 1.00 GiB, measured by processes (mean not known)"), "{text}");
    assert!(
        text.contains("            Measured by processes, which do not show files in /dev/shm"),
        "{text}"
    );
    assert!(
        text.contains("            docker ran the work outside what was measured: nothing is learnt"),
        "{text}"
    );
}

#[test]
fn a_running_attempt_says_since_when() {
    let summary =
        Summary { outcome: Outcome::Running.into(), started_unix_ms: 1_763_715_907_000, ..summary() };
    let text = show(&GetAttemptResponse { summary: Some(summary), ..Default::default() });
    assert!(text.contains("time        since 2025-11-21 09:05 UTC, measured for 1 min 1 s\n"), "{text}");
}

#[test]
fn phases_are_rows_and_the_peak_is_marked_once() {
    let phase = |name: &str, wall_ms, need_peak_bytes| Phase {
        name: name.to_owned(),
        wall_ms,
        need_peak_bytes,
        cpu_usec: 2_000_000,
        ..Phase::default()
    };
    let build = phase("bu\u{1b}ild", 50_000, 1 << 30);
    let phases = vec![phase("configure", 11_000, 3 << 20), build.clone(), build];
    let peak_phase = "bu\u{1b}ild".to_owned();
    let text = show(&GetAttemptResponse {
        summary: Some(Summary { phases, peak_phase, ..summary() }),
        ..Default::default()
    });
    assert!(text.contains("\nphases           3 MiB        11.0 s         2.0 s cpu  configure\n"), "{text}");
    assert!(text.contains("\n              1.00 GiB        50.0 s         2.0 s cpu  bu"), "{text}");
    assert_eq!((text.matches("<- peak").count(), text.contains('\u{1b}')), (1, false), "{text}");
}

#[test]
fn what_held_it_back_and_which_limit_killed_is_shown_only_if_known() {
    let show = |summary| show(&GetAttemptResponse { summary: Some(summary), ..Default::default() });
    let plain = show(summary());
    assert!(!plain.contains("held back") && !plain.contains("phases"), "{plain}");
    assert!(plain.contains("1 process killed for memory\n"), "{plain}");
    let zeros = Summary { starved_ms: Some(0), throttled_usec: Some(0), ..summary() };
    assert!(!show(zeros).contains("held back"));
    let held = Summary {
        starved_ms: Some(12_000),
        memory_stall_usec: Some(4_200_000),
        throttled_usec: Some(500_000),
        oom_origin: plimsoll_proto::v1::OomOrigin::Host.into(),
        ..summary()
    };
    let text = show(held);
    let line = "held back   starved for 12.0 s, stalled for memory for 4.2 s, throttled for 0.5 s over all processors\n";
    assert!(text.contains(line), "{text}");
    assert!(
        text.contains("1 process killed for memory because the whole machine had no memory left\n"),
        "{text}"
    );
}

proptest::proptest! {
    #[test]
    fn the_report_at_the_end_is_what_is_shown_later(
        wall_ms in 0..200_000_u64,
        cpu_usec in proptest::prop_oneof![0..2000_u64, 0..100_000_000_u64],
        need in proptest::option::of(1..(1_u64 << 30)),
        ask in proptest::option::of(proptest::prop_oneof![0..2_u64, 1..2 * (1_u64 << 30)]),
        kills in 0..2_u64,
    ) {
        let facts = BuildFacts {
            wall: std::time::Duration::from_millis(wall_ms),
            end: MeasurementEnd::Exited(Exit { code: Some(1), signal: None }),
            totals: Totals { cpu_usec, need_peak_bytes: need, oom_kill: Some(kills), ..Totals::default() },
            resources: Resources { memory_request_bytes: ask, ..Resources::default() },
            ..BuildFacts::default()
        };
        let summary = facts.summary();
        let of = |style| render(&facts, &Settings { style, ..Settings::default() }).unwrap();
        let shown = GetAttemptResponse { summary: Some(summary.clone()), ..GetAttemptResponse::default() };
        let shown = render_attempt(&shown, TerminalStyle::default());
        for text in [of(Style::Text), of(Style::Line), shown] {
            let mut parts = vec![figures::millis(wall_ms), measured::cpu_time_words(&summary)];
            if need.is_some() {
                parts.push(format!("needed {}", measured::need_words(&summary)));
                parts.extend(measured::need_of_ask_words(&summary));
            }
            for part in parts {
                assert!(text.contains(&part), "{part:?} in {text}");
            }
        }
    }
}
