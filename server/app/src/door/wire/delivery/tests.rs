//! Messages of agents, right and wrong.

use plimsoll_proto::counters::PageCounters;

use super::*;

#[test]
fn unusable_counters_are_skipped_and_the_row_kept() {
    let row = pb::Sample { elapsed_ms: 1, need_bytes: 5, ..pb::Sample::default() };
    let cases = [
        (pb::Sample { need_max_bytes: Some(4), ..row }, "need_max_bytes"),
        (pb::Sample { need_max_bytes: Some(u64::MAX), ..row }, "need_max_bytes"),
        (pb::Sample { memory_stall_usec: Some(u64::MAX), ..row }, "memory_stall_usec"),
        (pb::Sample { throttled_usec: Some(u64::MAX), ..row }, "throttled_usec"),
        (pb::Sample { starved_ms: Some(u64::MAX), ..row }, "starved_ms"),
    ];
    for (wire, field) in cases {
        let mut skipped = SkippedFacts::default();
        // of many rows the first is named
        let batch = pb::Batch { attempt: "a".into(), first_sequence: 1, lost: 0, samples: vec![wire; 9] };
        let kept = batch_of(&batch, &mut skipped);
        assert_eq!(skipped.fields(), [format!("batch.samples.{field}")]);
        let plain = sample(&row, &mut SkippedFacts::default().part("row")).unwrap();
        assert!(kept.len() == 9 && kept.iter().all(|sample| *sample == plain), "{field}: {kept:?}");
    }
    let full = pb::Sample {
        need_max_bytes: Some(5),
        memory_stall_usec: Some(1),
        throttled_usec: Some(3),
        starved_ms: Some(4),
        ..row
    }
    .with_pages(PageCounters::all(Some(2)));
    assert_eq!(
        crate::door::wire::attempts::sample(
            &sample(&full, &mut SkippedFacts::default().part("row")).unwrap()
        ),
        full,
        "nothing of it is lost"
    );
}

fn batch_of(wire: &pb::Batch, skipped: &mut SkippedFacts) -> Vec<Sample> {
    batch(wire, skipped).unwrap().samples.into_iter().flatten().collect()
}

#[test]
fn an_unusable_sample_is_skipped_alone() {
    let row = pb::Sample { elapsed_ms: 1, ..pb::Sample::default() };
    for (bad, field) in [
        (pb::Sample { elapsed_ms: u64::MAX, ..row }, "elapsed_ms"),
        (pb::Sample { memory_bytes: u64::MAX, ..row }, "memory_bytes"),
        (pb::Sample { need_bytes: 1 << 63, ..row }, "need_bytes"),
        (pb::Sample { cpu_usec: u64::MAX, ..row }, "cpu_usec"),
    ] {
        let mut skipped = SkippedFacts::default();
        let samples = vec![row, bad, pb::Sample { elapsed_ms: 3, ..row }];
        let wire = pb::Batch { attempt: "a".into(), first_sequence: 1, lost: 0, samples };
        let kept = batch(&wire, &mut skipped).unwrap().samples;
        let kept: Vec<_> = kept.iter().map(|sample| sample.map(|sample| sample.elapsed.0)).collect();
        assert_eq!(kept, [Some(1), None, Some(3)], "its number stays: {field}");
        assert_eq!(skipped.fields(), [format!("batch.samples.{field}")]);
    }
}

#[test]
fn unusable_phases_are_skipped_and_the_end_kept() {
    let phase = |name: &str, started_ms| pb::Phase { name: name.into(), started_ms, ..pb::Phase::default() };
    let ended = |phases| pb::Finish { attempt: "a".into(), wall_ms: 10, phases, ..pb::Finish::default() };
    let cases = [
        (ended(vec![phase("", 0)]), "finish.phases[0].name"),
        (ended(vec![phase("a", 0), phase("b", 11)]), "finish.phases[1].wall_ms"),
        (ended(vec![phase("a", u64::MAX)]), "finish.phases[0].started_ms"),
        (
            ended(vec![pb::Phase { need_peak_bytes: u64::MAX, ..phase("a", 0) }]),
            "finish.phases[0].need_peak_bytes",
        ),
        (ended(vec![phase("a", 0); 65]), "finish.phases"),
    ];
    for (wire, field) in cases {
        let mut skipped = SkippedFacts::default();
        let kept = finish(&wire, &mut skipped).unwrap();
        assert_eq!((skipped.fields(), kept.phases.len(), kept.wall), (vec![field], 0, Some(Millis(10))));
    }
    // an origin that a newer agent knows is one that this server does not
    let totals = Some(pb::Totals { oom_origin: 99, oom_kill: Some(1), ..pb::Totals::default() });
    let finish =
        finish(&pb::Finish { totals, ..ended(vec![phase("a", 3)]) }, &mut SkippedFacts::default()).unwrap();
    assert_eq!((finish.totals.oom_origin, finish.phases.len()), (None, 1));
}

#[test]
fn an_unknown_source_is_skipped_and_reported() {
    let wire = |source| pb::Hello {
        attempt: "a".into(),
        session: "s".into(),
        key: Some(pb::Key { package: "zlib".into(), ..pb::Key::default() }),
        source,
        ..pb::Hello::default()
    };
    for (source, named) in [(99, vec!["hello.source"]), (0, vec![])] {
        let mut skipped = SkippedFacts::default();
        assert_eq!(hello(wire(source), &mut skipped).unwrap().source, pb::Source::Unspecified);
        assert_eq!(skipped.fields(), named);
    }
}

fn opening(resources: pb::Resources) -> pb::Hello {
    pb::Hello {
        attempt: "a".into(),
        session: "s".into(),
        key: Some(pb::Key { package: "zlib".into(), ..pb::Key::default() }),
        resources: Some(resources),
        ..pb::Hello::default()
    }
}

#[test]
fn a_size_of_0_is_none() {
    let zero = pb::Resources {
        memory_request_bytes: Some(0),
        memory_limit_bytes: Some(0),
        cpu_request_cores: Some(0.0),
        cpu_limit_cores: Some(-0.0),
    };
    let mut skipped = SkippedFacts::default();
    assert_eq!(hello(opening(zero), &mut skipped).unwrap().resources, Resources::default());
    assert_eq!(skipped.fields(), Vec::<&str>::new());
}

#[test]
fn unusable_opening_facts_are_skipped_and_reported() {
    for bad in [-1.0, f64::NAN, f64::INFINITY, 1e9] {
        let sizes = pb::Resources {
            memory_request_bytes: Some(1 << 63),
            memory_limit_bytes: Some(2 << 30),
            cpu_request_cores: Some(2.0),
            cpu_limit_cores: Some(bad),
        };
        let mut wire = opening(sizes);
        wire.key.as_mut().unwrap().hints = Some(pb::Hints { build_jobs: Some(0), input_bytes: None });
        (wire.pool, wire.ticket) = ("a\u{7}b".into(), "not an id".into());
        wire.runner_tags = vec!["docker".into(), "x".repeat(300)];
        let mut skipped = SkippedFacts::default();
        assert_eq!(runner_tags(&wire, &mut skipped), ["docker"]);
        let attempt = hello(wire, &mut skipped).unwrap();
        let left = (attempt.resources.memory_limit, attempt.resources.cpu_request.map(|cores| cores.0));
        assert_eq!(left, (Some(plimsoll_core::domain::Bytes(2 << 30)), Some(2.0)));
        assert_eq!((attempt.resources.memory_request, attempt.resources.cpu_limit), (None, None));
        assert_eq!((attempt.key.hints.build_jobs, attempt.opening.ticket), (None, None));
        assert_eq!(attempt.opening.pool, "");
        let named = [
            "hello.runner_tags",
            "hello.resources.memory_request_bytes",
            "hello.resources.cpu_limit_cores",
            "hello.key.hints.build_jobs",
            "hello.pool",
            "hello.ticket",
        ];
        assert_eq!(skipped.fields(), named, "{bad}");
    }
}

#[test]
fn unusable_optional_fields_never_cost_the_attempt() {
    let long = || "x".repeat(limits::LABEL_BYTES + 1);
    let mut wire = opening(pb::Resources::default());
    (wire.retries, wire.started_unix_ms) = ("not an id".into(), 1 << 63);
    let key = wire.key.as_mut().unwrap();
    (key.r#ref, key.owner) = ("a\u{7}b".into(), "x".repeat(limits::KEY_FIELD_BYTES + 1));
    key.labels = [
        ("job".to_owned(), "build".to_owned()),
        ("long".to_owned(), long()),
        (String::new(), "a".to_owned()),
    ]
    .into();
    let mut skipped = SkippedFacts::default();
    let attempt = hello(wire.clone(), &mut skipped).unwrap();
    assert_eq!((attempt.retries, attempt.started_unix_ms), (None, 0));
    let key = &attempt.key;
    assert_eq!((key.package.as_str(), key.git_ref.as_str(), key.owner.as_str()), ("zlib", "", ""));
    assert_eq!(key.labels, [("job".to_owned(), "build".to_owned())].into());
    let named = [
        "hello.retries",
        "hello.started_unix_ms",
        "hello.key.ref",
        "hello.key.owner",
        "hello.key.labels",
        "hello.key.labels[long]",
    ];
    assert_eq!(skipped.fields(), named);

    wire.key.as_mut().unwrap().labels = (0..10_000).map(|n| (format!("{n:05}"), "x".to_owned())).collect();
    let mut skipped = SkippedFacts::default();
    let attempt = hello(wire.clone(), &mut skipped).unwrap();
    assert_eq!(attempt.key.labels.len(), limits::LABELS, "the first of them");
    assert_eq!(skipped.fields()[4..], ["hello.key.labels"]);
}

#[test]
fn only_unusable_project_or_package_refuses_the_opening() {
    let mut wire = opening(pb::Resources::default());
    let key = wire.key.as_mut().unwrap();
    let bad = || "a\u{7}b".to_owned();
    (key.stack, key.version, key.arch) = (bad(), "x".repeat(limits::KEY_FIELD_BYTES + 1), bad());
    (key.compiler, key.compiler_version, key.build_system) = ("gcc".into(), bad(), bad());
    key.variants = "x".repeat(limits::VARIANTS_BYTES + 1);
    let mut skipped = SkippedFacts::default();
    let kept = hello(wire.clone(), &mut skipped).unwrap().key;
    let expected = Key { package: "zlib".into(), compiler: "gcc".into(), ..Key::default() };
    assert_eq!(kept, expected);
    let named = ["stack", "version", "variants", "compiler_version", "arch", "build_system"];
    assert_eq!(skipped.fields(), named.map(|name| format!("hello.key.{name}")));
    for (project, package, field) in [(bad(), "zlib".into(), "project"), (String::new(), bad(), "package")] {
        let key = Some(pb::Key { project, package, ..wire.key.clone().unwrap() });
        let refused = hello(pb::Hello { key, ..wire.clone() }, &mut SkippedFacts::default()).unwrap_err();
        assert_eq!(refused.field, format!("hello.key.{field}"));
    }
}

#[test]
fn required_opening_fields_are_refused_by_name() {
    let refused = |change: fn(&mut pb::Hello)| {
        let mut wire = opening(pb::Resources::default());
        change(&mut wire);
        hello(wire, &mut SkippedFacts::default()).unwrap_err().field
    };
    assert_eq!(refused(|wire| wire.key = None), "hello.key");
    assert_eq!(refused(|wire| wire.key.as_mut().unwrap().package.clear()), "hello.key.package");
    assert_eq!(refused(|wire| wire.attempt = "a b".into()), "hello.attempt");
    assert_eq!(refused(|wire| wire.session.clear()), "hello.session");
}

#[test]
fn an_unusable_wall_time_keeps_the_phases() {
    let phases = vec![pb::Phase { name: "build".into(), wall_ms: 70, ..pb::Phase::default() }];
    let wire = pb::Finish { attempt: "a".into(), wall_ms: u64::MAX, phases, ..pb::Finish::default() };
    let mut skipped = SkippedFacts::default();
    let end = finish(&wire, &mut skipped).unwrap();
    assert_eq!((end.wall, end.phases.len(), skipped.fields()), (None, 1, vec!["finish.wall_ms"]));
}

#[test]
fn unusable_end_facts_are_skipped_and_reported() {
    let totals = pb::Totals {
        cpu_usec: u64::MAX,
        starved_ms: Some(u64::MAX),
        oom_kill: Some(1),
        need_peak_bytes: Some(1 << 63),
        ..pb::Totals::default()
    };
    let exit = Some(pb::Exit { code: None, signal: Some(65) });
    let wire = pb::Finish {
        attempt: "a".into(),
        wall_ms: 10,
        totals: Some(totals),
        exit,
        offloaded_to: "a\u{1b}[2J".into(),
        ..pb::Finish::default()
    };
    let mut skipped = SkippedFacts::default();
    let finish = finish(&wire, &mut skipped).unwrap();
    assert_eq!(
        (finish.exit, finish.totals),
        (None, FinalTotals { oom_kill: Some(1), ..FinalTotals::default() })
    );
    let named = [
        "finish.exit.signal",
        "finish.totals.cpu_usec",
        "finish.totals.need_peak_bytes",
        "finish.totals.starved_ms",
        "finish.offloaded_to",
    ];
    assert_eq!(skipped.fields(), named);
}

#[test]
fn offloaded_to_is_kept_only_if_valid() {
    let of = |name: &str| {
        let wire = pb::Finish { attempt: "a".into(), offloaded_to: name.into(), ..pb::Finish::default() };
        finish(&wire, &mut SkippedFacts::default()).unwrap().offloaded_to
    };
    assert_eq!(["docker", "k3s-agent", ""].map(of), ["docker", "k3s-agent", ""]);
    assert_eq!(["Docker", "a b", &"a".repeat(33)].map(of), ["", "", ""]);
}
