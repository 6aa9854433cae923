//! Only the dimension that was short grows.

use super::*;

/// Ten minutes at a limit of two cores, held back for so many seconds of CPU time.
fn held_back(used_s: u64, throttled_s: u64) -> Summary {
    Summary {
        wall: Millis(600_000),
        cpu: CpuMicros(used_s * 1_000_000),
        throttled: Some(Micros(throttled_s * 1_000_000)),
        ..failed(Some(0))
    }
}

fn late(summary: Summary) -> Verdict {
    judged(&evidence(Some(summary), Exit::Code(124), ""))
}

#[test]
fn a_throttled_timeout_gets_only_more_cpu() {
    let verdict = late(held_back(1150, 900));
    assert_eq!((verdict.cause, verdict.action), (Cause::Contention, Action::Bigger), "{}", verdict.reason);
    let (next, before) = (verdict.next.unwrap(), failed(None).resources);
    assert!((3400..=3420).contains(&next.cpu_limit.value), "it would have used 3.42 cores: {next:?}");
    assert_eq!(next.cpu_request.value, 1000);
    assert_eq!(Some(Bytes(next.memory_limit.value)), before.memory_limit);
    assert_eq!(Some(Bytes(next.memory_request.value)), before.memory_request);
    assert_eq!(verdict.outlook.wait, Millis(0), "waiting gives it no more CPU");
    assert!(verdict.reason.contains("retry with more CPU (limit 2 cores -> 3.4"), "{}", verdict.reason);
    let timed_out = Summary { exit: Some(Exit::Code(124)), ..held_back(1150, 900) };
    assert_eq!(cause_of(&timed_out), Some(Cause::Contention));
}

#[test]
fn more_cpu_has_its_bounds() {
    let much = late(held_back(1150, 90_000)).next.unwrap();
    assert_eq!(much.cpu_limit.value, 4000, "twice what it had");
    let at = |cap| {
        let settings = Settings { cpu_cap: Some(Cores(cap)), ..Settings::default() };
        let asked = evidence(Some(held_back(1150, 90_000)), Exit::Code(124), "");
        let verdict = judge_with(&asked, &History::new(1), &settings);
        (verdict.action, verdict.next.unwrap().cpu_limit.value)
    };
    assert_eq!(at(3.0), (Action::Bigger, 3000));
    assert_eq!(at(2.0), (Action::AsIs, 2000), "there is no more, so later");
    let mut above = held_back(1150, 900);
    above.resources.cpu_limit = None;
    assert_eq!(late(above).action, Action::AsIs, "the limit above it decides");
    let mut guaranteed = held_back(1150, 90_000);
    guaranteed.resources.cpu_request = Some(Cores(2.0));
    assert_eq!(late(guaranteed).next.unwrap().cpu_request.value, 4000, "what it has for itself stays so");
}

#[test]
fn throttling_explains_only_timeouts() {
    let cause =
        |summary: Summary, code, log: &str| judged(&evidence(Some(summary), Exit::Code(code), log)).cause;
    assert_eq!(cause(held_back(1150, 900), 2, "a.c:1:1: error: no"), Cause::Deterministic);
    assert_eq!(cause(held_back(1150, 900), 1, ""), Cause::Unknown);
    assert_eq!(cause(held_back(1150, 100), 124, ""), Cause::Timeout, "8 % are nothing");
    assert_eq!(cause(held_back(300, 900), 124, ""), Cause::Timeout, "it used a quarter of its limit");
    assert_eq!(cause(Summary { throttled: None, ..held_back(1150, 0) }, 124, ""), Cause::Timeout);
    let starved = Summary { starved: Some(Millis(500_000)), ..held_back(1150, 900) };
    assert_eq!(cause(starved, 124, ""), Cause::Starved, "reclaiming eats CPU");
    let ci = Evidence {
        failure_reason: "job_execution_timeout".into(),
        ..evidence(Some(held_back(1150, 900)), Exit::Signal(15), "")
    };
    assert_eq!(judged(&ci).cause, Cause::Contention);
}

/// The verdict on a kill at 280 MiB with these build jobs, where this is the most memory there is.
fn killed(jobs: Option<u32>, cap_mib: u64) -> Verdict {
    let settings = capped(cap_mib);
    let mut asked = evidence(Some(failed(Some(1))), Exit::Code(2), "");
    asked.key.hints.build_jobs = jobs;
    judge_with(&asked, &History::new(1), &settings)
}

#[test]
fn more_memory_or_fewer_jobs_or_both() {
    let outcome = |verdict: Verdict| {
        let next = verdict.next.map(|next| (next.memory_limit.value / MIB, next.build_jobs.value));
        (verdict.action, next)
    };
    let untouched = outcome(killed(Some(8), 1000)).1.unwrap().1;
    assert_eq!(outcome(killed(Some(8), 1000)), (Action::Bigger, Some((420, untouched))), "there is enough");
    assert_eq!(outcome(killed(Some(8), 300)), (Action::Bigger, Some((300, 5))), "a little more, so both");
    assert_eq!(outcome(killed(Some(8), 280)), (Action::FewerJobs, Some((280, 4))), "no more");
    assert_eq!(outcome(killed(Some(1), 280)), (Action::No, None));
    let both = killed(Some(8), 300);
    let reason = &both.reason;
    assert!(both.outlook.clamped, "{reason}");
    assert!(reason.ends_with("-> 300 MiB), the most there is, and with -j5 instead of -j8"), "{reason}");
    assert!(!killed(None, 300).reason.contains("-j"), "how many jobs there were is not known");
}

#[test]
fn unrecorded_build_jobs_are_neither_named_nor_halved() {
    let of_package = |package: &str, jobs: Option<u32>| {
        let mut history = History::new(20);
        for id in 100..108 {
            let mut killed =
                Summary { attempt: AttemptId::parse(&id.to_string()).unwrap(), ..failed(Some(1)) };
            (killed.cause, killed.censored) = (Some(Cause::Oom), jobs.is_none());
            killed.key.package = package.into();
            killed.key.hints.build_jobs = jobs;
            history.learn(Arc::new(killed));
        }
        history
    };
    for (package, jobs) in [("zlib", None), ("hdf5", Some(8))] {
        for cap in [280, 1000] {
            let settings = capped(cap);
            let asked = evidence(Some(failed(Some(1))), Exit::Code(2), "");
            let verdict = judge_with(&asked, &of_package(package, jobs), &settings);
            assert!(!verdict.reason.contains("-j"), "{package}: {}", verdict.reason);
            let why = verdict.next.map(|next| next.reason).unwrap_or_default();
            assert!(!why.contains("-j2"), "{package}: {why}");
        }
    }
}

#[test]
fn preempted_builds_grow_in_no_dimension() {
    for pod in ["Preempting", "NodeShutdown", "NodeLost", "Evicted: The node was low on resource: pids. "] {
        for summary in [held_back(1150, 90_000), Summary { oom_kill: None, ..starved() }] {
            let had = summary.resources;
            let asked = Evidence { pod_reason: pod.into(), ..evidence(Some(summary), Exit::Code(143), "") };
            let verdict = judged(&asked);
            let next = verdict.next.unwrap();
            assert_eq!(verdict.action, Action::AsIs, "{pod}");
            assert_eq!(Some(Bytes(next.memory_limit.value)), had.memory_limit);
            assert_eq!((next.cpu_limit.value, next.cpu_request.value), (2000, 1000));
        }
    }
}
