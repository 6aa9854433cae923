//! Messages of agents, right and wrong. A table names the field that a change makes unusable: it alone is reported, and the rest is kept.

use plimsoll_proto::counters::PageCounters;

use super::*;

/// A change of a message, and the field that it makes unusable.
type Change<T> = (fn(&mut T), &'static str);

/// No field takes a control character.
const BAD: &str = "a\u{7}b";

fn opening() -> pb::Hello {
    let package = "zlib".to_owned();
    pb::Hello {
        attempt: "a".into(),
        session: "s".into(),
        key: Some(pb::Key { package, compiler: "gcc".into(), ..pb::Key::default() }),
        ..pb::Hello::default()
    }
}

fn key(wire: &mut pb::Hello) -> &mut pb::Key {
    wire.key.as_mut().unwrap()
}

fn sizes(wire: &mut pb::Hello) -> &mut pb::Resources {
    wire.resources.get_or_insert_default()
}

/// The message, and the fields of it that were skipped.
fn read<T>(read: impl FnOnce(&mut SkippedFacts) -> T) -> (T, Vec<String>) {
    let mut skipped = SkippedFacts::default();
    let message = read(&mut skipped);
    (message, skipped.fields().into_iter().map(str::to_owned).collect())
}

fn label(name: &str, value: String) -> HashMap<String, String> {
    [(name.to_owned(), value)].into()
}

#[test]
fn unusable_opening_facts_are_skipped_by_name() {
    let table: [Change<pb::Hello>; 22] = [
        (|wire| wire.source = 99, "source"),
        (|wire| wire.retries = "not an id".into(), "retries"),
        (|wire| wire.started_unix_ms = 1 << 63, "started_unix_ms"),
        (|wire| wire.pool = BAD.into(), "pool"),
        (|wire| wire.ticket = "not an id".into(), "ticket"),
        (|wire| sizes(wire).memory_request_bytes = Some(1 << 63), "resources.memory_request_bytes"),
        (|wire| sizes(wire).memory_limit_bytes = Some(1 << 63), "resources.memory_limit_bytes"),
        (|wire| sizes(wire).cpu_request_cores = Some(-1.0), "resources.cpu_request_cores"),
        (|wire| sizes(wire).cpu_limit_cores = Some(f64::NAN), "resources.cpu_limit_cores"),
        (|wire| sizes(wire).cpu_limit_cores = Some(f64::INFINITY), "resources.cpu_limit_cores"),
        (|wire| sizes(wire).cpu_limit_cores = Some(1e9), "resources.cpu_limit_cores"),
        (
            |wire| key(wire).hints = Some(pb::Hints { build_jobs: Some(0), input_bytes: None }),
            "key.hints.build_jobs",
        ),
        (|wire| key(wire).stack = BAD.into(), "key.stack"),
        (|wire| key(wire).version = "x".repeat(limits::KEY_FIELD_BYTES + 1), "key.version"),
        (|wire| key(wire).variants = "x".repeat(limits::VARIANTS_BYTES + 1), "key.variants"),
        (|wire| key(wire).compiler_version = BAD.into(), "key.compiler_version"),
        (|wire| key(wire).arch = BAD.into(), "key.arch"),
        (|wire| key(wire).build_system = BAD.into(), "key.build_system"),
        (|wire| key(wire).r#ref = BAD.into(), "key.ref"),
        (|wire| key(wire).owner = "x".repeat(limits::KEY_FIELD_BYTES + 1), "key.owner"),
        (|wire| key(wire).labels = label("", "a".into()), "key.labels"),
        (|wire| key(wire).labels = label("long", "x".repeat(limits::LABEL_BYTES + 1)), "key.labels[long]"),
    ];
    let (plain, none) = read(|skipped| hello(opening(), skipped).unwrap());
    assert_eq!(none, [""; 0]);
    for (change, field) in table {
        let mut wire = opening();
        change(&mut wire);
        let expected = (plain.clone(), vec![format!("hello.{field}")]);
        assert_eq!(read(|skipped| hello(wire, skipped).unwrap()), expected);
    }
    // as in GitLab and Kubernetes, a size of 0 is none
    let mut wire = opening();
    *sizes(&mut wire) = pb::Resources {
        memory_request_bytes: Some(0),
        memory_limit_bytes: Some(0),
        cpu_request_cores: Some(0.0),
        cpu_limit_cores: Some(-0.0),
    };
    assert_eq!(read(|skipped| hello(wire, skipped).unwrap()), (plain, none));
}

#[test]
fn labels_and_tags_beyond_bounds_are_skipped() {
    let mut wire = opening();
    key(&mut wire).labels = (0..10_000).map(|n| (format!("{n:05}"), "x".to_owned())).collect();
    wire.runner_tags = vec!["docker".into(), "x".repeat(300)];
    assert_eq!(read(|skipped| runner_tags(&wire, skipped)).0, ["docker"]);
    wire.runner_tags = vec!["docker".into(); limits::RUNNER_TAGS + 1];
    let (tags, named) = read(|skipped| runner_tags(&wire, skipped));
    assert_eq!((tags.len(), named), (limits::RUNNER_TAGS, vec!["hello.runner_tags".to_owned()]));
    let (attempt, named) = read(|skipped| hello(wire, skipped).unwrap());
    assert_eq!((attempt.key.labels.len(), named), (limits::LABELS, vec!["hello.key.labels".to_owned()]));
    assert!(attempt.key.labels.contains_key("00000"), "the first of them");
}

#[test]
fn required_opening_fields_are_refused_by_name() {
    let table: [Change<pb::Hello>; 6] = [
        (|wire| wire.key = None, "hello.key"),
        (|wire| key(wire).package.clear(), "hello.key.package"),
        (|wire| key(wire).package = BAD.into(), "hello.key.package"),
        (|wire| key(wire).project = BAD.into(), "hello.key.project"),
        (|wire| wire.attempt = "a b".into(), "hello.attempt"),
        (|wire| wire.session.clear(), "hello.session"),
    ];
    for (change, field) in table {
        let mut wire = opening();
        change(&mut wire);
        assert_eq!(hello(wire, &mut SkippedFacts::default()).unwrap_err().field, field);
    }
}

/// What is kept of these samples, and the fields that were skipped.
fn batch_of(samples: Vec<pb::Sample>) -> (Vec<Option<Sample>>, Vec<String>) {
    let wire = pb::Batch { attempt: "a".into(), first_sequence: 1, lost: 0, samples };
    read(|skipped| batch(&wire, skipped).unwrap().samples)
}

#[test]
fn an_unusable_sample_or_counter_is_skipped_alone() {
    let row = pb::Sample { elapsed_ms: 1, need_bytes: 5, ..pb::Sample::default() };
    let (plain, _) = batch_of(vec![row]);
    // whether the sample is of use without the field
    let table = [
        (pb::Sample { elapsed_ms: u64::MAX, ..row }, "elapsed_ms", false),
        (pb::Sample { memory_bytes: u64::MAX, ..row }, "memory_bytes", false),
        (pb::Sample { need_bytes: 1 << 63, ..row }, "need_bytes", false),
        (pb::Sample { cpu_usec: u64::MAX, ..row }, "cpu_usec", false),
        (pb::Sample { need_max_bytes: Some(4), ..row }, "need_max_bytes", true),
        (pb::Sample { need_max_bytes: Some(u64::MAX), ..row }, "need_max_bytes", true),
        (pb::Sample { memory_stall_usec: Some(u64::MAX), ..row }, "memory_stall_usec", true),
        (pb::Sample { throttled_usec: Some(u64::MAX), ..row }, "throttled_usec", true),
        (pb::Sample { starved_ms: Some(u64::MAX), ..row }, "starved_ms", true),
    ];
    for (bad, field, is_kept) in table {
        // its number stays, and of many the first is named
        let (kept, named) = batch_of(vec![row, bad, bad, row]);
        let middle = plain[0].filter(|_| is_kept);
        assert_eq!(kept, [plain[0], middle, middle, plain[0]], "{field}");
        assert_eq!(named, [format!("batch.samples.{field}")]);
    }
    let full = pb::Sample {
        need_max_bytes: Some(5),
        memory_stall_usec: Some(1),
        throttled_usec: Some(3),
        starved_ms: Some(4),
        ..row
    }
    .with_pages(PageCounters::all(Some(2)));
    let (kept, _) = batch_of(vec![full]);
    assert_eq!(super::super::attempts::sample(&kept[0].unwrap()), full, "nothing of it is lost");
}

#[test]
fn unusable_end_facts_are_skipped_by_name() {
    fn totals(wire: &mut pb::Finish) -> &mut pb::Totals {
        wire.totals.as_mut().unwrap()
    }
    fn process(wire: &mut pb::Finish) -> &mut pb::LargestProcess {
        let good = pb::LargestProcess { program: "ld".into(), memory_bytes: 9, ..Default::default() };
        wire.largest_process.insert(good)
    }
    fn rescue(wire: &mut pb::Finish) -> &mut pb::Rescue {
        wire.rescue.get_or_insert_default()
    }
    let phase = |name: &str, started_ms| pb::Phase { name: name.into(), started_ms, ..pb::Phase::default() };
    let ended = |phases| {
        let totals = Some(pb::Totals { oom_kill: Some(1), ..pb::Totals::default() });
        pb::Finish { attempt: "a".into(), wall_ms: 10, totals, phases, ..pb::Finish::default() }
    };
    let (plain, _) = read(|skipped| finish(&ended(vec![]), skipped).unwrap());
    assert_eq!((plain.wall, plain.totals.oom_kill), (Some(Millis(10)), Some(1)));
    let table: [Change<pb::Finish>; 17] = [
        (|wire| process(wire).program.clear(), "largest_process.program"),
        (|wire| process(wire).program = BAD.into(), "largest_process.program"),
        (|wire| process(wire).program = "x".repeat(limits::PROGRAM_BYTES + 1), "largest_process.program"),
        (|wire| process(wire).memory_bytes = 0, "largest_process.memory_bytes"),
        (|wire| process(wire).memory_bytes = 1 << 63, "largest_process.memory_bytes"),
        (|wire| process(wire).elapsed_ms = 11, "largest_process.elapsed_ms"),
        (|wire| rescue(wire).would_pause_ms = Some(11), "rescue.would_pause_ms"),
        (|wire| rescue(wire).together_peak_bytes = 1 << 63, "rescue.together_peak_bytes"),
        (|wire| rescue(wire).gave_up = BAD.into(), "rescue.gave_up"),
        (|wire| rescue(wire).ended_ms = Some(11), "rescue.ended_ms"),
        (|wire| wire.exit = Some(pb::Exit { code: None, signal: Some(65) }), "exit.signal"),
        (|wire| totals(wire).cpu_usec = u64::MAX, "totals.cpu_usec"),
        (|wire| totals(wire).need_peak_bytes = Some(1 << 63), "totals.need_peak_bytes"),
        (|wire| totals(wire).starved_ms = Some(u64::MAX), "totals.starved_ms"),
        (|wire| wire.offloaded_to = "Docker".into(), "offloaded_to"),
        (|wire| wire.offloaded_to = "a\u{1b}[2J".into(), "offloaded_to"),
        (|wire| wire.offloaded_to = "a".repeat(33), "offloaded_to"),
    ];
    let changed = table.map(|(change, field)| {
        let mut wire = ended(vec![]);
        change(&mut wire);
        (wire, field)
    });
    let phases = [
        (vec![phase("", 0)], "phases[0].name"),
        (vec![phase("a", 0), phase("b", 11)], "phases[1].wall_ms"),
        (vec![phase("a", u64::MAX)], "phases[0].started_ms"),
        (vec![pb::Phase { need_peak_bytes: u64::MAX, ..phase("a", 0) }], "phases[0].need_peak_bytes"),
        (vec![phase("a", 0); 65], "phases"),
    ];
    for (wire, field) in changed.into_iter().chain(phases.map(|(phases, field)| (ended(phases), field))) {
        let expected = (plain.clone(), vec![format!("finish.{field}")]);
        assert_eq!(read(|skipped| finish(&wire, skipped).unwrap()), expected);
    }
}

#[test]
fn usable_end_facts_are_kept() {
    let phases = vec![pb::Phase { name: "build".into(), wall_ms: 70, ..pb::Phase::default() }];
    // an origin that a newer agent knows is one that this server does not
    let totals = Some(pb::Totals { oom_origin: 99, ..pb::Totals::default() });
    let offloaded_to = "k3s-agent".to_owned();
    let wire = pb::Finish {
        attempt: "a".into(),
        wall_ms: u64::MAX,
        phases,
        totals,
        offloaded_to: offloaded_to.clone(),
        ..pb::Finish::default()
    };
    let (end, named) = read(|skipped| finish(&wire, skipped).unwrap());
    assert_eq!((end.wall, end.phases.len(), end.totals.oom_origin), (None, 1, None));
    assert_eq!((end.offloaded_to, named), (offloaded_to, vec!["finish.wall_ms".to_owned()]));
}

#[test]
fn process_facts_are_kept_without_bad_parts() {
    let ended = |largest_process, rescue| {
        let wire =
            pb::Finish { attempt: "a".into(), wall_ms: 10, largest_process, rescue, ..Default::default() };
        let (end, named) = read(|skipped| finish(&wire, skipped).unwrap());
        (end.largest_process, end.rescue, named)
    };
    let file =
        |file: String| pb::LargestProcess { program: "ld".into(), file, memory_bytes: 9, elapsed_ms: 10 };
    let (kept, _, named) = ended(Some(file("a.o".into())), None);
    assert_eq!((kept.unwrap().file, named), ("a.o".to_owned(), vec![]));
    for bad in [BAD.to_owned(), "x".repeat(limits::FILE_NAME_BYTES + 1)] {
        let (kept, _, named) = ended(Some(file(bad)), None);
        assert_eq!(kept.unwrap().file.as_str(), "");
        assert_eq!(named, vec!["finish.largest_process.file".to_owned()]);
    }
    let rescue = pb::Rescue { pauses: 2, paused_ms: 11, paused_process_ms: 21, ..Default::default() };
    let (_, kept, named) = ended(None, Some(rescue));
    let kept = kept.unwrap();
    assert_eq!((kept.pauses, kept.paused, kept.paused_process_time), (2, Millis(10), Millis(10)));
    assert_eq!(named, ["finish.rescue.paused_ms", "finish.rescue.paused_process_ms"]);
    assert_eq!(ended(None, Some(pb::Rescue::default())), (None, None, vec![]), "it had nothing to do");
}
