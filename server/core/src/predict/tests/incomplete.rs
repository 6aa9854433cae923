//! Attempts with a need that is a lower bound of the peak: they propose a request, and lower no limit.

use plimsoll_proto::{measured::IncompleteNeed, reasons::SizeBound};

use super::*;
use crate::domain::{AttemptId, MeasurementSource, Rescue};

fn scraped(summary: Summary) -> Summary {
    let attempt = AttemptId::parse(&format!("s{}", summary.attempt)).unwrap();
    let (samples, cpu_peak) = (0, Cores(0.0));
    Summary { source: MeasurementSource::Prometheus, attempt, samples, cpu_peak, ..summary }
}

fn by_processes(summary: Summary) -> Summary {
    let attempt = AttemptId::parse(&format!("p{}", summary.attempt)).unwrap();
    Summary { source: MeasurementSource::ProcessTree, attempt, ..summary }
}

fn paused(summary: Summary) -> Summary {
    let attempt = AttemptId::parse(&format!("r{}", summary.attempt)).unwrap();
    let rescue = Rescue { pauses: 3, paused: Millis(20_000), ..Rescue::default() };
    Summary { rescue: Some(rescue), attempt, ..summary }
}

type AsRead = fn(Summary) -> Summary;

/// Each source of incomplete needs, with an attempt as it gives it.
const SOURCES: [(IncompleteNeed, AsRead); 3] = [
    (IncompleteNeed::Prometheus, scraped),
    (IncompleteNeed::Processes, by_processes),
    (IncompleteNeed::Paused, paused),
];

#[test]
fn incomplete_needs_give_a_request_but_no_limit() {
    let nothing = ask(&history([]), &key("zlib", "1"));
    for (source, read) in SOURCES {
        let known = history((0..20).map(|n| read(built(n, "1", 300, 2))));
        let prediction = ask(&known, &key("zlib", "1"));
        let (request, limit) = (&prediction.memory_request, &prediction.memory_limit);
        assert!(prediction.is_known(request, 0.3) && request.value < 500 * MIB, "{prediction:?}");
        let kept = (nothing.memory_limit.value, &SizeBound::incomplete(source));
        assert_eq!((limit.value, &limit.basis.bound), kept);
        assert!(!prediction.is_known(limit, 0.0), "no pod gets it in the place of its own");
        let why = format!("; {} do not lower its limit", source.name());
        assert!(prediction.reason.ends_with(&why), "{}", prediction.reason);
    }
    let exact = ask(&history((0..20).map(|n| built(n, "1", 300, 2))), &key("zlib", "1"));
    assert!(exact.memory_limit.value < nothing.memory_limit.value / 2, "what a cgroup measured is a limit");
}

#[test]
fn attempts_measured_by_processes_are_counted() {
    let all = ask(&history((0..20).map(|n| by_processes(built(n, "1", 300, 2)))), &key("zlib", "1"));
    assert_eq!(all.memory_request.basis.by_processes, 20);
    assert!(all.reason.contains("needed 300 MiB, measured by processes"), "{}", all.reason);
    assert!(all.confidence <= crate::predict::incomplete::HIGHEST_CONFIDENCE, "{}", all.confidence);
    assert_eq!(all.unsure_because, "needs measured by processes may be too low");
    let of_cgroups = (0..3).map(|n| built(n, "1", 100, 2));
    let some = ask(
        &history(of_cgroups.chain((0..2).map(|n| by_processes(built(n, "1", 300, 2))))),
        &key("zlib", "1"),
    );
    assert_eq!(some.memory_request.basis.by_processes, 2, "{some:?}");
    assert!(some.reason.contains(", 2 of them measured by processes"), "{}", some.reason);
    let none = ask(&history((0..3).map(|n| built(n, "1", 100, 2))), &key("zlib", "1"));
    assert_eq!(none.memory_request.basis.by_processes, 0);
    assert!(!none.reason.contains("processes"), "{}", none.reason);
}

#[test]
fn offloaded_usage_is_not_learnt() {
    let own = || (0..3).map(|n| built(n, "1", 300, 2));
    let elsewhere = (10..40).map(|n| Summary { offloaded_to: "docker".into(), ..built(n, "1", 1, 2) });
    let [without, with] = [history(own()), history(own().chain(elsewhere))];
    let sizes = |known: &History| {
        let found = ask(known, &key("zlib", "1"));
        [found.memory_request, found.memory_limit, found.cpu_request, found.cpu_limit, found.wall_p95]
    };
    assert_eq!(sizes(&without), sizes(&with));
    assert_eq!(with.len(), 33, "the attempts stay");
    let killed = (0..3).map(|n| Summary { offloaded_to: "docker".into(), ..stopped(n, "1", 300) });
    assert!(ask(&history(killed), &key("zlib", "1")).lower_bound.is_some(), "a kill here was measured here");
}

#[test]
fn the_reason_names_only_sources_in_use() {
    let others =
        (0..20).map(|n| by_processes(Summary { key: key("other", "1"), ..built(100 + n, "1", 9_000, 2) }));
    let known = history((0..3).map(|n| built(n, "1", 300, 2)).chain(others));
    let prediction = ask(&known, &key("zlib", "1"));
    let says = format!("{} {:?}", prediction.reason, prediction.memory_limit.basis.bound);
    assert!(!says.contains("Prometheus") && !says.contains("rocesses"), "{says}");
}

#[test]
fn incomplete_needs_raise_limits_but_not_confidence() {
    for (_, read) in SOURCES {
        let seen = || (0..20).map(|n| read(built(n, "1", 20_000, 2)));
        let alone = ask(&history(seen()), &key("zlib", "1"));
        assert!(alone.memory_limit.value > 20_000 * MIB, "{alone:?}");
        assert!(!alone.is_known(&alone.memory_limit, 0.0));
        let measured = || (0..3).map(|n| built(n, "1", 300, 2));
        let before = ask(&history(measured()), &key("zlib", "1"));
        let both = ask(&history(measured().chain(seen())), &key("zlib", "1"));
        assert!(both.memory_limit.value > before.memory_limit.value);
        assert!(both.confidence_in(&both.memory_limit) <= before.confidence);
    }
}

#[test]
fn a_reported_kill_outweighs_a_low_scraped_peak() {
    let killed = |n| {
        let mut killed = scraped(stopped(n, "1", 900));
        killed.resources.memory_limit = Some(Bytes(4096 * MIB));
        Summary { started_unix_ms: killed.started_unix_ms + 3_600_000, ..killed }
    };
    let alone = ask(&history((0..8).map(killed)), &key("zlib", "1"));
    let beside = ask(
        &history((20..40).map(|n| scraped(built(n, "1", 300, 2))).chain((0..8).map(killed))),
        &key("zlib", "1"),
    );
    for prediction in [alone, beside] {
        for size in [&prediction.memory_request, &prediction.memory_limit] {
            assert!((6144 * MIB..8192 * MIB).contains(&size.value), "{size:?}");
            assert!(!size.basis.bound.is_incomplete(), "{size:?}");
        }
        assert_eq!(prediction.lower_bound.unwrap().least, Bytes(prediction.memory_request.value));
    }
}

#[test]
fn incomplete_needs_do_not_lower_measured_sizes() {
    for (source, read) in SOURCES {
        let measured = || (0..3).map(|n| built(n, "1", 8_000, 2));
        let low = (0..100).map(|n| read(built(n, "1", 60, 2)));
        let before = ask(&history(measured()), &key("zlib", "1"));
        let after = ask(&history(measured().chain(low)), &key("zlib", "1"));
        for (before, after) in
            [(&before.memory_request, &after.memory_request), (&before.memory_limit, &after.memory_limit)]
        {
            assert!(after.value >= before.value, "{before:?} became {after:?}");
        }
        assert!(after.confidence <= before.confidence, "{} became {}", before.confidence, after.confidence);
        let why = format!("; {} do not lower its request", source.name());
        assert!(after.reason.contains(&why), "{}", after.reason);
    }
}

#[test]
fn kills_that_agents_measured_are_not_lowered_either() {
    for (_, read) in SOURCES {
        let killed = || (0..3).map(|n| stopped(n, "1", 4_000));
        let low = (0..24).map(|n| read(built(n, "1", 60, 2)));
        let before = ask(&history(killed()), &key("zlib", "1")).memory_request.value;
        let after = ask(&history(killed().chain(low)), &key("zlib", "1")).memory_request.value;
        assert!(after >= before, "{before} became {after}");
    }
}

/// The confidence is so low that the limit would be the default, had no build been stopped.
#[test]
fn incomplete_needs_do_not_lower_uncertain_limits() {
    let measured = || {
        let killed = Summary { wall: Millis(6_559 * 60_000), ..stopped(0, "1", 13_778) };
        [killed, built(1, "0", 1, 0), built(2, "1", 1, 0), built(3, "0", 14, 0)]
    };
    for (_, read) in SOURCES {
        let before = ask(&history(measured()), &key("zlib", "1")).memory_limit;
        let after =
            ask(&history(measured().into_iter().chain([read(built(9, "1", 1, 0))])), &key("zlib", "1"));
        assert!(after.memory_limit.value >= before.value, "{before:?} became {:?}", after.memory_limit);
    }
}

#[test]
fn builds_scraped_once_set_no_size() {
    let read = |wall: u64| {
        let seen = (0..20).map(|n| Summary { wall: Millis(wall), ..scraped(built(n, "1", 300, 2)) });
        ask(&history(seen), &key("zlib", "1"))
    };
    assert!(read(0).memory_request.basis.is_default(), "{:?}", read(0));
    let several = read(60_000);
    assert!(
        several.confidence <= crate::predict::incomplete::HIGHEST_CONFIDENCE
            && !several.memory_request.basis.is_default(),
        "{several:?}"
    );
}

#[test]
fn stock_spack_gets_no_limit_from_incomplete_needs() {
    use crate::gantry::{self, ExtraVariable};
    let settings =
        gantry::Settings { extras: vec![ExtraVariable::MemoryLimit], ..gantry::Settings::default() };
    let sent = |known: &History| {
        let answer = gantry::allocation_answer(&ask(known, &key("zlib", "1")), "", &settings);
        serde_json::to_string(&answer).unwrap().contains("KUBERNETES_MEMORY_LIMIT")
    };
    assert!(sent(&history((0..20).map(|n| built(n, "1", 300, 2)))));
    for ((_, read), need) in SOURCES.into_iter().flat_map(|source| [(source, 300), (source, 20_000)]) {
        assert!(!sent(&history((0..20).map(|n| read(built(n, "1", need, 2))))), "{need}");
    }
}

proptest! {
    #[test]
    fn incomplete_needs_never_lower_limits_or_raise_confidence(
        measured in prop::collection::vec((0..3_u8, 1..20_000_u64, 0..5_u32, 1..9_000_u64, prop::bool::weighted(0.2)), 0..20),
        seen in prop::collection::vec((0..3_u8, 1..20_000_u64, 0..5_u32, 1..9_000_u64, prop::bool::weighted(0.2)), 0..30),
        preset in any::<bool>(),
        source in 0..3_usize,
    ) {
        let (_, read) = SOURCES[source];
        let summary = |n: usize, (version, need, jobs, minutes, is_stopped): &(u8, u64, u32, u64, bool)| {
            let version = version.to_string();
            let of = if *is_stopped { stopped(n, &version, *need) } else { built(n, &version, *need, *jobs) };
            Summary { wall: Millis(minutes * 60_000), ..of }
        };
        let all = |of: &[(u8, u64, u32, u64, bool)]| of.iter().enumerate().map(|(n, one)| summary(n, one)).collect::<Vec<_>>();
        let before = history(all(&measured));
        let after = history(all(&seen).into_iter().map(read).chain(all(&measured)));
        let settings = Settings { preset, ..Settings::default() };
        for asked in [key("zlib", "1"), key("zlib", "7"), key("unknown", "1")] {
            // build jobs may be other ones, and the limit is for them
            let asked = Key { hints: Hints { build_jobs: Some(2), ..asked.hints }, ..asked };
            let (before, after) = (predict(&before, &asked, &settings), predict(&after, &asked, &settings));
            for (before, after) in [(&before.memory_limit, &after.memory_limit), (&before.cpu_limit, &after.cpu_limit)] {
                // a default gives way to what a kill proves
                prop_assert!(after.value >= before.value || before.basis.is_default(), "{:?} became {:?}", before, after);
            }
            prop_assert!(
                after.confidence_in(&after.memory_limit) <= before.confidence_in(&before.memory_limit) + 1e-9,
                "{:?} became {:?}", before, after
            );
        }
    }
}
