//! Attempts, their summaries and verdicts, for tests.

#![expect(clippy::unwrap_used, reason = "a fixture that is wrong may end its test")]

use std::sync::Arc;

use super::{
    Action, Attempt, AttemptId, Bytes, Cause, Cores, CpuMicros, Exit, History, JobStatus, Key,
    MeasurementSource, Millis, OpeningRecord, ReportedOutcome, Reporter, Resources, RetryOutlook, SessionId,
    Signature, Summary, Verdict, VerdictBasis,
};

/// A finished attempt that needed `need_mib`. Those with numbers as ids end in the order of their numbers, a millisecond apart.
pub fn test_summary(id: &str, package: &str, version: &str, need_mib: u64) -> Summary {
    let key = Key { package: package.into(), version: version.into(), ..Key::default() };
    Summary {
        source: MeasurementSource::CgroupV2,
        started_unix_ms: 1_700_000_000_000 + id.parse().unwrap_or(0),
        wall: Millis(60_000),
        cpu: CpuMicros(120_000_000),
        cpu_peak: Cores(4.0),
        samples: 60,
        need_peak: Bytes(need_mib << 20),
        need_mean: Bytes(need_mib << 19),
        memory_peak: Bytes(need_mib << 21),
        oom_kill: Some(0),
        reclaim_failures: Some(0),
        exit: Some(Exit::Code(0)),
        ..Summary::recorded(AttemptId::parse(id).unwrap(), key)
    }
}

/// A history with the attempts of these summaries, in this order.
pub fn test_history(summaries: impl IntoIterator<Item = Summary>) -> History {
    let mut history = History::new(10_000);
    summaries.into_iter().for_each(|summary| history.learn(Arc::new(summary)));
    history
}

/// An attempt of `zlib` that was just opened.
pub fn test_attempt(id: &str) -> Attempt {
    Attempt {
        id: AttemptId::parse(id).unwrap(),
        session: SessionId::parse("session").unwrap(),
        key: Key { package: "zlib".into(), ..Key::default() },
        number: 1,
        retries: None,
        source: MeasurementSource::CgroupV2,
        resources: Resources::default(),
        started_unix_ms: 1_700_000_000_000,
        opening: OpeningRecord::default(),
    }
}

/// A report by the server itself that the attempt's job ended with the status `end`.
pub fn test_report(attempt: &str, end: JobStatus) -> ReportedOutcome {
    ReportedOutcome {
        attempts: vec![AttemptId::parse(attempt).unwrap()],
        end,
        reason: String::new(),
        cause: None,
        unneeded: false,
        by: Reporter::server(),
    }
}

/// A verdict of the server itself: retry unchanged, for an unknown cause. Its signature is `line`, if given.
pub fn test_verdict(attempt: &str, line: Option<&str>) -> Verdict {
    let signature = |line: &str| Signature { id: line.into(), line: line.into(), first: line.into() };
    Verdict {
        attempt: AttemptId::parse(attempt).unwrap(),
        action: Action::AsIs,
        cause: Cause::Unknown,
        confidence: 0.5,
        evidence: Vec::new(),
        next: None,
        attempts_left: 1,
        reason: String::new(),
        outlook: RetryOutlook { signature: line.map(signature), ..RetryOutlook::default() },
        given_unix_ms: None,
        job: None,
        basis: VerdictBasis { reported_by: Reporter::server(), ..VerdictBasis::default() },
    }
}
