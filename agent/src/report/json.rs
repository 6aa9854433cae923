//! The report for programs: one JSON object in a file, with the names and units of the wire.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use plimsoll_proto::v1::{OomOrigin, Phase};
use serde_json::{Value, json};

use super::{End, Facts, advice};
use crate::ask::json::{render_prediction, render_verdict};

/// Writes the file in one step: whoever reads it finds the old one, or the whole new one.
///
/// # Errors
/// The folder cannot be written to.
pub(crate) fn write(facts: &Facts, path: &Path) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.draft", std::process::id()));
    let draft = path.with_file_name(name);
    let made = File::create_new(&draft).and_then(|mut file| {
        writeln!(file, "{:#}", value(facts))?;
        file.sync_all()?;
        fs::rename(&draft, path)
    });
    if made.is_err() {
        drop(fs::remove_file(&draft));
    }
    made
}

fn value(facts: &Facts) -> Value {
    let (totals, asked, delivery) = (&facts.totals, &facts.resources, &facts.delivery);
    let exit = facts.end.exit().unwrap_or_default();
    // both were made by serde_json a moment ago
    let parse = |text: String| serde_json::from_str(&text).unwrap_or(Value::Null);
    json!({
        "attempt": facts.attempt,
        "name": facts.name,
        "exit": { "code": exit.code, "signal": exit.signal },
        "followed_until": match &facts.end { End::Followed(until) => Some(until), End::Exited(_) => None },
        "wall_ms": u64::try_from(facts.wall.as_millis()).unwrap_or(u64::MAX),
        "resources": {
            "memory_request_bytes": asked.memory_request_bytes,
            "memory_limit_bytes": asked.memory_limit_bytes,
            "cpu_request_cores": asked.cpu_request_cores,
            "cpu_limit_cores": asked.cpu_limit_cores,
        },
        "totals": {
            "need_peak_bytes": totals.need_peak_bytes,
            "memory_peak_bytes": totals.memory_peak_bytes,
            "cpu_usec": totals.cpu_usec,
            "throttled_usec": totals.throttled_usec,
            "starved_ms": totals.starved_ms,
            "memory_stall_usec": totals.memory_stall_usec,
            "refaults": totals.refaults,
            "reclaim_failures": totals.reclaim_failures,
            "oom_kill": totals.oom_kill,
            "oom_group_kill": totals.oom_group_kill,
            "oom_origin": origin(totals.oom_origin()),
        },
        "phases": facts.phases.iter().map(phase).collect::<Vec<_>>(),
        "peak_phase": facts.peak_phase().map(|phase| &phase.name),
        "need_curve_bytes": facts.curve,
        "delivery": {
            "delivered": delivery.delivered,
            "lost": delivery.lost,
            "kept": delivery.kept,
            "problem": delivery.problem,
        },
        "prediction": facts.advice.prediction.as_ref().map(|prediction| parse(render_prediction(prediction))),
        "verdict": facts.advice.verdict.as_ref().map(|verdict| parse(render_verdict(verdict))),
        "advice_problem": facts.advice.problem,
        "memory_request_from_need_bytes": advice::from_need(facts),
    })
}

fn phase(phase: &Phase) -> Value {
    json!({
        "name": phase.name,
        "started_ms": phase.started_ms,
        "wall_ms": phase.wall_ms,
        "need_peak_bytes": phase.need_peak_bytes,
        "cpu_usec": phase.cpu_usec,
    })
}

fn origin(origin: OomOrigin) -> Option<&'static str> {
    match origin {
        OomOrigin::Unspecified => None,
        OomOrigin::OwnLimit => Some("own_limit"),
        OomOrigin::LimitAbove => Some("limit_above"),
        OomOrigin::Host => Some("host"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole_or_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        fs::write(&path, "old").unwrap();
        let facts = Facts { attempt: "job-7".to_owned(), ..Facts::default() };
        write(&facts, &path).unwrap();
        let read: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!((&read["attempt"], &read["totals"]["need_peak_bytes"]), (&"job-7".into(), &Value::Null));
        assert!(write(&facts, &dir.path().join("absent/report.json")).is_err());
        assert!(write(&facts, Path::new("/")).is_err());
        // a folder in its place: the draft must not stay
        fs::create_dir(dir.path().join("folder")).unwrap();
        assert!(write(&facts, &dir.path().join("folder")).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
