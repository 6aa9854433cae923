//! Outcomes as tables and as JSON.

use std::fmt::Write as _;

use plimsoll_core::domain::Millis;

use super::{Fleet, FleetOutcome};
use plimsoll_proto::figures::counted;

/// The outcomes of one fleet, each with the name of its sizes.
#[derive(Debug)]
pub struct FleetReport<'f> {
    /// The nodes.
    pub fleet: &'f Fleet,
    /// In the order of the table.
    pub outcomes: Vec<(String, FleetOutcome)>,
}

impl FleetReport<'_> {
    /// Peaks by kind, as `12 (8+4)` where there are several.
    fn nodes(outcome: &FleetOutcome) -> String {
        match outcome.used.peaks.as_slice() {
            [_] | [] => outcome.used.peak.to_string(),
            several => {
                let parts: Vec<String> = several.iter().map(ToString::to_string).collect();
                format!("{} ({})", outcome.used.peak, parts.join("+"))
            }
        }
    }
}

/// A table for each fleet, for people.
pub fn text(all: &[FleetReport<'_>], currency: &str) -> String {
    let mut text = String::new();
    for shown in all {
        let first = shown.outcomes.first().map(|(_, outcome)| outcome);
        let builds = first.map_or(0, |outcome| outcome.builds);
        let _written = writeln!(text, "nodes {}, {}", shown.fleet.name, counted(builds, "build"));
        let _written = writeln!(
            text,
            "{:<24} {:>12} {:>9} {:>9} {:>9} {:>9} {:>11} {:>11} {:>6} {:>8} {:>11}",
            "sizes",
            "nodes",
            "node·h",
            "core·h",
            "free",
            "stranded",
            "wait p50",
            "wait p95",
            "lost",
            "given up",
            if currency.is_empty() { "money" } else { currency },
        );
        for (name, outcome) in &shown.outcomes {
            let used = &outcome.used;
            let _written = writeln!(
                text,
                "{name:<24} {:>12} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>11} {:>11} {:>6} {:>8} {:>11.2}",
                FleetReport::nodes(outcome),
                used.node_hours,
                used.core_hours,
                used.free_core_hours,
                used.stranded_core_hours,
                outcome.wait(0.5).to_string(),
                outcome.wait(0.95).to_string(),
                outcome.lost,
                outcome.given_up,
                used.money,
            );
        }
        text.push('\n');
    }
    text.push_str(
        "Nodes: most that were open at once. Core h: cores of open nodes x hours; free: what no build held; stranded: the part of that \
         for which no memory was left on its node. Wait: of a build in all, for room and for new nodes. Lost: attempts that needed \
         more memory than they were given; given up: builds that need more than any node has.\n",
    );
    text
}

/// One JSON object.
pub fn json(all: &[FleetReport<'_>], currency: &str) -> String {
    let fleets: Vec<serde_json::Value> = all
        .iter()
        .map(|shown| {
            let outcomes: Vec<serde_json::Value> =
                shown.outcomes.iter().map(|(name, outcome)| one(name, shown.fleet, outcome)).collect();
            serde_json::json!({ "nodes": shown.fleet.name, "outcomes": outcomes })
        })
        .collect();
    serde_json::json!({ "currency": currency, "fleets": fleets }).to_string()
}

fn one(name: &str, fleet: &Fleet, outcome: &FleetOutcome) -> serde_json::Value {
    let used = &outcome.used;
    let kinds: Vec<serde_json::Value> = fleet
        .kinds
        .iter()
        .zip(&used.peaks)
        .map(|(kind, peak)| serde_json::json!({ "kind": kind.name, "nodes": peak }))
        .collect();
    serde_json::json!({
        "sizes": name,
        "builds": outcome.builds,
        "nodes": used.peak,
        "kinds": kinds,
        "node_hours": used.node_hours,
        "core_hours": used.core_hours,
        "free_core_hours": used.free_core_hours,
        "stranded_core_hours": used.stranded_core_hours,
        "gib_hours": used.gib_hours,
        "free_gib_hours": used.free_gib_hours,
        "wait_p50_ms": outcome.wait(0.5).0,
        "wait_p95_ms": outcome.wait(0.95).0,
        "wait_max_ms": outcome.wait(1.0).0,
        "lost": outcome.lost,
        "lost_hours": outcome.lost_hours,
        "given_up": outcome.given_up,
        "clamped": outcome.clamped,
        "span_hours": Millis(outcome.span_ms).hours(),
        "money": used.money,
    })
}
