//! Fingerprints of a question, of an attempt's evidence, and of a stored verdict. All are stored, so they must not
//! change between releases.

use std::borrow::Cow;

use plimsoll_core::domain::{
    Evidence, Fnv, Key, ListedRun, LogOrder, MatchedLine, ReportedEvidence, Summary,
};

/// Fingerprint of a question. It must not change between releases, because it is part of a key on
/// disk. [`Fnv`] over the fields with their lengths. A missing key or list of runs adds nothing.
pub(super) fn fingerprint(asked: &Evidence) -> u64 {
    let exit = asked.exit.map(|exit| exit.to_string()).unwrap_or_default();
    let number = asked.number.to_string();
    let reasons = [&asked.failure_reason, &asked.container_reason, &asked.pod_reason];
    let key = if asked.key == Key::default() { Vec::new() } else { words_of(&asked.key) };
    let asked_texts = [&exit, &number, &asked.log_tail].into_iter().chain(reasons).map(String::as_str);
    let listed: Vec<Cow<'_, str>> = asked.listed.iter().flat_map(words_of_run).collect();
    asked_texts
        .chain(key.iter().chain(&listed).map(AsRef::as_ref))
        .fold(Fnv::default(), Fnv::with_part)
        .value()
}

/// A named part of a fingerprint. What is not known has no part, so a new one leaves stored fingerprints as they are.
type Part<'a> = (&'static str, Cow<'a, str>);

/// Fingerprint of an attempt's evidence: the reports, and the measurements that can explain a
/// failure. It must not change between releases. For a running attempt it does not change with each
/// sample. It includes whether a later retry succeeded, which shows that the failure was flaky,
/// only if one did.
///
/// A verdict with another fingerprint, as from a version that made them in another way, stays in force until the next question about its
/// attempt, which is then judged once.
pub(super) fn evidence_number(
    reported: &ReportedEvidence,
    measured: Option<(&Summary, bool)>,
    has_retry_passed: bool,
) -> u64 {
    let mut parts = reported_parts(reported);
    match measured {
        None => {}
        Some((_, true)) => parts.push(("running", Cow::default())),
        Some((summary, false)) => parts.extend(measured_parts(summary)),
    }
    parts.extend(has_retry_passed.then(|| ("retry_passed", Cow::default())));
    let with_part = |all: Fnv, (name, value): Part<'_>| all.with_part(name).with_part(&value);
    parts.into_iter().fold(Fnv::default(), with_part).value()
}

/// Reports without project, and without lines of the log, which are removed for their age.
fn reported_parts(reported: &ReportedEvidence) -> Vec<Part<'_>> {
    let ReportedEvidence {
        project: _,
        key,
        number,
        exit,
        container_reasons,
        pod_reasons,
        ci_reasons,
        log,
        last_words: _,
        first_words: _,
        runner_says_oom,
        runner_oom_container,
        log_read,
        runs_before,
        time_limit,
    } = reported;
    let mut parts: Vec<Part<'_>> = Vec::new();
    parts.extend(key.iter().flat_map(|key| key_parts(key)));
    parts.extend((*number > 0).then(|| ("number", text(number))));
    parts.extend(exit.map(|exit| ("exit", text(&exit))));
    let reasons =
        [("container_reason", container_reasons), ("pod_reason", pod_reasons), ("ci_reason", ci_reasons)];
    for (name, reasons) in reasons {
        parts.extend(reasons.iter().map(|reason| (name, Cow::from(reason))));
    }
    for MatchedLine { rule, cause, order, .. } in log {
        parts.extend([("rule", Cow::from(rule)), ("cause", cause.as_str().into())]);
        parts.extend((*order != LogOrder::Alone).then(|| ("order", order.as_str().into())));
    }
    parts.extend(runner_says_oom.then(|| ("runner_says_oom", Cow::default())));
    parts.extend(
        (!runner_oom_container.is_empty()).then(|| ("runner_oom_container", runner_oom_container.into())),
    );
    parts.extend(log_read.then(|| ("log_read", Cow::default())));
    parts.extend(runs_before.map(|runs| ("runs_before", text(&runs))));
    parts.extend(time_limit.map(|limit| ("time_limit_ms", text(&limit.0))));
    parts
}

fn key_parts(key: &Key) -> impl Iterator<Item = Part<'_>> {
    let texts = key.named_texts().into_iter().filter(|(_, text)| !text.is_empty());
    let hints = [("build_jobs", key.hints.build_jobs.map(u64::from)), ("input_bytes", key.hints.input_bytes)];
    let labels = key.labels.iter().flat_map(|(name, value)| [("label", name), ("value", value)]);
    texts
        .map(|(name, text)| (name, Cow::from(text)))
        .chain(hints.into_iter().filter_map(|(name, hint)| Some((name, text(&hint?)))))
        .chain(labels.map(|(name, text)| (name, Cow::from(text))))
}

/// Measurements of an ended attempt that can explain its failure.
fn measured_parts(summary: &Summary) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = vec![
        ("outcome", summary.outcome.as_str().into()),
        ("wall_ms", text(&summary.wall.0)),
        ("need_peak", text(&summary.need_peak.0)),
        ("memory_peak", text(&summary.memory_peak.0)),
    ];
    parts.extend(summary.exit.map(|exit| ("measured_exit", text(&exit))));
    parts.extend(summary.oom_origin.map(|origin| ("oom_origin", origin.as_str().into())));
    let counters = [
        ("oom_kill", summary.oom_kill),
        ("reclaim_failures", summary.reclaim_failures),
        ("starved_ms", summary.starved.map(|time| time.0)),
        ("starved_at_end_ms", summary.starved_at_end.map(|time| time.0)),
        ("throttled_us", summary.throttled.map(|time| time.0)),
        ("memory_limit", summary.resources.memory_limit.map(|limit| limit.0)),
    ];
    parts.extend(counters.into_iter().filter_map(|(name, count)| Some((name, text(&count?)))));
    parts
        .extend((!summary.ci_reason.is_empty()).then(|| ("measured_ci_reason", (&summary.ci_reason).into())));
    parts
}

fn text(value: &impl ToString) -> Cow<'static, str> {
    Cow::Owned(value.to_string())
}

/// The number under which a verdict is stored. Another one than that of its evidence, because the same evidence may lead to another
/// verdict later.
pub(super) fn record_number(evidence: u64, given_unix_ms: u64) -> u64 {
    Fnv::default().with_part(&evidence.to_string()).with_part(&given_unix_ms.to_string()).value()
}

/// All fields of a key, in a fixed order. New hints must be appended, and only if they are set.
fn words_of(key: &Key) -> Vec<Cow<'_, str>> {
    let number = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
    let numbers = [number(key.hints.build_jobs.map(u64::from)), number(key.hints.input_bytes)];
    let labels = key.labels.iter().flat_map(|(name, value)| [name, value]);
    let mut words: Vec<Cow<'_, str>> = Vec::new();
    words.extend(key.fingerprint_texts().map(|(_, text)| Cow::Borrowed(text)));
    words.extend(numbers.map(Cow::Owned));
    words.extend(labels.map(|text| Cow::Borrowed(text.as_str())));
    words
}

/// All fields of a listed run.
fn words_of_run(run: &ListedRun) -> [Cow<'_, str>; 6] {
    let ListedRun { id, name, status, failure_reason, created_unix_ms, finished_unix_ms } = run;
    let time = |time: &Option<u64>| Cow::Owned(time.map(|ms| ms.to_string()).unwrap_or_default());
    let [id, name, status, reason] =
        [id, name, status, failure_reason].map(|text| Cow::Borrowed(text.as_str()));
    [id, name, status, reason, time(created_unix_ms), time(finished_unix_ms)]
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Bytes, Cause, Exit, Hints, Millis, OomOrigin, Resources, test_summary};

    use super::*;

    #[test]
    fn evidence_fingerprints_survive_releases() {
        let line = MatchedLine {
            rule: "disk".into(),
            cause: Cause::DiskFull,
            line: "No space left on device".into(),
            first: String::new(),
            root: None,
            order: LogOrder::Last,
        };
        let hints = Hints { build_jobs: Some(4), input_bytes: Some(9) };
        let labels = [("arch".to_owned(), "arm".to_owned())].into();
        let reported = ReportedEvidence {
            project: "p".into(),
            key: Some(Box::new(Key { package: "zlib".into(), hints, labels, ..Key::default() })),
            number: 2,
            exit: Some(Exit::Signal(9)),
            container_reasons: vec!["OOMKilled".into()],
            pod_reasons: vec!["Evicted".into()],
            ci_reasons: vec!["script_failure".into()],
            log: vec![line],
            last_words: Some("error: no".into()),
            first_words: Some("error: no".into()),
            runner_says_oom: true,
            runner_oom_container: "svc-0".into(),
            log_read: true,
            runs_before: Some(1),
            time_limit: Some(Millis(60_000)),
        };
        let measured = Summary {
            exit: Some(Exit::Code(2)),
            oom_kill: Some(1),
            oom_origin: Some(OomOrigin::OwnLimit),
            starved: Some(Millis(7)),
            resources: Resources { memory_limit: Some(Bytes(1 << 30)), ..Resources::default() },
            ci_reason: "job_execution_timeout".into(),
            ..test_summary("a", "zlib", "1", 100)
        };
        let none = ReportedEvidence::default();
        let numbers = [
            evidence_number(&none, None, false),
            evidence_number(&none, None, true),
            evidence_number(&none, Some((&measured, true)), false),
            evidence_number(&none, Some((&measured, false)), false),
            evidence_number(&reported, None, false),
        ];
        let pinned = [
            14_695_981_039_346_656_037,
            5_788_604_740_753_456_886,
            11_823_088_792_513_454_943,
            15_731_909_459_204_241_713,
            10_903_485_307_432_800_991,
        ];
        assert_eq!(numbers, pinned);
        let later = ReportedEvidence { project: "q".into(), last_words: None, first_words: None, ..reported };
        assert_eq!(evidence_number(&later, None, false), numbers[4], "log lines are removed for their age");
    }
}
