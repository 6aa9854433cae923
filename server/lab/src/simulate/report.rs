//! Prints outcomes as tables or as JSON.

use std::fmt::Write as _;

use plimsoll_core::domain::Millis;

use super::{CpuRule, Fleet, FleetOutcome};
use plimsoll_proto::figures::counted;

/// Text below a table that explains its columns.
const COLUMN_NOTES: &str = "Nodes: most that were open at once. Core h: cores of open nodes x hours; free: what no build held; stranded: the part of \
     that for which no memory was left on its node. Wait: of a build in all, for room and for new nodes. Lost: attempts that needed more \
     memory than they were given, with their time and the memory that they had meanwhile; given up: builds that need more than any node \
     has.\n";
/// Text that explains the column of evicted attempts.
const EVICTED_NOTE: &str = "Evicted: of the lost attempts those that were above their request on a node whose builds together needed more than it has.\n";
/// Text that explains the column of additional time.
const SLOWER_NOTE: &str = "Slower h: what all attempts took longer because they held fewer cores than they used; contained in the hours of nodes.\n";
/// Text that explains the oracle's row.
const ORACLE_NOTE: &str = "Oracle: the least that any sizes can take, with exactly the needs and full nodes; each number is a bound by itself.\n";
/// Cell for a value that a lower bound does not have.
const NO_VALUE: &str = "-";
/// Text in place of the column of money, if there are no prices.
const NO_PRICES_NOTE: &str = "No money: no prices are given. Give --prices GIB_HOUR/CORE_HOUR, or a price of a node for an hour, as in --nodes 16x64GiB@3.20.\n";

/// The outcomes for one fleet, each with the name of its policy.
#[derive(Debug)]
pub struct FleetReport<'f> {
    /// The fleet.
    pub fleet: &'f Fleet,
    /// The cores that all builds hold.
    pub cpu: CpuRule,
    /// The outcomes by name of the policy, in the order of the table.
    pub outcomes: Vec<(String, FleetOutcome)>,
}

/// Which optional columns a table has.
#[derive(Debug, Clone, Copy)]
struct ShownColumns<'c> {
    /// Whether the table has the column of evicted attempts: some row has limits above its requests.
    evicted: bool,
    /// Whether the table has the column of additional time: some build takes longer than recorded.
    slower: bool,
    /// Heading of the column of money; `None` without prices.
    money: Option<&'c str>,
}

impl FleetReport<'_> {
    /// Most open nodes; with several kinds also by kind, as `12 (8+4)`.
    fn nodes(outcome: &FleetOutcome) -> String {
        if outcome.is_bound {
            return NO_VALUE.to_owned();
        }
        match outcome.used.peaks.as_slice() {
            [_] | [] => outcome.used.peak.to_string(),
            several => {
                let parts: Vec<String> = several.iter().map(ToString::to_string).collect();
                format!("{} ({})", outcome.used.peak, parts.join("+"))
            }
        }
    }

    /// The heading and the rows of the table, as cells.
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
        let evicted = shown.evicted.then_some("evicted");
        let head =
            head.into_iter().chain(evicted).chain(shown.slower.then_some("slower h")).chain(shown.money);
        let rows = self.outcomes.iter().map(|(name, outcome)| row(name, outcome, shown));
        [head.map(str::to_owned).collect()].into_iter().chain(rows).collect()
    }
}

fn row(name: &str, outcome: &FleetOutcome, shown: ShownColumns<'_>) -> Vec<String> {
    let used = &outcome.used;
    let wait = |share| if outcome.is_bound { NO_VALUE.to_owned() } else { outcome.wait(share).to_string() };
    let mut row = vec![
        name.to_owned(),
        FleetReport::nodes(outcome),
        format!("{:.1}", used.node_hours),
        format!("{:.1}", used.core_hours),
        format!("{:.1}", used.free_core_hours),
        format!("{:.1}", used.stranded_core_hours),
        wait(0.5),
        wait(0.95),
        outcome.lost.to_string(),
        format!("{:.1}", outcome.lost_hours),
        format!("{:.1}", outcome.lost_gib_hours),
        outcome.given_up.to_string(),
    ];
    row.extend(shown.evicted.then(|| outcome.evicted.to_string()));
    row.extend(shown.slower.then(|| format!("{:.1}", outcome.slower_hours)));
    row.extend(shown.money.map(|_| format!("{:.2}", used.money)));
    row
}

/// The cells as lines: the first column is aligned left, the others right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
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

/// Whether any kind of node has a price.
fn has_prices(all: &[FleetReport<'_>]) -> bool {
    all.iter().flat_map(|report| &report.fleet.kinds).any(|kind| kind.price_hour > 0.0)
}

/// A table for each fleet, for people.
pub fn text(all: &[FleetReport<'_>], currency: &str) -> String {
    let currency = if currency.is_empty() { "money" } else { currency };
    let money = has_prices(all).then_some(currency);
    let any = |is: fn(&FleetOutcome) -> bool| {
        all.iter().flat_map(|report| &report.outcomes).any(|(_, outcome)| is(outcome))
    };
    let shown = ShownColumns {
        evicted: any(|outcome| outcome.has_limits),
        slower: any(|outcome| outcome.slower_hours > 0.0),
        money,
    };
    let mut text = String::new();
    for report in all {
        let builds = counted(report.outcomes.first().map_or(0, |(_, outcome)| outcome.builds), "build");
        let table = aligned(&report.cells(shown));
        let _written =
            writeln!(text, "nodes {}, {builds}, {}\n{table}", report.fleet.name, report.cpu.words());
    }
    text.push_str(COLUMN_NOTES);
    text.push_str(if shown.evicted { EVICTED_NOTE } else { "" });
    text.push_str(if shown.slower { SLOWER_NOTE } else { "" });
    text.push_str(if any(|outcome| outcome.is_bound) { ORACLE_NOTE } else { "" });
    text.push_str(if money.is_none() { NO_PRICES_NOTE } else { "" });
    text
}

/// The outcomes as one JSON object. Money is null without prices; so are values that a lower bound does not
/// have.
pub fn json(all: &[FleetReport<'_>], currency: &str) -> String {
    let priced = has_prices(all);
    let fleets: Vec<serde_json::Value> = all
        .iter()
        .map(|shown| {
            let outcomes: Vec<serde_json::Value> =
                shown.outcomes.iter().map(|named| outcome_json(named, shown.fleet, priced)).collect();
            serde_json::json!({ "nodes": shown.fleet.name, "cpu": shown.cpu.name(), "outcomes": outcomes })
        })
        .collect();
    serde_json::json!({ "currency": currency, "fleets": fleets }).to_string()
}

fn outcome_json((name, outcome): &(String, FleetOutcome), fleet: &Fleet, priced: bool) -> serde_json::Value {
    let used = &outcome.used;
    let kinds: Vec<serde_json::Value> = fleet
        .kinds
        .iter()
        .zip(&used.peaks)
        .map(|(kind, peak)| serde_json::json!({ "kind": kind.name, "nodes": peak }))
        .collect();
    let of_nodes = |value: u64| (!outcome.is_bound).then_some(value);
    serde_json::json!({
        "sizes": name,
        "bound": outcome.is_bound,
        "builds": outcome.builds,
        "nodes": (!outcome.is_bound).then_some(used.peak),
        "kinds": kinds,
        "node_hours": used.node_hours,
        "core_hours": used.core_hours,
        "free_core_hours": used.free_core_hours,
        "stranded_core_hours": used.stranded_core_hours,
        "gib_hours": used.gib_hours,
        "free_gib_hours": used.free_gib_hours,
        "wait_p50_ms": of_nodes(outcome.wait(0.5).0),
        "wait_p95_ms": of_nodes(outcome.wait(0.95).0),
        "wait_max_ms": of_nodes(outcome.wait(1.0).0),
        "lost": outcome.lost,
        "lost_hours": outcome.lost_hours,
        "lost_gib_hours": outcome.lost_gib_hours,
        "given_up": outcome.given_up,
        "clamped": outcome.clamped,
        "evicted": outcome.evicted,
        "slower_hours": outcome.slower_hours,
        "span_hours": (!outcome.is_bound).then(|| Millis(outcome.span_ms).hours()),
        "money": priced.then_some(used.money),
    })
}
