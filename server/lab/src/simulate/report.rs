//! Outcomes as tables and as JSON.

use std::fmt::Write as _;

use plimsoll_core::domain::Millis;

use super::{Fleet, FleetOutcome};
use plimsoll_proto::figures::counted;

/// What the columns mean.
const COLUMNS: &str = "Nodes: most that were open at once. Core h: cores of open nodes x hours; free: what no build held; stranded: the part of \
     that for which no memory was left on its node. Wait: of a build in all, for room and for new nodes. Lost: attempts that needed more \
     memory than they were given, with their time and the memory that they had meanwhile; given up: builds that need more than any node \
     has.\n";
/// What a row with a request and a higher limit adds.
const TIGHT: &str = "Tight: builds that started where the peaks of all builds on the node are more than its memory, if they fall together.\n";
/// Instead of a column of zeros.
const NO_PRICES: &str = "No money: no prices are given. Give --prices GIB_HOUR/CORE_HOUR, or a price of a node for an hour, as in --nodes 16x64GiB@3.20.\n";

/// The outcomes of one fleet, each with the name of its sizes.
#[derive(Debug)]
pub struct FleetReport<'f> {
    /// The nodes.
    pub fleet: &'f Fleet,
    /// In the order of the table.
    pub outcomes: Vec<(String, FleetOutcome)>,
}

/// Which columns a table has beside those that all have.
#[derive(Debug, Clone, Copy)]
struct ShownColumns<'c> {
    /// Some row has limits above its requests.
    tight: bool,
    /// The head of the column of money, if there are prices.
    money: Option<&'c str>,
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

    /// Head and rows, cell by cell.
    fn cells(&self, shown: ShownColumns<'_>) -> Vec<Vec<String>> {
        let head = [
            "sizes",
            "nodes",
            "node·h",
            "core·h",
            "free",
            "stranded",
            "wait p50",
            "wait p95",
            "lost",
            "lost h",
            "lost GiB·h",
            "given up",
        ];
        let head = head.into_iter().chain(shown.tight.then_some("tight")).chain(shown.money);
        let rows = self.outcomes.iter().map(|(name, outcome)| row(name, outcome, shown));
        [head.map(str::to_owned).collect()].into_iter().chain(rows).collect()
    }
}

fn row(name: &str, outcome: &FleetOutcome, shown: ShownColumns<'_>) -> Vec<String> {
    let used = &outcome.used;
    let mut row = vec![
        name.to_owned(),
        FleetReport::nodes(outcome),
        format!("{:.1}", used.node_hours),
        format!("{:.1}", used.core_hours),
        format!("{:.1}", used.free_core_hours),
        format!("{:.1}", used.stranded_core_hours),
        outcome.wait(0.5).to_string(),
        outcome.wait(0.95).to_string(),
        outcome.lost.to_string(),
        format!("{:.1}", outcome.lost_hours),
        format!("{:.1}", outcome.lost_gib_hours),
        outcome.given_up.to_string(),
    ];
    row.extend(shown.tight.then(|| used.tight_starts.to_string()));
    row.extend(shown.money.map(|_| format!("{:.2}", used.money)));
    row
}

/// Cells in columns, all but the first to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).filter_map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _written = match at {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}

/// Whether some kind of node has a price.
fn has_prices(all: &[FleetReport<'_>]) -> bool {
    all.iter().flat_map(|report| &report.fleet.kinds).any(|kind| kind.price_hour > 0.0)
}

/// A table for each fleet, for people.
pub fn text(all: &[FleetReport<'_>], currency: &str) -> String {
    let currency = if currency.is_empty() { "money" } else { currency };
    let money = has_prices(all).then_some(currency);
    let tight = all.iter().flat_map(|report| &report.outcomes).any(|(_, outcome)| outcome.has_limits);
    let mut text = String::new();
    for report in all {
        let builds = report.outcomes.first().map_or(0, |(_, outcome)| outcome.builds);
        let table = aligned(&report.cells(ShownColumns { tight, money }));
        let _written = writeln!(text, "nodes {}, {}\n{table}", report.fleet.name, counted(builds, "build"));
    }
    text.push_str(COLUMNS);
    text.push_str(if tight { TIGHT } else { "" });
    text.push_str(if money.is_none() { NO_PRICES } else { "" });
    text
}

/// One JSON object. Money is null where no prices are given.
pub fn json(all: &[FleetReport<'_>], currency: &str) -> String {
    let priced = has_prices(all);
    let fleets: Vec<serde_json::Value> = all
        .iter()
        .map(|shown| {
            let outcomes: Vec<serde_json::Value> =
                shown.outcomes.iter().map(|named| one(named, shown.fleet, priced)).collect();
            serde_json::json!({ "nodes": shown.fleet.name, "outcomes": outcomes })
        })
        .collect();
    serde_json::json!({ "currency": currency, "fleets": fleets }).to_string()
}

fn one((name, outcome): &(String, FleetOutcome), fleet: &Fleet, priced: bool) -> serde_json::Value {
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
        "lost_gib_hours": outcome.lost_gib_hours,
        "given_up": outcome.given_up,
        "clamped": outcome.clamped,
        "tight_starts": used.tight_starts,
        "span_hours": Millis(outcome.span_ms).hours(),
        "money": priced.then_some(used.money),
    })
}
