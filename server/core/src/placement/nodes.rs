//! Nodes of a cluster that the operator lists, and how many builds of given kinds run on them at once.
//!
//! The scheduler of the cluster places pods by its own labels. The file repeats the labels for programs without access to the cluster: the
//! capacity of a Koji builder is the number of builds that nodes take of the kinds with a task in Koji (osbs-docs, "Koji Builder
//! Capacity").

use std::collections::BTreeMap;

use super::{BuildKind, LimitKey, NodePlacement, Placement};

/// A node of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Name of the node.
    pub name: String,
    /// Labels of the node.
    pub labels: BTreeMap<String, String>,
    /// Number of builds that the node runs at once; at least 1.
    pub at_once: u32,
}

/// How many builds of given kinds run at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindsCapacity<'p> {
    /// Most builds at once, if no build of another kind runs.
    pub builds: u64,
    /// Most builds that the nodes alone allow; more than `builds` if a limit of tickets is lower.
    pub on_nodes: u64,
    /// The nodes that take at least one of the kinds, in the order of the file.
    pub nodes: Vec<&'p str>,
}

impl Node {
    /// Whether the node's labels satisfy a node selector.
    pub fn suits(&self, place: &NodePlacement) -> bool {
        place.node_selector.iter().all(|(label, value)| self.labels.get(label) == Some(value))
    }
}

impl Placement {
    /// All nodes, in the order of the file.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether a node takes builds of a kind: it has all labels that the kind selects.
    pub fn node_takes(&self, node: &Node, kind: BuildKind) -> bool {
        self.kind(kind).is_none_or(|policy| node.suits(&policy.place))
    }

    /// How many builds of these kinds run at once: limited by the nodes that take them, by `at_once` of each kind, and by `at_once` of all
    /// tickets.
    pub fn capacity(&self, kinds: &[BuildKind]) -> KindsCapacity<'_> {
        let takes_any =
            |node: &&Node, kinds: &[BuildKind]| kinds.iter().any(|kind| self.node_takes(node, *kind));
        let on = |kinds: &[BuildKind]| -> u64 {
            self.nodes.iter().filter(|node| takes_any(node, kinds)).map(|node| u64::from(node.at_once)).sum()
        };
        let limit =
            |kind: &BuildKind| self.kind(*kind).and_then(|policy| policy.at_once).map_or(u64::MAX, u64::from);
        // the largest flow from kinds to nodes equals the smallest cut (Ford, Fulkerson, 1956): kinds on one side of the cut are limited by
        // their nodes, the others by their own limits
        let cut = |bits: u32| {
            let (by_nodes, by_limits): (Vec<_>, Vec<_>) =
                (0_u32..).zip(kinds).partition(|(at, _)| (bits >> at) & 1 == 1);
            let by_nodes: Vec<BuildKind> = by_nodes.into_iter().map(|(_, kind)| *kind).collect();
            by_limits.into_iter().map(|(_, kind)| limit(kind)).fold(on(&by_nodes), u64::saturating_add)
        };
        let cuts = (0..1_u32 << kinds.len().min(BuildKind::ALL.len())).map(cut);
        let all = self.terms.limits.limit_of(&LimitKey::All).map_or(u64::MAX, u64::from);
        KindsCapacity {
            builds: cuts.min().unwrap_or_default().min(all),
            on_nodes: on(kinds),
            nodes: self
                .nodes
                .iter()
                .filter(|node| takes_any(node, kinds))
                .map(|node| node.name.as_str())
                .collect(),
        }
    }
}
