//! Nodes that are open, and who is on them: first fit, and the account of what they cost.

use super::{
    fleet::Fleet,
    outcome::{FreeShare, NodeUsage},
};

/// Cores and memory that a build holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BuildSize {
    /// Thousandths of a core.
    pub(super) milli: u64,
    /// Bytes that are kept free for it.
    pub(super) memory: u64,
    /// Bytes at which it is stopped; never below `memory`.
    pub(super) limit: u64,
    /// The most that it uses, if it is not stopped before, bytes.
    pub(super) needs: u64,
    /// Whether the spread hint calls the build long: it shares nodes with other long ones where possible.
    pub(super) is_long: bool,
}

impl BuildSize {
    /// The most that it uses, bytes.
    pub(super) fn uses(self) -> u64 {
        self.needs.min(self.limit)
    }

    /// How much of that is above its request, bytes.
    fn above_request(self) -> u64 {
        self.uses().saturating_sub(self.memory)
    }
}

/// A build on its node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlacedBuild {
    pub(super) slot: NodeSlot,
    /// When it starts there.
    pub(super) start_ms: u64,
    /// Builds that the node's memory stops since then; it may be one of them.
    pub(super) evicted: Vec<usize>,
}

/// Where a build is: kind of node, and number among those of its kind.
pub(super) type NodeSlot = (usize, usize);

/// A node that is open.
#[derive(Debug, Clone)]
struct Node {
    free_milli: u64,
    free_memory: u64,
    /// The highest use of all its builds together, bytes, as if their peaks fell on the same moment. Of evicted ones their requests.
    peaks: u64,
    /// Builds that use more than their requests and are not evicted, with how much more, bytes.
    above_request: Vec<(u64, usize)>,
    builds: u32,
    /// Whether one of its builds is; says nothing when it has none.
    is_long: bool,
    /// When it can start builds.
    ready_ms: u64,
    /// Until when it is accounted for; the time of its last change.
    seen_ms: u64,
}

impl Node {
    /// Builds to stop, until the uses of the others fit: first those that use most above their requests, as the kernel and the kubelet
    /// choose. The requests themselves always fit.
    fn evict(&mut self, memory: u64) -> Vec<usize> {
        let mut evicted = Vec::new();
        while self.peaks > memory {
            let most = self.above_request.iter().enumerate().max_by_key(|(_, above)| **above);
            let Some((at, (above, build))) = most.map(|(at, above)| (at, *above)) else { break };
            self.above_request.swap_remove(at);
            self.peaks = self.peaks.saturating_sub(above);
            evicted.push(build);
        }
        evicted
    }
}

/// All nodes.
#[derive(Debug)]
pub(super) struct Nodes<'f> {
    fleet: &'f Fleet,
    boot_ms: u64,
    /// An empty node is closed after this; `None` for never.
    idle_ms: Option<u64>,
    /// Whether the length of builds is heeded.
    has_spread_hint: bool,
    /// By kind; a closed node leaves its place empty, and the next one takes the first such place.
    open: Vec<Vec<Option<Node>>>,
    used: NodeUsage,
}

impl<'f> Nodes<'f> {
    pub(super) fn new(fleet: &'f Fleet, boot_ms: u64, idle_ms: Option<u64>, has_spread_hint: bool) -> Self {
        let kinds = fleet.kinds.len();
        let used = NodeUsage { peaks: vec![0; kinds], ..NodeUsage::default() };
        Self { fleet, boot_ms, idle_ms, has_spread_hint, open: vec![Vec::new(); kinds], used }
    }

    /// A place for a build; `None` if it must wait.
    pub(super) fn assign_node(&mut self, build: usize, size: BuildSize, now_ms: u64) -> Option<PlacedBuild> {
        let slot = self.with_room(size).or_else(|| self.open_one(size, now_ms))?;
        self.account(slot, now_ms);
        let memory = self.memory(slot);
        let node = self.node(slot)?;
        node.free_milli = node.free_milli.saturating_sub(size.milli);
        node.free_memory = node.free_memory.saturating_sub(size.memory);
        node.is_long = size.is_long || (node.is_long && node.builds > 0);
        node.builds += 1;
        node.peaks = node.peaks.saturating_add(size.uses());
        if size.above_request() > 0 {
            node.above_request.push((size.above_request(), build));
        }
        Some(PlacedBuild { slot, start_ms: now_ms.max(node.ready_ms), evicted: node.evict(memory) })
    }

    /// A build has ended.
    pub(super) fn release(&mut self, build: usize, placed: (NodeSlot, BuildSize), now_ms: u64) {
        let (slot, size) = placed;
        self.account(slot, now_ms);
        if let Some(node) = self.node(slot) {
            node.free_milli += size.milli;
            node.free_memory += size.memory;
            let known = node.above_request.iter().position(|(_, other)| *other == build);
            let used = if known.is_some() { size.uses() } else { size.uses().min(size.memory) };
            if let Some(at) = known {
                node.above_request.swap_remove(at);
            }
            node.peaks = node.peaks.saturating_sub(used);
            node.builds -= 1;
        }
    }

    /// Closes all, and says what was used.
    pub(super) fn end(mut self, now_ms: u64) -> NodeUsage {
        self.close_idle(now_ms);
        for kind in 0..self.open.len() {
            for number in 0..self.open.get(kind).map_or(0, Vec::len) {
                self.account((kind, number), now_ms);
            }
        }
        self.used
    }

    /// The most cores and memory that any node, open or new, has free: a build that asks for more must wait.
    pub(super) fn most_free(&self) -> (u64, u64) {
        let mut most = (0, 0);
        for (nodes, kind) in self.open.iter().zip(&self.fleet.kinds) {
            let all_open = nodes.len() >= kind.most && nodes.iter().all(Option::is_some);
            let new = (!all_open).then_some((kind.milli, kind.memory.0));
            let free = nodes.iter().flatten().map(|node| (node.free_milli, node.free_memory));
            most = free.chain(new).fold(most, |most, free| (most.0.max(free.0), most.1.max(free.1)));
        }
        most
    }

    /// Total memory of a node, bytes.
    pub(super) fn memory(&self, (kind, _): NodeSlot) -> u64 {
        self.fleet.kinds.get(kind).map_or(0, |kind| kind.memory.0)
    }

    fn node(&mut self, (kind, number): NodeSlot) -> Option<&mut Node> {
        self.open.get_mut(kind)?.get_mut(number)?.as_mut()
    }

    /// The first node with room. With the spread hint the first that has builds of the same length alone, else one that has none,
    /// else any: a hint opens no node that is not needed.
    fn with_room(&self, size: BuildSize) -> Option<NodeSlot> {
        let has_room = |node: &Node| node.free_milli >= size.milli && node.free_memory >= size.memory;
        let any = || self.first(has_room);
        if !self.has_spread_hint {
            return any();
        }
        let same = |node: &Node| node.builds > 0 && node.is_long == size.is_long && has_room(node);
        let empty = |node: &Node| node.builds == 0 && has_room(node);
        self.first(same).or_else(|| self.first(empty)).or_else(any)
    }

    fn first(&self, suits: impl Fn(&Node) -> bool) -> Option<NodeSlot> {
        self.open.iter().enumerate().find_map(|(kind, nodes)| {
            let number = nodes.iter().position(|node| node.as_ref().is_some_and(&suits))?;
            Some((kind, number))
        })
    }

    fn open_one(&mut self, size: BuildSize, now_ms: u64) -> Option<NodeSlot> {
        for (kind, nodes) in self.open.iter_mut().enumerate() {
            let Some(of_kind) = self.fleet.kinds.get(kind) else { continue };
            let number = nodes.iter().position(Option::is_none).unwrap_or(nodes.len());
            if of_kind.milli < size.milli || of_kind.memory.0 < size.memory || number >= of_kind.most {
                continue;
            }
            let node = Node {
                free_milli: of_kind.milli,
                free_memory: of_kind.memory.0,
                peaks: 0,
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
            if let Some(peak) = self.used.peaks.get_mut(kind) {
                *peak = count.max(*peak);
            }
            let all = self.open.iter().flatten().flatten().count();
            self.used.peak = all.max(self.used.peak);
            return Some((kind, number));
        }
        None
    }

    /// Closes nodes that were empty for long enough before `now_ms`.
    pub(super) fn close_idle(&mut self, now_ms: u64) {
        let Some(idle_ms) = self.idle_ms else { return };
        let closes_at = |node: &Node| node.seen_ms.max(node.ready_ms).saturating_add(idle_ms);
        let mut closing: Vec<(NodeSlot, u64)> = Vec::new();
        for (kind, nodes) in self.open.iter().enumerate() {
            let places = nodes.iter().enumerate().filter_map(|(number, node)| Some((number, node.as_ref()?)));
            let empty = places.filter(|(_, node)| node.builds == 0);
            let due = empty.filter(|(_, node)| closes_at(node) <= now_ms);
            closing.extend(due.map(|(number, node)| ((kind, number), closes_at(node))));
        }
        for (slot, at_ms) in closing {
            self.account(slot, at_ms);
            if let Some(place) = self.open.get_mut(slot.0).and_then(|nodes| nodes.get_mut(slot.1)) {
                *place = None;
            }
        }
    }

    /// Adds what a node was since its last change.
    fn account(&mut self, slot: NodeSlot, now_ms: u64) {
        let Some(kind) = self.fleet.kinds.get(slot.0) else { return };
        let Some(node) = self.node(slot) else { return };
        let time_ms = now_ms.saturating_sub(node.seen_ms);
        let (milli, memory) = (node.free_milli, node.free_memory);
        node.seen_ms = now_ms.max(node.seen_ms);
        let free = FreeShare::of((milli, kind.milli), (memory, kind.memory.0));
        self.used.add(kind, free, time_ms);
    }
}
