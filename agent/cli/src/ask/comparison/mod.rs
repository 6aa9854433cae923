//! Compares two attempts row by row: key, result and measurements.

mod table;

use std::collections::BTreeSet;

use plimsoll_proto::{
    figures::{self, NOT_KNOWN},
    measured,
    shown::clean,
    times,
    v1::{GetAttemptResponse, Key, Phase, Summary},
};

use super::text;
pub(super) use table::render_comparison;

/// One value of each of two attempts, as text; empty for an attempt that has no such value.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct ComparisonRow {
    /// Name of the row: what is compared.
    pub(super) name: String,
    /// The value of the first attempt.
    pub(super) first: String,
    /// The value of the second attempt.
    pub(super) second: String,
}

impl ComparisonRow {
    /// Whether the two attempts have different values.
    pub(super) fn differs(&self) -> bool {
        self.first != self.second
    }
}

/// All rows with a value in at least one attempt: the key, the result, memory, CPU, time, phases, verdict.
pub(super) fn rows(first: &GetAttemptResponse, second: &GetAttemptResponse) -> Vec<ComparisonRow> {
    let of = |shown: &GetAttemptResponse| {
        let summary = shown.summary.clone().unwrap_or_default();
        let key = summary.key.clone().unwrap_or_default();
        [key_facts(&key), usage_facts(&summary), phases(&summary.phases), verdict(shown)].concat()
    };
    let (first, second) = (of(first), of(second));
    let value = |facts: &[(String, String)], name: &str| {
        facts.iter().find(|fact| fact.0 == name).map(|fact| fact.1.clone()).unwrap_or_default()
    };
    let mut seen = BTreeSet::new();
    // the order of the first attempt; a name that only the second attempt has comes after the name before it
    // there
    let mut names: Vec<&String> =
        first.iter().map(|fact| &fact.0).filter(|name| seen.insert(*name)).collect();
    let mut place = 0;
    for (name, _) in &second {
        if let Some(at) = names.iter().position(|known| *known == name) {
            place = at + 1;
        } else {
            names.insert(place, name);
            place += 1;
        }
    }
    let rows = names.into_iter().map(|name| ComparisonRow {
        name: name.clone(),
        first: value(&first, name),
        second: value(&second, name),
    });
    rows.filter(|row| !row.first.is_empty() || !row.second.is_empty()).collect()
}

fn named_value(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

fn key_facts(key: &Key) -> Vec<(String, String)> {
    key.facts().into_iter().map(|(name, value)| (clean(&name), clean(&value))).collect()
}

fn usage_facts(summary: &Summary) -> Vec<(String, String)> {
    let resources = summary.resources.unwrap_or_default();
    let size =
        |bytes: Option<u64>| bytes.filter(|bytes| measured::is_valid_memory(*bytes)).map(figures::bytes);
    let cores = |cores: Option<f64>| cores.map(figures::cores);
    let none = || "none".to_owned();
    let cpu = match measured::cpu_usec(summary) {
        Some(_) => format!("{}, {}", measured::cpu_time_words(summary), measured::cpu_words(summary)),
        None => NOT_KNOWN.to_owned(),
    };
    vec![
        named_value("result", text::attempt_result(summary)),
        named_value("need", measured::noted_need_words(summary)),
        named_value("mean need", figures::known(measured::mean_need(summary), figures::bytes)),
        named_value("peak", figures::known(measured::memory_peak(summary), figures::bytes)),
        named_value("memory request", size(resources.memory_request_bytes).unwrap_or_else(none)),
        named_value("memory limit", size(resources.memory_limit_bytes).unwrap_or_else(none)),
        named_value("CPU request", cores(resources.cpu_request_cores).unwrap_or_else(none)),
        named_value("CPU limit", cores(resources.cpu_limit_cores).unwrap_or_else(none)),
        named_value("CPU used", cpu),
        named_value("time", figures::millis(summary.wall_ms)),
        named_value("started", times::date_time(summary.started_unix_ms)),
        named_value("pool", clean(&summary.pool)),
    ]
}

/// One row for each name of a phase.
fn phases(phases: &[Phase]) -> Vec<(String, String)> {
    let row = |sum: Phase| {
        let value =
            format!("{}, needed {}", figures::millis(sum.wall_ms), figures::bytes(sum.need_peak_bytes));
        named_value(&format!("phase {}", clean(&sum.name)), value)
    };
    measured::phases_by_name(phases).into_iter().map(row).collect()
}

/// The verdict in force: the first line of its text.
fn verdict(shown: &GetAttemptResponse) -> Vec<(String, String)> {
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    shown.verdict.iter().map(|verdict| named_value("verdict", first(text::render_verdict(verdict)))).collect()
}
