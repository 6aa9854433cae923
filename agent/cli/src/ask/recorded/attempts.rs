//! One attempt, two side by side, and lists of them.

use plimsoll_proto::v1::{
    Action, Cause, Exit, Filter, GetAttemptResponse, Key, LargestProcess, ListAttemptsRequest,
    ListAttemptsResponse, OomOrigin, Outcome, Phase, Predicted, Rescue, Resources, Sample, Source, Summary,
    Verdict,
};

use super::{Answers, COLOURED, MIDDLING, NARROW, NOON, PLAIN};
use crate::ask::{
    comparison,
    text::{render_attempt, render_attempts},
};

/// An attempt that memory stopped.
fn stopped() -> Summary {
    Summary {
        attempt: "gitlab:7".into(),
        key: Some(Key { package: "zlib".into(), version: "1.3".into(), ..Key::default() }),
        started_unix_ms: NOON,
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

/// An attempt that fitted.
fn fitted() -> Summary {
    let resources = Resources { memory_request_bytes: Some(2 << 30), ..Resources::default() };
    Summary {
        resources: Some(resources),
        outcome: Outcome::Succeeded.into(),
        cause: 0,
        censored: false,
        exit: None,
        oom_kill: None,
        ..stopped()
    }
}

/// A build for which rescue did all that it can.
fn rescued() -> Summary {
    let process = LargestProcess {
        program: "cc1plus".into(),
        file: "bi\u{1b}[2Jg.cc".into(),
        memory_bytes: 3 << 28,
        elapsed_ms: 50_000,
    };
    let rescue = Rescue {
        would_pause_ms: Some(12_000),
        would_pause_processes: 1,
        pauses: 4,
        paused_ms: 18_000,
        paused_process_ms: 40_000,
        together_peak_bytes: 3 << 30,
        gave_up: "no process\u{9b} runs".into(),
        raises: 3,
        ended_ms: Some(60_000),
        raised_byte_seconds: 9 << 30,
    };
    Summary { largest_process: Some(process), compilers_peak: Some(8), rescue: Some(rescue), ..stopped() }
}

fn by_processes() -> Summary {
    Summary { source: Source::ProcessTree.into(), offloaded_to: "docker".into(), ..fitted() }
}

fn shown(summary: Summary) -> GetAttemptResponse {
    GetAttemptResponse { summary: Some(summary), ..GetAttemptResponse::default() }
}

pub(super) fn answers() -> Answers {
    [described(), listed()].concat()
}

/// An attempt beside what was predicted at its start.
fn forecast(predicted: Predicted, summary: Summary) -> String {
    show(Summary { predicted: Some(predicted), cpu_usec: Some(91_500_000), ..summary })
}

fn show(summary: Summary) -> String {
    render_attempt(&shown(summary), PLAIN)
}

fn described() -> Answers {
    let sample = |n: u64, kills| Sample {
        elapsed_ms: n * 1000,
        need_bytes: n << 28,
        cpu_usec: n.min(3) * 900_000,
        starved_ms: Some(n / 2),
        oom_kill: Some(kills),
        ..Sample::default()
    };
    let series = vec![sample(1, 0), sample(2, 0), sample(4, 1)];
    let limit = Some(Resources { memory_limit_bytes: Some(1 << 30), ..Resources::default() });
    let second = Summary { number: 2, retries: "gitlab:6".into(), pool: "bi\u{1b}[2Jg".into(), ..stopped() };
    let drawn = GetAttemptResponse { series, ..shown(Summary { resources: limit, ..second }) };
    let phase = |name: &str, wall_ms, need_peak_bytes| Phase {
        name: name.into(),
        wall_ms,
        need_peak_bytes,
        cpu_usec: 2_000_000,
        ..Phase::default()
    };
    let build = phase("bu\u{1b}[2Jild", 50_000, 1 << 30);
    let phases = vec![phase("configure", 11_000, 3 << 20), build.clone(), build.clone()];
    let named = Summary { phases, peak_phase: build.name, ..stopped() };
    let held = Summary {
        starved_ms: Some(12_000),
        memory_stall_usec: Some(4_200_000),
        throttled_usec: Some(500_000),
        oom_origin: OomOrigin::Host.into(),
        ..stopped()
    };
    let zeros =
        Summary { starved_ms: Some(0), memory_stall_usec: Some(0), throttled_usec: Some(0), ..stopped() };
    let predicted = Predicted {
        memory_request_bytes: 1 << 29,
        memory_limit_bytes: 1 << 30,
        cpu_request_cores: 2.0,
        wall_p95_ms: 60_000,
        wall_p50_ms: 30_000,
        is_default: false,
    };
    vec![
        ("an attempt is drawn against its limit, with what happened", render_attempt(&drawn, PLAIN)),
        ("where the need reaches the limit it is red", render_attempt(&drawn, COLOURED)),
        ("processes that were measured, and who did the work", show(by_processes())),
        (
            "a running attempt says since when",
            show(Summary { outcome: Outcome::Running.into(), ..stopped() }),
        ),
        ("phases of one name are one row, and names are cut", render_attempt(&shown(named), MIDDLING)),
        ("what held it back, and which limit killed, is shown", show(held)),
        ("what did not hold it back is not shown", show(zeros)),
        ("its largest process is named", show(Summary { rescue: None, ..rescued() })),
        ("all that rescue did is named", show(rescued())),
        ("a prediction is held against what came", forecast(predicted, fitted())),
        ("the time was held", forecast(Predicted { wall_p95_ms: 90_000, ..predicted }, fitted())),
        ("a limit that was too small, and no word of the time", forecast(predicted, stopped())),
        ("the default is no prediction", forecast(Predicted { is_default: true, ..predicted }, fitted())),
        ("nothing is invented about an attempt", render_attempt(&GetAttemptResponse::default(), PLAIN)),
    ]
}

fn listed() -> Answers {
    let listed = vec![
        Summary {
            failure_line: "x.c:3: error: \u{9b}no ".to_owned() + &"word ".repeat(20),
            pool: "big".into(),
            ..stopped()
        },
        Summary { cause: Cause::Canceled.into(), ..stopped() },
        by_processes(),
    ];
    let page = ListAttemptsResponse { attempts: listed, next_page_token: "a\u{9b}1".into() };
    let list = |page: &ListAttemptsResponse, filter, look| {
        render_attempts(&ListAttemptsRequest { filter, ..Default::default() }, page, look)
    };
    let labels = [("team", "a\u{9b}b"), ("job", "x")].map(|(name, value)| (name.into(), value.into())).into();
    let cause = Cause::Oom.into();
    let since =
        Filter { package: "zlib".into(), cause, from_unix_ms: Some(NOON), labels, ..Filter::default() };
    vec![
        ("a list has failing lines, marks, and the times again", list(&page, Some(since.clone()), PLAIN)),
        ("a narrow terminal keeps the id whole", list(&page, None, NARROW)),
        ("what differs is marked, what one alone has is in its place", comparison()),
        ("an empty list says so", list(&ListAttemptsResponse::default(), None, PLAIN)),
        (
            "a filter that matches nothing is repeated",
            list(&ListAttemptsResponse::default(), Some(since), PLAIN),
        ),
    ]
}

fn comparison() -> String {
    let phase = |name: &str| Phase { name: name.into(), wall_ms: 1000, ..Phase::default() };
    let of = |phases: &[&str], summary| {
        shown(Summary { phases: phases.iter().map(|name| phase(name)).collect(), ..summary })
    };
    let mut second = of(&["configure", "build", "build"], stopped());
    let key = second.summary.as_mut().and_then(|summary| summary.key.as_mut());
    if let Some(key) = key {
        key.labels = [
            ("cuda".to_owned(), "\u{5305}\u{88c5} ".repeat(30)),
            ("a label with a name that is longer than its column".to_owned(), "x".repeat(200)),
        ]
        .into();
    }
    second.verdict =
        Some(Verdict { action: Action::Bigger.into(), cause: Cause::Oom.into(), ..Verdict::default() });
    let rows = comparison::rows(&of(&["configure", "install"], fitted()), &second);
    comparison::render_comparison(["a", "b\u{9b}"], &rows, PLAIN)
}
