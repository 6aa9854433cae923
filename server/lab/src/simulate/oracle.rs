//! The least that any sizes can take.
//!
//! Every build needs its memory and its cores for its time, however it is packed. So the open nodes together have at least as many GiB x hours
//! and core x hours as all builds need. The oracle's row is the cheapest set of node hours that has both: no lost attempt, no gap between
//! builds, no empty node. It is a bound and not a plan: no packing is below it, and mostly none reaches it.
//!
//! First fit with the exact needs would be no bound. With other sizes builds come to other nodes, and by chance these may close earlier.

use plimsoll_core::domain::{Bytes, Millis};

use super::{
    cores::slow_down,
    fleet::{Fleet, NodeKind},
    outcome::{FleetOutcome, NodeUsage},
    rows::SimulatedRows,
};

/// Sum of the needs of all builds.
#[derive(Debug, Clone, Copy, Default)]
struct TotalNeed {
    core_hours: f64,
    gib_hours: f64,
}

/// The bound for the builds of the window. Each of its numbers is the least by itself: the nodes that cost least need not be the fewest.
pub(super) fn outcome(rows: SimulatedRows<'_>, fleet: &Fleet) -> FleetOutcome {
    let mut outcome = FleetOutcome { is_bound: true, ..FleetOutcome::default() };
    let mut need = TotalNeed::default();
    for (number, row) in rows.simulated() {
        outcome.builds += 1;
        let milli = rows.cores.of(number);
        let fits = fleet.kinds.iter().filter(|kind| kind.memory >= row.peak);
        let Some((least, most)) = bounds(fits.map(|kind| kind.milli.min(milli))) else {
            outcome.given_up += 1;
            continue;
        };
        // fewer cores make a build slower: the fewest bound the core hours, the most the time for which it needs its memory
        need.core_hours += Bytes(least).as_f64() / 1000.0 * row.wall.hours() * slow_down(row, least);
        need.gib_hours += row.peak.gib_hours(row.wall) * slow_down(row, most);
    }
    outcome.used = need.nodes(fleet);
    outcome
}

/// The least and the most.
fn bounds(mut values: impl Iterator<Item = u64>) -> Option<(u64, u64)> {
    let first = values.next()?;
    Some(values.fold((first, first), |(least, most), value| (least.min(value), most.max(value))))
}

impl TotalNeed {
    fn nodes(self, fleet: &Fleet) -> NodeUsage {
        let core_hours = self.least(fleet, cores);
        let gib_hours = self.least(fleet, gib);
        NodeUsage {
            node_hours: self.least(fleet, |_| 1.0),
            core_hours,
            free_core_hours: (core_hours - self.core_hours).max(0.0),
            gib_hours,
            free_gib_hours: (gib_hours - self.gib_hours).max(0.0),
            money: self.least(fleet, |kind| kind.price_hour),
            ..NodeUsage::default()
        }
    }

    /// The least cost of node hours that have enough of both: a linear program with two conditions. One of its best solutions uses one kind of
    /// node, or two with nothing free.
    fn least(self, fleet: &Fleet, cost: impl Fn(&NodeKind) -> f64) -> f64 {
        let one = fleet.kinds.iter().map(|kind| {
            let hours = (self.core_hours / cores(kind)).max(self.gib_hours / gib(kind));
            hours * cost(kind)
        });
        let pairs = fleet.kinds.iter().enumerate().flat_map(|(at, first)| {
            fleet
                .kinds
                .iter()
                .skip(at + 1)
                .filter_map(move |second| Some((first, second, self.mix(first, second)?)))
        });
        let two = pairs.map(|(first, second, (hours, others))| hours * cost(first) + others * cost(second));
        one.chain(two).fold(f64::INFINITY, f64::min)
    }

    /// Hours of two kinds that have exactly both needs.
    fn mix(self, first: &NodeKind, second: &NodeKind) -> Option<(f64, f64)> {
        let determinant = cores(first) * gib(second) - cores(second) * gib(first);
        let hours = (self.core_hours * gib(second) - self.gib_hours * cores(second)) / determinant;
        let others = (self.gib_hours * cores(first) - self.core_hours * gib(first)) / determinant;
        (hours.is_finite() && others.is_finite() && hours >= 0.0 && others >= 0.0).then_some((hours, others))
    }
}

fn cores(kind: &NodeKind) -> f64 {
    Bytes(kind.milli).as_f64() / 1000.0
}

fn gib(kind: &NodeKind) -> f64 {
    kind.memory.gib_hours(Millis(3_600_000))
}
