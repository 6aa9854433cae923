//! The open nodes and the builds on them: chooses nodes by first fit, and adds up what the nodes cost.

use super::{
    fleet::Fleet,
    outcome::{FreeShare, NodeUsage},
};

/// The size of a build on a node, and what it really needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BuildSize {
    /// Cores of the build, in thousandths.
    pub(super) millicores: u64,
    /// Memory that the node reserves for the build, bytes.
    pub(super) memory: u64,
    /// Memory at which the build is stopped, bytes; never below `memory`.
    pub(super) limit: u64,
    /// Memory that the build uses if it is not stopped, bytes.
    pub(super) peak_use: u64,
    /// Whether the build is predicted to be long, so that it shares nodes with other long builds where
    /// possible.
    pub(super) is_long: bool,
}

impl BuildSize {
    /// The most memory that the build uses before it ends or is stopped, bytes.
    pub(super) fn uses(self) -> u64 {
        self.peak_use.min(self.limit)
    }

    /// The part of the build's use that is above its request, bytes.
    fn above_request(self) -> u64 {
        self.uses().saturating_sub(self.memory)
    }
}

/// The result of starting a build on a node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlacedBuild {
    pub(super) slot: NodeSlot,
    /// When the build starts: later than now if the node is still booting.
    pub(super) start_ms: u64,
    /// Builds on the node that are stopped because its memory is now too small; the new build may be among
    /// them.
    pub(super) evicted: Vec<usize>,
}

/// Identifies a node: index of its kind, and index among the nodes of its kind.
pub(super) type NodeSlot = (usize, usize);

/// An open node: its free resources, and its builds.
#[derive(Debug, Clone)]
struct Node {
    free_milli: u64,
    free_memory: u64,
    /// Memory use of all builds of the node, bytes, if all reach their peak at the same time. Evicted builds
    /// count with their requests.
    total_peak: u64,
    /// Builds that use more than their requests and are not evicted: the bytes above the request, and the
    /// number of the build.
    above_request: Vec<(u64, usize)>,
    builds: u32,
    /// Whether one of the node's builds is long; meaningless if the node has no builds.
    is_long: bool,
    /// When the node has booted and can start builds.
    ready_ms: u64,
    /// Until when the node's cost was added up: the time of its last change.
    seen_ms: u64,
}

impl Node {
    /// Chooses builds to stop until the others fit: those that use most above their requests come first, as the
    /// kernel and the kubelet choose. The requests alone always fit.
    fn evict(&mut self, memory: u64) -> Vec<usize> {
        let mut evicted = Vec::new();
        while self.total_peak > memory {
            let most = self.above_request.iter().enumerate().max_by_key(|(_, above)| **above);
            let Some((at, (above, build))) = most.map(|(at, above)| (at, *above)) else { break };
            self.above_request.swap_remove(at);
            self.total_peak = self.total_peak.saturating_sub(above);
            evicted.push(build);
        }
        evicted
    }
}

/// The nodes of a fleet.
#[derive(Debug)]
pub(super) struct Nodes<'f> {
    fleet: &'f Fleet,
    boot_ms: u64,
    /// A node that is empty for this long is closed; `None` for never.
    idle_ms: Option<u64>,
    /// Whether long builds are kept on nodes of their own.
    has_spread_hint: bool,
    /// The open nodes by kind. A closed node leaves a free place, which the next opened node takes.
    open_by_kind: Vec<Vec<Option<Node>>>,
    usage: NodeUsage,
}

impl<'f> Nodes<'f> {
    pub(super) fn new(fleet: &'f Fleet, boot_ms: u64, idle_ms: Option<u64>, has_spread_hint: bool) -> Self {
        let kinds = fleet.kinds.len();
        let used = NodeUsage { peaks: vec![0; kinds], ..NodeUsage::default() };
        Self { fleet, boot_ms, idle_ms, has_spread_hint, open_by_kind: vec![Vec::new(); kinds], usage: used }
    }

    /// Assigns a node to a build; `None` if the build must wait.
    pub(super) fn assign_node(&mut self, build: usize, size: BuildSize, now_ms: u64) -> Option<PlacedBuild> {
        let slot = self.first_with_room(size).or_else(|| self.open_one(size, now_ms))?;
        self.account_node(slot, now_ms);
        let memory = self.memory(slot);
        let node = self.node(slot)?;
        node.free_milli = node.free_milli.saturating_sub(size.millicores);
        node.free_memory = node.free_memory.saturating_sub(size.memory);
        node.is_long = size.is_long || (node.is_long && node.builds > 0);
        node.builds += 1;
        node.total_peak = node.total_peak.saturating_add(size.uses());
        if size.above_request() > 0 {
            node.above_request.push((size.above_request(), build));
        }
        Some(PlacedBuild { slot, start_ms: now_ms.max(node.ready_ms), evicted: node.evict(memory) })
    }

    /// Removes a build that has ended from its node.
    pub(super) fn release_build(&mut self, build: usize, placed: (NodeSlot, BuildSize), now_ms: u64) {
        let (slot, size) = placed;
        self.account_node(slot, now_ms);
        if let Some(node) = self.node(slot) {
            node.free_milli += size.millicores;
            node.free_memory += size.memory;
            let known = node.above_request.iter().position(|(_, other)| *other == build);
            let used = if known.is_some() { size.uses() } else { size.uses().min(size.memory) };
            if let Some(at) = known {
                node.above_request.swap_remove(at);
            }
            node.total_peak = node.total_peak.saturating_sub(used);
            node.builds -= 1;
        }
    }

    /// Ends the simulation; returns what all nodes used.
    pub(super) fn close_all(mut self, now_ms: u64) -> NodeUsage {
        self.close_idle(now_ms);
        for kind in 0..self.open_by_kind.len() {
            for number in 0..self.open_by_kind.get(kind).map_or(0, Vec::len) {
                self.account_node((kind, number), now_ms);
            }
        }
        self.usage
    }

    /// The most cores and the most memory that are free on any node, open or not yet opened. A build that
    /// requests more must wait.
    pub(super) fn most_free(&self) -> (u64, u64) {
        let mut most = (0, 0);
        for (nodes, kind) in self.open_by_kind.iter().zip(&self.fleet.kinds) {
            let all_open = nodes.len() >= kind.most_open && nodes.iter().all(Option::is_some);
            let new = (!all_open).then_some((kind.millicores, kind.memory.0));
            let free = nodes.iter().flatten().map(|node| (node.free_milli, node.free_memory));
            most = free.chain(new).fold(most, |most, free| (most.0.max(free.0), most.1.max(free.1)));
        }
        most
    }

    /// Memory of a node, bytes.
    pub(super) fn memory(&self, (kind, _): NodeSlot) -> u64 {
        self.fleet.kinds.get(kind).map_or(0, |kind| kind.memory.0)
    }

    fn node(&mut self, (kind, number): NodeSlot) -> Option<&mut Node> {
        self.open_by_kind.get_mut(kind)?.get_mut(number)?.as_mut()
    }

    /// The first node that has room for the build. With the spread hint, a node that has only builds of the
    /// same length comes first, then an empty node, then any other: the hint never opens an additional node.
    fn first_with_room(&self, size: BuildSize) -> Option<NodeSlot> {
        let has_room = |node: &Node| node.free_milli >= size.millicores && node.free_memory >= size.memory;
        let any = || self.first_suitable(has_room);
        if !self.has_spread_hint {
            return any();
        }
        let same = |node: &Node| node.builds > 0 && node.is_long == size.is_long && has_room(node);
        let empty = |node: &Node| node.builds == 0 && has_room(node);
        self.first_suitable(same).or_else(|| self.first_suitable(empty)).or_else(any)
    }

    fn first_suitable(&self, suits: impl Fn(&Node) -> bool) -> Option<NodeSlot> {
        self.open_by_kind.iter().enumerate().find_map(|(kind, nodes)| {
            let number = nodes.iter().position(|node| node.as_ref().is_some_and(&suits))?;
            Some((kind, number))
        })
    }

    fn open_one(&mut self, size: BuildSize, now_ms: u64) -> Option<NodeSlot> {
        for (kind, nodes) in self.open_by_kind.iter_mut().enumerate() {
            let Some(of_kind) = self.fleet.kinds.get(kind) else { continue };
            let number = nodes.iter().position(Option::is_none).unwrap_or(nodes.len());
            if of_kind.millicores < size.millicores
                || of_kind.memory.0 < size.memory
                || number >= of_kind.most_open
            {
                continue;
            }
            let node = Node {
                free_milli: of_kind.millicores,
                free_memory: of_kind.memory.0,
                total_peak: 0,
                above_request: Vec::new(),
                builds: 0,
                is_long: size.is_long,
                ready_ms: now_ms.saturating_add(self.boot_ms),
                seen_ms: now_ms,
            };
            match nodes.get_mut(number) {
                Some(place) => *place = Some(node),
                None => nodes.push(Some(node)),
            }
            let count = nodes.iter().flatten().count();
            if let Some(peak) = self.usage.peaks.get_mut(kind) {
                *peak = count.max(*peak);
            }
            let all = self.open_by_kind.iter().flatten().flatten().count();
            self.usage.peak = all.max(self.usage.peak);
            return Some((kind, number));
        }
        None
    }

    /// Closes the nodes that have been empty for long enough at `now_ms`.
    pub(super) fn close_idle(&mut self, now_ms: u64) {
        let Some(idle_ms) = self.idle_ms else { return };
        let closes_at = |node: &Node| node.seen_ms.max(node.ready_ms).saturating_add(idle_ms);
        let mut closing: Vec<(NodeSlot, u64)> = Vec::new();
        for (kind, nodes) in self.open_by_kind.iter().enumerate() {
            let places = nodes.iter().enumerate().filter_map(|(number, node)| Some((number, node.as_ref()?)));
            let empty = places.filter(|(_, node)| node.builds == 0);
            let due = empty.filter(|(_, node)| closes_at(node) <= now_ms);
            closing.extend(due.map(|(number, node)| ((kind, number), closes_at(node))));
        }
        for (slot, at_ms) in closing {
            self.account_node(slot, at_ms);
            if let Some(place) = self.open_by_kind.get_mut(slot.0).and_then(|nodes| nodes.get_mut(slot.1)) {
                *place = None;
            }
        }
    }

    /// Adds the cost and use of a node since its last change.
    fn account_node(&mut self, slot: NodeSlot, now_ms: u64) {
        let Some(kind) = self.fleet.kinds.get(slot.0) else { return };
        let Some(node) = self.node(slot) else { return };
        let time_ms = now_ms.saturating_sub(node.seen_ms);
        let (milli, memory) = (node.free_milli, node.free_memory);
        node.seen_ms = now_ms.max(node.seen_ms);
        let free = FreeShare::of((milli, kind.millicores), (memory, kind.memory.0));
        self.usage.add(kind, free, time_ms);
    }
}
