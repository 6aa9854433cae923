//! What a day would have taken.

use plimsoll_core::domain::{Bytes, Millis};

use super::fleet::NodeKind;

/// Unused shares of a node, 0 to 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct FreeShare {
    cores: f64,
    memory: f64,
}

impl FreeShare {
    /// The resources that are free and that exist, cores and memory.
    pub(super) fn of(cores: (u64, u64), memory: (u64, u64)) -> Self {
        let share = |(part, whole)| Bytes(part).as_f64() / Bytes(whole).as_f64().max(1.0);
        Self { cores: share(cores), memory: share(memory) }
    }
}

/// Use and cost of nodes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeUsage {
    /// Most nodes that were open at once.
    pub peak: usize,
    /// Most nodes of each kind that were open at once, each kind at its own time.
    pub(crate) peaks: Vec<usize>,
    /// Open nodes x hours.
    pub(crate) node_hours: f64,
    /// Cores of open nodes x hours.
    pub core_hours: f64,
    /// Core hours of these that no build held.
    pub(crate) free_core_hours: f64,
    /// Of these the part for which no memory was left on its node: if a third of the cores is free and a quarter of the memory, a
    /// twelfth of the node's cores is stranded.
    pub(crate) stranded_core_hours: f64,
    /// GiB of open nodes x hours.
    pub gib_hours: f64,
    /// GiB hours of these that no build held.
    pub free_gib_hours: f64,
    /// Cost, in the currency of the prices; 0 without prices.
    pub money: f64,
}

impl NodeUsage {
    pub(super) fn add(&mut self, kind: &NodeKind, free: FreeShare, time_ms: u64) {
        let hours = Millis(time_ms).hours();
        let core_hours = Bytes(kind.milli).as_f64() / 1000.0 * hours;
        let gib_hours = kind.memory.gib_hours(Millis(time_ms));
        self.node_hours += hours;
        self.core_hours += core_hours;
        self.free_core_hours += core_hours * free.cores;
        self.stranded_core_hours += core_hours * (free.cores - free.memory).max(0.0);
        self.gib_hours += gib_hours;
        self.free_gib_hours += gib_hours * free.memory;
        self.money += kind.price_hour * hours;
    }
}

/// The result of one policy's sizes on one fleet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetOutcome {
    /// Whether it is the least that any sizes can take, and not what nodes were.
    pub(crate) is_bound: bool,
    /// Whether builds have limits above their requests.
    pub(crate) has_limits: bool,
    /// Builds that count.
    pub builds: u64,
    /// Attempts that were lost because they needed more memory than they were given, or than their node had.
    pub lost: u64,
    /// Attempts of these that used more than their request on a node whose builds together need more than it has. With requests alone there
    /// are none.
    pub evicted: u64,
    /// Wall time of those, hours.
    pub(crate) lost_hours: f64,
    /// Memory that they had x hours, GiB x h.
    pub(crate) lost_gib_hours: f64,
    /// Time that all attempts took longer because they held fewer cores than they used, hours.
    pub slower_hours: f64,
    /// Builds that need more memory than any node has.
    pub given_up: u64,
    /// Builds that asked for more than any node has, and got the largest.
    pub clamped: u64,
    /// Time that each build waited in all, milliseconds, sorted.
    pub(crate) waits_ms: Vec<u64>,
    /// Use and cost of the nodes.
    pub used: NodeUsage,
    /// Time from the first arrival to the last end, milliseconds.
    pub(crate) span_ms: u64,
}

impl FleetOutcome {
    /// The waiting time that this share of the builds did not exceed (nearest rank).
    pub fn wait(&self, share: f64) -> Millis {
        let ranks = Bytes(u64::try_from(self.waits_ms.len()).unwrap_or(u64::MAX)).as_f64();
        let rank = usize::try_from(Bytes::from_f64((ranks * share).ceil()).0).unwrap_or(usize::MAX);
        Millis(self.waits_ms.get(rank.saturating_sub(1)).copied().unwrap_or(0))
    }
}
