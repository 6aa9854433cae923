//! Prints answers for programs: one JSON object, indented, with a line feed at its end.
//!
//! Fields have the names, units, order and meanings of the wire contract (`proto/plimsoll/v1`); a new release
//! only adds fields. Enumerations are lower-case words without their prefix (`exact`, `oom`, `bigger`). An
//! unknown value is `null`. [`for_programs`] has all differences from the wire.

#[cfg(test)]
mod golden;

use std::collections::BTreeMap;

use plimsoll_proto::{
    WireEnum as _, evidence,
    json::{Fields, Json, Message, ToJson, on_the_wire},
    measured, shown, sums,
    v1::{
        Cause, Exit, ExplainResponse, GetAttemptResponse, Hints, Key, Outlook, Resources, StatsTotals,
        Summary, WatchResponse,
    },
};
use serde::Serialize;

#[cfg(feature = "people")]
use super::comparison::ComparisonRow;

/// A message as JSON text.
pub(crate) fn render_message(message: &impl ToJson) -> String {
    render(&to_json(message))
}

/// The prediction and the need at other numbers of build jobs, without the attempts.
pub(super) fn render_jobs(explained: &ExplainResponse) -> String {
    let Json::Object(mut fields) = to_json(explained) else { return String::new() };
    fields.remove(&["attempts"]);
    render(&Json::Object(fields))
}

/// Both attempts, and the rows in which they differ, as JSON.
#[cfg(feature = "people")]
pub(super) fn render_comparison(
    first: &GetAttemptResponse,
    second: &GetAttemptResponse,
    rows: &[ComparisonRow],
) -> String {
    let differences: Vec<_> = rows.iter().filter(|row| row.differs()).collect();
    render(&ComparisonJson { first: to_json(first), second: to_json(second), differences })
}

/// The JSON of a comparison.
#[cfg(feature = "people")]
#[derive(Serialize)]
struct ComparisonJson<'a> {
    first: Json,
    second: Json,
    differences: Vec<&'a ComparisonRow>,
}

/// One message of the watch as one line of JSON.
pub(super) fn render_watch(message: &WatchResponse) -> String {
    let mut line = serde_json::to_string(&to_json(message)).unwrap_or_default();
    line.push('\n');
    shown::escaped_json(&line).into_owned()
}

pub(super) fn render(value: &impl Serialize) -> String {
    // cannot fail: these structures contain only values that JSON can represent
    let mut text =
        serde_json::to_string_pretty(value).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"));
    text.push('\n');
    shown::escaped_json(&text).into_owned()
}

/// A message, or a list of messages, as JSON for programs.
pub(super) fn to_json(message: &impl ToJson) -> Json {
    message.json(for_programs)
}

/// Keeps the JSON format from before it followed the wire: it merges two messages into the message around them,
/// writes some missing messages with empty fields, and adds some derived numbers.
pub(crate) fn for_programs(message: Message<'_>, mut fields: Fields) -> Json {
    for (name, value) in &mut fields.0 {
        match (name.as_ref(), &*value) {
            ("key", Json::Null) => *value = to_json(&Key::default()),
            ("hints", Json::Null) => *value = to_json(&Hints::default()),
            ("resources", Json::Null) => *value = to_json(&Resources::default()),
            ("exit", Json::Null) => *value = to_json(&Exit::default()),
            ("totals", Json::Null) => *value = to_json(&StatsTotals::default()),
            (_, Json::Unnamed(_)) => *value = Json::Text("unspecified".to_owned()),
            _ => {}
        }
    }
    match &message {
        Message::Key(_) => fields.flatten_field("hints", ""),
        Message::Summary(summary) => measured_alone(summary, &mut fields),
        Message::Running(now) => fields.set("memory_bytes", to_json(&measured::running_memory(now))),
        Message::Verdict(verdict) => {
            let retry = evidence::is_retry(verdict.action());
            fields.add_before("action", "retry", to_json(&retry));
        }
        Message::Outlook(outlook) => {
            fields.add_before("cost_memory_gib_hours", "pass_rate", to_json(&pass_rate(outlook)));
        }
        Message::StatsTotals(totals) => {
            fields.set("causes", by_cause(totals.causes.iter().map(|of| (of.cause(), of.count))));
            fields.set("retries_by_cause", by_cause(sums::retries_by_cause(totals)));
        }
        _ => {}
    }
    on_the_wire(message, fields)
}

/// Replaces figures of a summary that were not measured by `null`.
fn measured_alone(summary: &Summary, fields: &mut Fields) {
    fields.flatten_field("exit", "exit_");
    fields.set("cpu_usec", to_json(&measured::cpu_usec(summary)));
    fields.set("need_peak_bytes", to_json(&measured::need(summary)));
    fields.set("need_mean_bytes", to_json(&measured::mean_need(summary)));
    fields.set("memory_peak_bytes", to_json(&measured::memory_peak(summary)));
    fields.set("cpu_peak_cores", to_json(&measured::peak_cores(summary)));
}

/// Share of earlier retries that passed, 0 to 1; `None` if there were none.
fn pass_rate(outlook: &Outlook) -> Option<f64> {
    (outlook.retried > 0).then(|| f64::from(outlook.passed) / f64::from(outlook.retried))
}

fn by_cause(counts: impl Iterator<Item = (Cause, u64)>) -> Json {
    let counts: BTreeMap<_, _> = counts.map(|(cause, count)| (cause.word(), count)).collect();
    Json::Object(Fields(counts.into_iter().map(|(cause, count)| (cause.into(), to_json(&count))).collect()))
}
