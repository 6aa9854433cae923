//! A row of this program's own export. Its field `summary` has the whole summary of the attempt, so the other
//! columns are not read.

use plimsoll_core::domain::{AttemptId, Bytes, Key, Phase, Summary};
use plimsoll_proto::{key::KEY_TEXTS, limits};
use serde_json::Value;

use super::{draft::Record, refusals::RowRefusal};

/// Reads a record from the field `summary`.
pub(super) fn read(line: u64, summary: Value) -> Result<Record, RowRefusal> {
    let refuse = |reason: String| RowRefusal { line, column: "summary", reason };
    let summary: Summary = serde_json::from_value(summary).map_err(|error| refuse(error.to_string()))?;
    check(&summary).map_err(refuse)?;
    Ok(Record { line, summary, timed: true, unnamed_rows: None })
}

/// Checks the limits of the wire: an attempt that no agent could have sent is refused in a file too.
fn check(summary: &Summary) -> Result<(), String> {
    AttemptId::parse(&summary.attempt.to_string()).map_err(|reason| format!("attempt: {reason}"))?;
    check_key(&summary.key)?;
    if summary.wall.0 > limits::ELAPSED_MS {
        return Err(format!("wall: {} is above {} ms", summary.wall.0, limits::ELAPSED_MS));
    }
    let largest = summary.need_peak.max(summary.memory_peak).max(summary.need_mean);
    if largest > Bytes(limits::MEMORY_BYTES) {
        return Err(format!("memory: {} is above {} bytes", largest.0, limits::MEMORY_BYTES));
    }
    Phase::check_all(&summary.phases, summary.wall).map_err(|fault| fault.to_string())
}

fn check_key(key: &Key) -> Result<(), String> {
    if key.package.is_empty() {
        return Err("key.package: is empty".to_owned());
    }
    if key.labels.len() > limits::LABELS {
        return Err(format!("key.labels: more than {}", limits::LABELS));
    }
    let texts = KEY_TEXTS.into_iter().zip(key.texts()).map(|((name, most), text)| (name, text, most));
    let labels = key.labels.iter().flat_map(|(name, value)| [name, value]);
    let labels = labels.map(|text| ("labels", text.as_str(), limits::LABEL_BYTES));
    for (name, text, most) in texts.chain(labels) {
        if text.len() > most || text.chars().any(char::is_control) {
            return Err(format!("key.{name}: has control characters or more than {most} bytes"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::test_summary;

    use super::*;

    fn value(change: impl FnOnce(&mut Summary)) -> Value {
        let mut summary = test_summary("a", "zlib", "1", 10);
        change(&mut summary);
        serde_json::to_value(summary).unwrap()
    }

    #[test]
    fn what_was_exported_comes_back_as_it_was() {
        let summary = test_summary("a", "zlib", "1", 10);
        let record = read(3, value(|_| ())).unwrap();
        assert_eq!((record.summary, record.line, record.timed), (summary, 3, true));
    }

    #[test]
    fn summaries_outside_wire_limits_are_refused() {
        let cases: [(Value, &str); 5] = [
            (value(|s| s.key.package = "x".repeat(300)), "key"),
            (value(|s| s.key.package = String::new()), "key.package"),
            (value(|s| s.wall.0 = u64::MAX), "wall"),
            (value(|s| s.need_peak.0 = u64::MAX), "memory"),
            (Value::Bool(true), "invalid type"),
        ];
        for (value, word) in cases {
            let refusal = read(1, value).unwrap_err();
            assert_eq!(refusal.column, "summary");
            assert!(refusal.reason.contains(word), "{}", refusal.reason);
        }
        let mut odd = value(|_| ());
        odd["attempt"] = Value::from("a b");
        assert!(read(1, odd).unwrap_err().reason.contains("attempt"));
    }
}
