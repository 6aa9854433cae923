//! Memory was short: for how long, and whose limit it was.

use plimsoll_proto::reasons::SizeBound;

use super::*;
use crate::domain::{EvidenceLine, MeasurementSource};

#[test]
fn memory_verdicts_mention_measurement_by_processes() {
    let lines = |source, container: &str| {
        let summary = Summary { source, need_peak: Bytes(300 * MIB), ..failed(None) };
        let asked = Evidence {
            container_reason: container.to_owned(),
            ..evidence(Some(summary), Exit::Code(137), "")
        };
        let is_note = |line: &&EvidenceLine| line.text.contains("measured by processes");
        judged(&asked).evidence.iter().filter(is_note).count()
    };
    assert_eq!(lines(MeasurementSource::ProcessTree, "OOMKilled"), 1);
    assert_eq!(lines(MeasurementSource::CgroupV2, "OOMKilled"), 0);
    assert_eq!(lines(MeasurementSource::ProcessTree, ""), 0, "memory is not what ended it");
}

/// A failed attempt of ten minutes whose agent counted starved seconds: in all, and just before the end.
fn starved_for(seconds: u64, at_end: u64) -> Summary {
    Summary {
        wall: Millis(600_000),
        starved: Some(Millis(seconds * 1000)),
        starved_at_end: Some(Millis(at_end * 1000)),
        ..failed(Some(0))
    }
}

#[test]
fn long_or_final_starvation_is_the_cause() {
    for (seconds, at_end, starved) in
        [(0, 0, false), (119, 0, false), (120, 0, true), (60, 59, false), (60, 60, true), (9999, 9999, true)]
    {
        let summary = starved_for(seconds, at_end);
        assert_eq!(cause_of(&summary) == Some(Cause::Starved), starved, "{seconds} s, {at_end} s at the end");
        let verdict = judged(&evidence(Some(summary), Exit::Code(124), ""));
        let expected =
            if starved { (Cause::Starved, Action::Bigger) } else { (Cause::Timeout, Action::Longer) };
        assert_eq!((verdict.cause, verdict.action), expected, "{seconds} s, {at_end} s at the end");
    }
    let verdict = judged(&evidence(Some(starved_for(300, 90)), Exit::Code(137), ""));
    let line = verdict.evidence.iter().find(|line| line.text.starts_with("starved")).unwrap();
    assert_eq!((line.source, line.supports), (EvidenceSource::Kernel, true));
    assert_eq!(
        line.text,
        "starved at its memory limit for 5 min 0 s of 10 min 0 s (50 %), 1 min 30 s of them just before the end"
    );
    assert!(is_censored(&starved_for(300, 90), Some(Cause::Starved)));
}

#[test]
fn measured_starvation_overrides_reclaim_failures() {
    let busy = Summary { starved: Some(Millis(0)), ..starved() };
    assert_eq!(cause_of(&busy), Some(Cause::Unknown));
    let busy = Summary { starved: None, ..busy };
    assert_eq!(cause_of(&busy), Some(Cause::Starved), "the others are judged by it");
}

#[test]
fn a_deadline_does_not_hide_starvation() {
    for (pod, cause) in [("DeadlineExceeded", Cause::Starved), ("NodeShutdown", Cause::Preempted)] {
        let case =
            Evidence { pod_reason: pod.into(), ..evidence(Some(starved_for(300, 300)), Exit::Code(143), "") };
        assert_eq!(judged(&case).cause, cause, "{pod}");
    }
}

/// One kill, at its own limit of 280 MiB or at a limit above it.
fn killed_by(origin: OomOrigin) -> Summary {
    Summary { oom_origin: Some(origin), ..failed(Some(1)) }
}

#[test]
fn limit_kills_raise_memory_and_name_the_limit() {
    for (origin, limit_words) in [
        (OomOrigin::OwnLimit, "at the build's own limit"),
        (OomOrigin::LimitAbove, "at the limit of a group above"),
    ] {
        let verdict = judged(&evidence(Some(killed_by(origin)), Exit::Code(2), ""));
        assert_eq!((verdict.cause, verdict.action), (Cause::Oom, Action::Bigger), "{origin:?}");
        assert!(verdict.evidence[0].text.contains(limit_words), "{verdict:?}");
        assert!(verdict.reason.contains(limit_words), "{verdict:?}");
        assert!(is_censored(&killed_by(origin), cause_of(&killed_by(origin))), "{origin:?}");
    }
    let mut above = killed_by(OomOrigin::LimitAbove);
    above.resources.memory_limit = Some(Bytes(4096 * MIB));
    let next = judged(&evidence(Some(above), Exit::Code(2), "")).next.unwrap();
    assert_eq!(next.memory_limit.value, 4096 * MIB, "its own limit was not short, and does not shrink");
    assert!(next.memory_request.value > 270 * MIB, "{next:?}");
}

#[test]
fn host_memory_exhaustion_is_an_infrastructure_failure() {
    let host = killed_by(OomOrigin::Host);
    let log = "g++: fatal error: Killed signal terminated program cc1plus";
    let verdict = judged(&evidence(Some(host.clone()), Exit::Code(2), log));
    assert_eq!((verdict.cause, verdict.action, verdict.attempts_left), (Cause::Infra, Action::Elsewhere, 3));
    assert!(verdict.evidence[0].supports, "{verdict:?}");
    assert!(verdict.evidence[0].text.contains("the whole machine"), "{verdict:?}");
    let next = verdict.next.unwrap();
    assert_eq!(next.memory_limit.value, 280 * MIB, "the size it had");
    assert_eq!(next.memory_request.value, 200 * MIB, "the size it had");
    assert!(!is_censored(&host, cause_of(&host)) && !is_censored(&host, Some(Cause::Oom)));
    let unlimited = Summary { resources: Resources::default(), ..host };
    let verdict = judged(&evidence(Some(unlimited), Exit::Code(2), ""));
    assert_eq!(verdict.action, Action::Elsewhere);
    assert_eq!(verdict.attempts_left, 2, "it may have taken all of it alone");
}

#[test]
fn host_memory_exhaustion_uses_no_retry_budget() {
    let mut history = History::new(10);
    let first = AttemptId::parse("first").unwrap();
    history.learn(Arc::new(Summary { attempt: first.clone(), ..killed_by(OomOrigin::Host) }));
    let third = |number| {
        let again = Summary { number, retries: Some(first.clone()), ..killed_by(OomOrigin::OwnLimit) };
        let asked = Evidence { number, ..evidence(Some(again), Exit::Code(2), "") };
        judge_with(&asked, &history, &Settings::default())
    };
    assert_eq!((third(3).action, third(3).attempts_left), (Action::Bigger, 1), "two of three are spent");
    assert_eq!(third(4).action, Action::No);
}

/// What Prometheus, or a history in a file, recorded of an attempt that failed.
fn imported(cause: Cause, cause_source: Option<EvidenceSource>) -> Summary {
    Summary {
        source: MeasurementSource::Prometheus,
        cause: Some(cause),
        cause_source,
        censored: cause.is_memory(),
        outcome: Outcome::Failed,
        need_peak: Bytes(900 << 20),
        ..Summary::recorded(AttemptId::parse("g-0").unwrap(), Key::default())
    }
}

#[test]
fn an_imported_cause_keeps_its_source() {
    let found = |summary: Summary| {
        let asked = Evidence {
            measured: Some(Arc::new(summary)),
            ..Evidence::about(AttemptId::parse("g-0").unwrap())
        };
        let finding = classify(&asked, &LogRules::built_in());
        (finding.cause, finding.decided_by, finding.confidence)
    };
    for (source, decided_by, confidence) in [
        (Some(EvidenceSource::Kernel), EvidenceSource::Kernel, 0.97),
        (Some(EvidenceSource::Container), EvidenceSource::Container, 0.95),
        (None, EvidenceSource::Ci, 0.85),
    ] {
        let finding = found(imported(Cause::Oom, source));
        assert_eq!((finding.0, finding.1), (Some(Cause::Oom), Some(decided_by)));
        assert!((finding.2 - confidence).abs() < 1e-9, "{finding:?}");
    }
    assert_eq!(found(imported(Cause::Timeout, Some(EvidenceSource::Ci))).0, Some(Cause::Timeout));
    // neither a line of a log nor a person's word proves anything by itself, and memory counts only where it stopped the attempt
    for source in [EvidenceSource::Log, EvidenceSource::Person] {
        assert_eq!(found(imported(Cause::Infra, Some(source))).0, Some(Cause::Unknown), "{source:?}");
    }
    let uncensored = Summary { censored: false, ..imported(Cause::Oom, Some(EvidenceSource::Container)) };
    assert_eq!(found(uncensored).0, Some(Cause::Unknown));
}

#[test]
fn a_recorded_cause_ranks_as_its_source() {
    let asked = |container: &str, pod: &str, log: &str| {
        let evidence = Evidence {
            measured: Some(Arc::new(imported(Cause::Oom, Some(EvidenceSource::Container)))),
            container_reason: container.to_owned(),
            pod_reason: pod.to_owned(),
            log_tail: log.to_owned(),
            ..Evidence::about(AttemptId::parse("g-0").unwrap())
        };
        classify(&evidence, &LogRules::built_in())
    };
    let against_log = asked("", "", "a.c:3:1: error: no\n");
    assert_eq!(against_log.cause, Some(Cause::Oom), "a line of the log comes after it");
    let later = asked("", "Evicted", "");
    assert_eq!(later.cause, Some(Cause::Oom), "a pod's reason comes after a container's");
    assert_eq!(later.lines.len(), 2);
    let again = asked("OOMKilled", "", "");
    assert_eq!((again.cause, again.lines.len()), (Some(Cause::Oom), 1), "the same record is one witness");
    assert!((again.confidence - 0.95).abs() < 1e-9, "{}", again.confidence);
}

/// The verdict on an attempt that its node evicted, with this need and these sizes in MiB.
fn evicted(need: u64, request: Option<u64>, limit: Option<u64>, pod_reason: &str) -> Verdict {
    let mib = |size: Option<u64>| size.map(|mib| Bytes(mib * MIB));
    let resources =
        Resources { memory_request: mib(request), memory_limit: mib(limit), ..Resources::default() };
    let summary = Summary { need_peak: Bytes(need * MIB), resources, oom_kill: Some(0), ..failed(Some(0)) };
    let asked =
        Evidence { pod_reason: pod_reason.to_owned(), ..evidence(Some(summary), Exit::Code(137), "") };
    judged(&asked)
}

#[test]
fn eviction_above_the_request_raises_the_request() {
    let short = "Evicted: The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi.";
    for pod_reason in ["Evicted", short] {
        let verdict = evicted(607, Some(100), None, pod_reason);
        assert_eq!((verdict.cause, verdict.action), (Cause::EvictedByNode, Action::Bigger), "{verdict:?}");
        let next = verdict.next.unwrap();
        assert_eq!(next.memory_request.value, 699 * MIB, "with room for the pages of its files");
        assert_eq!(next.memory_request.basis.bound, SizeBound::AboveRequest("100 MiB".to_owned()));
        assert!(next.memory_limit.value >= next.memory_request.value);
        let expected = "it used 607 MiB with a memory request of 100 MiB, and what is above its request is evicted first, so retry with a larger \
                    memory request (100 MiB -> 699 MiB)";
        assert!(verdict.reason.contains(expected), "{}", verdict.reason);
        let why = "memory request 699 MiB: what the last attempt used above its request of 100 MiB, with room for its files";
        assert!(next.reason.contains(why), "{}", next.reason);
        assert_eq!(verdict.attempts_left, 3, "it was not the build's fault alone, and counts for nothing");
    }
    // never above the limit in force, which was enough
    let limited = evicted(607, Some(100), Some(620), "Evicted").next.unwrap();
    assert_eq!([limited.memory_request.value, limited.memory_limit.value], [620 * MIB; 2]);
}

#[test]
fn eviction_below_the_request_keeps_the_size() {
    let disk = "Evicted: The node was low on resource: ephemeral-storage. ";
    for (need, request, pod_reason) in [(607, 1000, "Evicted"), (607, 607, "Evicted"), (607, 100, disk)] {
        let verdict = evicted(need, Some(request), Some(2000), pod_reason);
        assert_eq!((verdict.cause, verdict.action), (Cause::EvictedByNode, Action::AsIs), "{verdict:?}");
        assert!(verdict.reason.ends_with("retry with the same size"), "{}", verdict.reason);
        assert_eq!(verdict.next.unwrap().memory_request.value, request * MIB);
    }
    let unknown = evicted(607, None, None, "Evicted");
    assert_eq!(unknown.action, Action::AsIs, "what it had asked for is not known");
}

#[test]
fn imported_memory_ends_outweigh_a_log() {
    for cause in [Cause::Oom, Cause::Starved] {
        let imported = Summary { source: MeasurementSource::default(), ..imported(cause, None) };
        for log in ["", "curl: (6) Could not resolve host: example.org\n"] {
            let asked = Evidence { exit: None, ..evidence(Some(imported.clone()), Exit::Code(1), log) };
            let verdict = judged(&asked);
            assert_eq!((verdict.cause, verdict.action), (cause, Action::Bigger), "{log:?}");
        }
    }
}
