//! Computes the least that any sizes and any packing can need.
//!
//! Every build needs its memory and its cores for its time, on whichever node it runs. So all open nodes
//! together need at least as many GiB x hours and core x hours as all builds. The oracle's row is the cheapest
//! set of node hours that has both, with no lost attempts, no gaps between builds and no empty nodes. It is a
//! lower bound and not a plan: no packing is below it, and usually none reaches it.
//!
//! First fit with the exact needs would not be a lower bound: with other sizes builds run on other nodes, and
//! these may by chance close earlier.

use plimsoll_core::domain::{Bytes, Millis};

use super::{
    cores::slow_down_factor,
    fleet::{Fleet, NodeKind},
    outcome::{FleetOutcome, NodeUsage},
    rows::SimulatedRows,
};

/// Total need of all builds.
#[derive(Debug, Clone, Copy, Default)]
struct TotalNeed {
    core_hours: f64,
    gib_hours: f64,
}

/// The lower bound for the builds of the window. Each number is the lowest by itself: the cheapest set of nodes
/// need not be the one with the fewest nodes.
pub(super) fn outcome(rows: SimulatedRows<'_>, fleet: &Fleet) -> FleetOutcome {
    let mut outcome = FleetOutcome { is_bound: true, ..FleetOutcome::default() };
    let mut need = TotalNeed::default();
    for (number, row) in rows.simulated() {
        outcome.builds += 1;
        let milli = rows.cores.of(number);
        let fits = fleet.kinds.iter().filter(|kind| kind.memory >= row.peak);
        let Some((least, most)) = least_and_most(fits.map(|kind| kind.millicores.min(milli))) else {
            outcome.given_up += 1;
            continue;
        };
        // fewer cores make a build slower: the fewest cores give the lowest core hours, the most cores the
        // shortest time in memory
        need.core_hours += Bytes(least).as_f64() / 1000.0 * row.wall.hours() * slow_down_factor(row, least);
        need.gib_hours += row.peak.gib_hours(row.wall) * slow_down_factor(row, most);
    }
    outcome.used = need.least_usage(fleet);
    outcome
}

/// The lowest and the highest value.
fn least_and_most(mut values: impl Iterator<Item = u64>) -> Option<(u64, u64)> {
    let first = values.next()?;
    Some(values.fold((first, first), |(least, most), value| (least.min(value), most.max(value))))
}

impl TotalNeed {
    fn least_usage(self, fleet: &Fleet) -> NodeUsage {
        let core_hours = self.least_cost(fleet, kind_cores);
        let gib_hours = self.least_cost(fleet, kind_gib);
        NodeUsage {
            node_hours: self.least_cost(fleet, |_| 1.0),
            core_hours,
            free_core_hours: (core_hours - self.core_hours).max(0.0),
            gib_hours,
            free_gib_hours: (gib_hours - self.gib_hours).max(0.0),
            money: self.least_cost(fleet, |kind| kind.price_hour),
            ..NodeUsage::default()
        }
    }

    /// The lowest cost of node hours that have enough cores and memory. This is a linear program with two
    /// conditions: one of its best solutions has one kind of node, or two kinds with nothing free.
    fn least_cost(self, fleet: &Fleet, cost: impl Fn(&NodeKind) -> f64) -> f64 {
        let one = fleet.kinds.iter().map(|kind| {
            let hours = (self.core_hours / kind_cores(kind)).max(self.gib_hours / kind_gib(kind));
            hours * cost(kind)
        });
        let pairs = fleet.kinds.iter().enumerate().flat_map(|(at, first)| {
            fleet
                .kinds
                .iter()
                .skip(at + 1)
                .filter_map(move |second| Some((first, second, self.exact_mix(first, second)?)))
        });
        let two = pairs.map(|(first, second, (hours, others))| hours * cost(first) + others * cost(second));
        one.chain(two).fold(f64::INFINITY, f64::min)
    }

    /// The hours of two kinds of nodes that together have exactly the needed cores and memory.
    fn exact_mix(self, first: &NodeKind, second: &NodeKind) -> Option<(f64, f64)> {
        let determinant = kind_cores(first) * kind_gib(second) - kind_cores(second) * kind_gib(first);
        let hours = (self.core_hours * kind_gib(second) - self.gib_hours * kind_cores(second)) / determinant;
        let others = (self.gib_hours * kind_cores(first) - self.core_hours * kind_gib(first)) / determinant;
        (hours.is_finite() && others.is_finite() && hours >= 0.0 && others >= 0.0).then_some((hours, others))
    }
}

fn kind_cores(kind: &NodeKind) -> f64 {
    Bytes(kind.millicores).as_f64() / 1000.0
}

fn kind_gib(kind: &NodeKind) -> f64 {
    kind.memory.gib_hours(Millis(3_600_000))
}
