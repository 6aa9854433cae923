//! The outcome of a simulation: what the builds needed, and what the nodes cost.

use plimsoll_core::domain::{Bytes, Millis};

use super::fleet::NodeKind;

/// The free share of a node's cores and memory, 0 to 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct FreeShare {
    cores: f64,
    memory: f64,
}

impl FreeShare {
    /// The shares; each argument has the free amount and the total.
    pub(super) fn of(cores: (u64, u64), memory: (u64, u64)) -> Self {
        let share = |(part, whole)| Bytes(part).as_f64() / Bytes(whole).as_f64().max(1.0);
        Self { cores: share(cores), memory: share(memory) }
    }
}

/// Use and cost of all nodes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeUsage {
    /// Most nodes that were open at once.
    pub peak: usize,
    /// For each kind, the most nodes that were open at once; each kind may have its maximum at another time.
    pub(crate) peaks: Vec<usize>,
    /// Hours of open nodes.
    pub(crate) node_hours: f64,
    /// Core hours of open nodes.
    pub core_hours: f64,
    /// The part of `core_hours` that no build held.
    pub(crate) free_core_hours: f64,
    /// The part of `free_core_hours` that no build could use, because its node had no memory left for them. If
    /// a third of a node's cores and a quarter of its memory are free, a twelfth of its cores is stranded.
    pub(crate) stranded_core_hours: f64,
    /// GiB hours of open nodes.
    pub gib_hours: f64,
    /// The part of `gib_hours` that no build held.
    pub free_gib_hours: f64,
    /// Cost, in the currency of the prices; 0 without prices.
    pub money: f64,
}

impl NodeUsage {
    pub(super) fn add(&mut self, kind: &NodeKind, free: FreeShare, time_ms: u64) {
        let hours = Millis(time_ms).hours();
        let core_hours = Bytes(kind.millicores).as_f64() / 1000.0 * hours;
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
    /// Whether the numbers are a lower bound for any sizes, and not the result of a simulation.
    pub(crate) is_bound: bool,
    /// Whether builds have limits above their requests.
    pub(crate) has_limits: bool,
    /// Number of builds.
    pub builds: u64,
    /// Number of attempts that were lost because they needed more memory than their limit, or than their node
    /// had left.
    pub lost: u64,
    /// Number of the lost attempts that used more than their request on a node that had less memory than its
    /// builds needed together. 0 if all limits equal the requests.
    pub evicted: u64,
    /// Wall time of the lost attempts, hours.
    pub(crate) lost_hours: f64,
    /// Memory of the lost attempts over their time, GiB x h.
    pub(crate) lost_gib_hours: f64,
    /// Additional time of all attempts that held fewer cores than they used, hours.
    pub slower_hours: f64,
    /// Number of builds that need more memory than any node has.
    pub given_up: u64,
    /// Number of builds that requested more than any node has, and got as much as the largest node has.
    pub clamped: u64,
    /// Total waiting time of each build, milliseconds, sorted.
    pub(crate) waits_ms: Vec<u64>,
    /// Use and cost of the nodes.
    pub used: NodeUsage,
    /// Time from the arrival of the first build to the end of the last one, milliseconds.
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
