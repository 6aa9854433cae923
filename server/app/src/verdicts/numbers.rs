//! Fingerprints of a question, of an attempt's evidence, and of a stored verdict. All are stored, so they must not
//! change between releases.

use std::borrow::Cow;

use plimsoll_core::domain::{Evidence, Fnv, Key, ListedRun, ReportedEvidence, Summary};

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

/// Fingerprint of an attempt's evidence: the reports, and the measurements that can explain a
/// failure. It must not change between releases. For a running attempt it does not change with each
/// sample. It includes whether a later retry succeeded, which shows that the failure was flaky,
/// only if one did.
pub(super) fn evidence_number(
    reported: &ReportedEvidence,
    measured: Option<(&Summary, bool)>,
    has_retry_passed: bool,
) -> u64 {
    let serialized = ReportedEvidence { project: String::new(), ..reported.without_log_lines() };
    // serializing our own type never fails
    let serialized = serde_json::to_string(&serialized).unwrap_or_default();
    let mut number = Fnv::default().with_part(&serialized);
    match measured {
        None => {}
        Some((_, true)) => number = number.with_part("running"),
        Some((summary, false)) => {
            let Summary { outcome, exit, oom_kill, oom_origin, reclaim_failures, .. } = summary;
            let Summary { starved, starved_at_end, throttled, wall, need_peak, memory_peak, .. } = summary;
            let known = format!(
                "{outcome:?} {exit:?} {oom_kill:?} {oom_origin:?} {reclaim_failures:?} {starved:?} {starved_at_end:?} \
                 {throttled:?} {wall:?} {need_peak:?} {memory_peak:?} {:?} {}",
                summary.resources.memory_limit, summary.ci_reason,
            );
            number = number.with_part(&known);
        }
    }
    if has_retry_passed {
        number = number.with_part("its retry passed");
    }
    number.value()
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
