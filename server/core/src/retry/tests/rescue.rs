//! Builds that their own agent ended because they hung at their memory limit.

use super::*;
use crate::domain::{LargestProcess, Rescue};

/// A build that rescue ended after a minute; together its processes would have needed 500 MiB.
fn ended() -> Summary {
    let rescue = Rescue {
        pauses: 3,
        together_peak: Bytes(500 * MIB),
        ended: Some(Millis(60_000)),
        ..Rescue::default()
    };
    let (program, file) = ("cc1plus".to_owned(), "big.cc".to_owned());
    let largest = LargestProcess { program, file, memory: Bytes(200 * MIB), elapsed: Millis(9) };
    Summary { rescue: Some(rescue), largest_process: Some(largest), ..failed(Some(0)) }
}

#[test]
fn an_ended_build_was_starved_whatever_its_exit() {
    let make = "make: *** [all] Terminated\nerror: something failed\n";
    for exit in
        [Exit::Code(143), Exit::Code(137), Exit::Signal(15), Exit::Signal(9), Exit::Code(2), Exit::Code(130)]
    {
        for log in ["", make] {
            let summary = Summary { exit: Some(exit), ..ended() };
            assert_eq!(cause_of(&summary), Some(Cause::Starved), "{exit}");
            assert!(is_censored(&summary, Some(Cause::Starved)));
            let canceled =
                Evidence { failure_reason: "job_canceled".into(), ..evidence(Some(summary), exit, log) };
            let verdict = judged(&canceled);
            assert_eq!((verdict.cause, verdict.action), (Cause::Starved, Action::Bigger), "{exit} {log}");
        }
    }
    let verdict = judged(&evidence(Some(ended()), Exit::Code(143), ""));
    let line = "rescue ended the build after 1 min 0 s: it hung at its memory limit; largest: cc1plus big.cc, 200 MiB";
    assert!(verdict.evidence.iter().any(|found| found.text == line), "{:?}", verdict.evidence);
    let limit = verdict.next.unwrap().memory_limit.value;
    assert!(limit > 550 * MIB, "{limit}: all of its processes fit, with room for file pages");
}

#[test]
fn pauses_alone_are_no_cause() {
    let rescue = Rescue { ended: None, ..ended().rescue.unwrap() };
    let summary = Summary { rescue: Some(rescue), ..ended() };
    assert_eq!(cause_of(&summary), Some(Cause::Unknown));
    assert_eq!(judged(&evidence(Some(summary), Exit::Code(2), "")).cause, Cause::Unknown);
}

#[test]
fn a_kill_names_the_largest_process() {
    let killed = Summary { oom_kill: Some(1), rescue: None, ..ended() };
    let verdict = judged(&evidence(Some(killed), Exit::Code(2), ""));
    let line = "oom_kill 1: the kernel killed for memory; largest: cc1plus big.cc, 200 MiB";
    assert!(verdict.evidence.iter().any(|found| found.text == line), "{:?}", verdict.evidence);
}
