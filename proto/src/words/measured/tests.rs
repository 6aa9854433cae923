use super::*;
use crate::v1::{OomOrigin, Resources};

const MIB: u64 = 1 << 20;

fn resources(request: Option<u64>, limit: Option<u64>) -> Resources {
    Resources { memory_request_bytes: request, memory_limit_bytes: limit, ..Resources::default() }
}

#[test]
fn a_limit_without_request_counts_as_the_request() {
    let limit = resources(None, Some(120 << 20));
    assert_eq!(memory_asked(Some(&limit)), Some(RequestedMemory { bytes: 120 << 20, is_limit: true }));
    assert_eq!(memory_asked_words(Some(&limit)), "120 MiB, its limit");
    let both = resources(Some(2 << 30), Some(3 << 30));
    assert_eq!(memory_asked_words(Some(&both)), "2.00 GiB, limit 3.00 GiB");
    assert_eq!([memory_asked_words(None), memory_asked_words(Some(&resources(None, None)))], ["nothing"; 2]);
}

#[test]
fn a_process_tree_need_names_its_gaps() {
    let of = |source: Source, need: u64| Summary {
        source: source.into(),
        need_peak_bytes: Some(need),
        ..Summary::default()
    };
    let by_processes = of(Source::ProcessTree, 5);
    assert_eq!(need_note(&by_processes), Some("measured by processes"));
    assert!(unseen_note(&by_processes).unwrap().contains("/dev/shm"));
    for other in [of(Source::CgroupV2, 5), of(Source::Prometheus, 5), of(Source::ProcessTree, 0)] {
        assert_eq!((need_note(&other), unseen_note(&other)), (None, None));
    }
    let notes = [(0, 5), (3, 5), (5, 5), (1, 1)].map(|(some, all)| attempts_note(some, all));
    let [none, some, all, one] = notes.map(Option::unwrap_or_default);
    assert_eq!([none, some], ["", "3 of them measured by processes"]);
    assert_eq!([all, one], ["measured by processes"; 2]);
}

#[test]
fn an_inexact_attempt_says_why() {
    let of = |name: &str| {
        let summary = Summary { offloaded_to: name.to_owned(), ..Summary::default() };
        offloaded_sentence(&summary).unwrap_or_default()
    };
    assert_eq!(of(""), "");
    for (name, words) in [
        ("docker", "docker ran the work outside"),
        (PartlyMeasured::AnotherCgroup.name(), "in another cgroup, which was not measured: nothing"),
        (
            PartlyMeasured::SharedCgroup.name(),
            "shared with other processes, so this is at most what it used: nothing",
        ),
        (PartlyMeasured::Unnamed.name(), "--key package=NAME): nothing is learnt"),
        (PartlyMeasured::LostDaemon.name(), "daemon that it may have started was not measured: nothing"),
    ] {
        assert!(of(name).contains(words), "{name}: {}", of(name));
    }
}

#[test]
fn what_was_not_measured_is_not_known() {
    let nothing = Summary { wall_ms: 5000, need_mean_bytes: Some(0), ..Summary::default() };
    assert_eq!((need(&nothing), mean_need(&nothing), memory_peak(&nothing)), (None, None, None));
    assert_eq!((mean_cores(&nothing), peak_cores(&nothing)), (None, None));
    assert_eq!([need_words(&nothing), cpu_words(&nothing)], ["not known", "not known"]);
}

#[test]
fn a_highest_use_is_not_below_the_mean() {
    let short =
        Summary { wall_ms: 1000, cpu_usec: Some(380_000), cpu_peak_cores: Some(0.34), ..Summary::default() };
    assert_eq!(cpu_words(&short), "0.38 cores on average, 0.38 at most");
    let mean = Summary { cpu_peak_cores: None, ..short };
    assert_eq!(cpu_words(&mean), "0.38 cores on average");
}

#[test]
fn need_never_exceeds_memory_with_page_cache() {
    let killed = Summary {
        need_peak_bytes: Some(114 << 20),
        memory_peak_bytes: Some(87 << 20),
        censored: true,
        ..Summary::default()
    };
    assert_eq!(memory_peak(&killed), Some(114 << 20));
    assert_eq!(need_words(&killed), "more than 114 MiB");
    let running = Running { memory_bytes: 5, need_bytes: 7, ..Running::default() };
    assert_eq!(running_memory(&running), 7);
}

#[test]
fn need_above_request_is_shown_with_lower_bounds() {
    let of = |need: u64, ask: u64, censored| {
        let (resources, need_peak_bytes) = (Some(resources(Some(ask), None)), Some(need));
        let summary = Summary { resources, need_peak_bytes, censored, ..Summary::default() };
        (need_of_ask_words(&summary).unwrap_or_default(), need_of_ask_cell(&summary))
    };
    let words_and_cell = |words: &str, cell: &str| (words.to_owned(), cell.to_owned());
    assert_eq!(of(28 * MIB, 100 * MIB, false), words_and_cell("28 % of it needed", "28 %"));
    assert_eq!(of(95 * MIB, 100 * MIB, true), words_and_cell("more than 95 % of it needed", "> 95 %"));
    assert_eq!(of(250 * MIB, 100 * MIB, false), words_and_cell("needed more than asked: 2.5 ×", "250 %"));
    let stopped = of(250 * MIB, 100 * MIB, true);
    assert_eq!(stopped, words_and_cell("needed more than asked: more than 2.5 ×", "> 250 %"));
    assert_eq!(of(1 << 40, MIB, true), words_and_cell("needed more than asked: over 100 ×", "over 100 ×"));
    assert_eq!([of(5, 0, false), of(0, 5 * MIB, false)], [words_and_cell("", "–"), words_and_cell("", "–")]);
}

#[test]
fn unusably_small_sizes_count_as_no_request() {
    for (bytes, written) in [(0, "0 B"), (1, "1 B"), (MIB - 1, "1 MiB"), (1 << 63, "8388608.00 TiB")] {
        let asked = resources(Some(bytes), Some(3 << 30));
        assert_eq!(memory_asked(Some(&asked)), None, "{bytes}");
        let words = memory_asked_words(Some(&asked));
        assert_eq!(words, format!("nothing ({written} is no size), limit 3.00 GiB"));
        let summary =
            Summary { resources: Some(asked), need_peak_bytes: Some(1 << 30), ..Summary::default() };
        assert_eq!((need_of_ask(&summary), need_of_ask_cell(&summary).as_str()), (None, "–"));
    }
    assert_eq!(memory_asked_words(Some(&resources(None, Some(1)))), "nothing (1 B is no size)");
    assert!(memory_asked(Some(&resources(Some(MIB), None))).is_some());
}

#[test]
fn a_limit_kill_shows_more_than_the_limit() {
    let of = |need: u64| Summary {
        need_peak_bytes: Some(need * MIB),
        resources: Some(resources(None, Some(375 * MIB))),
        censored: true,
        ..Summary::default()
    };
    // readings miss the last burst before a kill
    let near = of(368);
    assert_eq!([need_words(&near), need_cell(&near)], ["more than 375 MiB", "> 375 MiB"]);
    assert_eq!(need_of_ask_cell(&near), "> 100 %");
    assert_eq!(need_words(&of(100)), "more than 375 MiB", "the kill came after the last reading");
    let above = |need| Summary { oom_origin: OomOrigin::LimitAbove.into(), ..of(need) };
    assert_eq!(need_words(&above(100)), "more than 100 MiB", "others may have taken the rest");
    assert_eq!(need_words(&above(368)), "more than 375 MiB");
    assert_eq!(need_words(&of(0)), "more than 375 MiB", "nothing was read before the kill");
    let stopped = stopped_at(100 * MIB, Some(1 << 63), false);
    assert_eq!(stopped, 100 * MIB, "no machine has that, so it is no limit");
    let fitted = Summary { censored: false, ..near };
    assert_eq!(need_words(&fitted), "368 MiB");
}

#[test]
fn a_need_far_below_the_peak_is_explained() {
    let of = |need: u64, mark: u64| {
        let (need_peak_bytes, memory_peak_bytes) = (Some(need * MIB), Some(mark * MIB));
        need_below_mark(&Summary { need_peak_bytes, memory_peak_bytes, ..Summary::default() }).is_some()
    };
    assert_eq!([of(300, 400), of(300, 320), of(300, 200), of(0, 400)], [true, false, false, false]);
}

#[test]
fn too_short_builds_have_no_mean_cpu() {
    let build =
        Summary { wall_ms: 1, cpu_usec: Some(4870), cpu_peak_cores: Some(4.87), ..Summary::default() };
    assert_eq!((mean_cores(&build), peak_cores(&build)), (None, None));
    assert_eq!(cpu_words(&build), "too short for a mean");
    let longer = Summary { wall_ms: MIN_MEAN_MS, cpu_peak_cores: None, ..build };
    assert_eq!(cpu_words(&longer), "0.1 cores on average");
}

#[test]
fn a_missing_curve_has_its_reason() {
    let of = |samples, source: Source, rows| {
        let ended = Summary {
            outcome: Outcome::Succeeded.into(),
            source: source.into(),
            samples,
            ..Summary::default()
        };
        no_curve_reason(&ended, rows, 0).unwrap_or_default()
    };
    assert!(of(1, Source::CgroupV2, 1).starts_with("1 sample, "));
    assert!(of(0, Source::Unspecified, 0).ends_with("it was imported."));
    assert!(of(0, Source::CgroupV2, 0).ends_with("it was too short."));
    assert!(of(12, Source::CgroupV2, 0).starts_with("12 samples were taken"));
    assert_eq!(of(2, Source::CgroupV2, 2), "");
}

#[test]
fn a_limit_sufficed_when_need_stayed_below() {
    let of = |need: u64, in_force: Option<u64>, censored| {
        let predicted = Some(Predicted { memory_limit_bytes: 100, ..Predicted::default() });
        let resources = Some(resources(None, in_force));
        limit_sufficed(&Summary {
            predicted,
            resources,
            need_peak_bytes: Some(need),
            censored,
            ..Summary::default()
        })
    };
    assert_eq!([of(100, None, false), of(101, None, false)], [Some(true), Some(false)]);
    assert_eq!([of(100, None, true), of(99, None, true), of(0, None, false)], [Some(false), None, None]);
    let at_limit = [of(95, Some(100), true), of(50, Some(80), true), of(49, Some(100), true)];
    assert_eq!(at_limit, [Some(false), None, Some(false)], "the last reading misses the last burst");
}
