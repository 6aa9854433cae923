//! Simulates the builds with the sizes of one policy.

use std::{cmp::Reverse, collections::BinaryHeap};

use plimsoll_core::{
    domain::{Bytes, Millis},
    predict::{Settings, request_after_eviction},
};

use super::{
    cores::{share, wall_with_cores},
    fleet::Fleet,
    nodes::{BuildSize, NodeSlot, Nodes},
    oracle,
    outcome::FleetOutcome,
    rows::SimulatedRows,
    waiting::WaitingBuilds,
};
use crate::replay::{FinishedBuild, PolicyKind, PolicyQuestion, SizingPolicy};

/// A build is given up after this many tries; doubling reaches the size of the largest node much earlier.
const MAX_TRIES: u32 = 60;

/// Settings of a simulation that all fleets and policies share.
#[derive(Debug, Clone)]
pub struct SimulationTerms {
    /// Memory request for rows without one.
    pub memory: Option<Bytes>,
    /// Time that a new node needs before it can start builds.
    pub boot: Millis,
    /// A node that is empty for this long is closed; `None` for never.
    pub idle: Option<Millis>,
    /// Settings of the predictions.
    pub settings: Settings,
}

/// An event of the simulation. If events have the same time, ends come before arrivals, because they free
/// space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum BuildEvent {
    /// A recorded attempt that is not simulated has ended: the policy learns from it.
    Taught { row: usize },
    /// A simulated build has left its node.
    Ended { build: usize },
}

/// A build in the simulation.
#[derive(Debug)]
struct SimulatedBuild {
    row_number: usize,
    size: BuildSize,
    slot: Option<NodeSlot>,
    /// When the build began its current wait.
    waits_since_ms: u64,
    waited_ms: u64,
    tries: u32,
    /// Whether the build's current try is stopped because its node has too little memory.
    evicted: bool,
}

/// Where the sizes of the builds come from.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedSizes {
    /// The policy that chooses the sizes.
    pub kind: PolicyKind,
    /// If set, builds with a longer predicted p95 of wall time are kept on nodes of their own where possible.
    pub spread: Option<Millis>,
}

/// Simulates the sizes of one policy on one fleet.
pub fn run(
    rows: SimulatedRows<'_>,
    fleet: &Fleet,
    sizes: SimulatedSizes,
    terms: &SimulationTerms,
    mut on_progress: impl FnMut(f64),
) -> FleetOutcome {
    let SimulatedRows { tape, window, .. } = rows;
    let SimulatedSizes { kind, spread } = sizes;
    if kind.foresees() {
        return oracle::outcome(rows, fleet);
    }
    let nodes = Nodes::new(fleet, terms.boot.0, terms.idle.map(|idle| idle.0), spread.is_some());
    let policy = kind.make(None, &terms.settings);
    let mut day = SimulatedDay {
        rows,
        fleet,
        terms,
        spread,
        policy,
        nodes,
        builds: Vec::new(),
        queue: WaitingBuilds::new(),
        events: BinaryHeap::new(),
        outcome: FleetOutcome { has_limits: kind.has_limits(), ..FleetOutcome::default() },
    };
    let mut now_ms = window.from_ms;
    for (number, row) in tape.rows.iter().enumerate().filter(|(_, row)| row.start_ms < window.until_ms) {
        if number.is_multiple_of(1000) {
            on_progress(share(number, tape.rows.len()));
        }
        now_ms = day.run_until(row.start_ms).unwrap_or(now_ms);
        if window.simulates(row) {
            now_ms = row.start_ms;
            day.build_arrives(number, now_ms);
        } else {
            // not simulated: the policy learns from the attempt when it ends
            let end = row.start_ms.saturating_add(row.wall.0);
            day.events.push(Reverse((end, BuildEvent::Taught { row: number })));
        }
    }
    now_ms = day.run_until(u64::MAX).unwrap_or(now_ms).max(now_ms);
    let SimulatedDay { nodes, mut outcome, builds, .. } = day;
    outcome.waits_ms = builds.iter().map(|build| build.waited_ms).collect();
    outcome.waits_ms.sort_unstable();
    outcome.used = nodes.close_all(now_ms);
    let first =
        builds.first().and_then(|build| tape.rows.get(build.row_number)).map_or(now_ms, |row| row.start_ms);
    outcome.span_ms = now_ms.saturating_sub(first);
    outcome
}

struct SimulatedDay<'d> {
    rows: SimulatedRows<'d>,
    fleet: &'d Fleet,
    terms: &'d SimulationTerms,
    spread: Option<Millis>,
    policy: Box<dyn SizingPolicy>,
    nodes: Nodes<'d>,
    builds: Vec<SimulatedBuild>,
    /// Builds that wait for a node, the oldest first.
    queue: WaitingBuilds,
    events: BinaryHeap<Reverse<(u64, BuildEvent)>>,
    outcome: FleetOutcome,
}

impl SimulatedDay<'_> {
    /// Handles all events up to this time; returns the time of the last end of a build.
    fn run_until(&mut self, until_ms: u64) -> Option<u64> {
        let mut last_end = None;
        while let Some(Reverse((now_ms, event))) = self.events.peek().copied() {
            if now_ms > until_ms {
                break;
            }
            self.events.pop();
            match event {
                BuildEvent::Taught { row } => self.teach_policy(row),
                BuildEvent::Ended { build } => {
                    last_end = Some(now_ms);
                    self.nodes.close_idle(now_ms);
                    self.build_ended(build, now_ms);
                    self.start_waiting(now_ms);
                }
            }
        }
        last_end
    }

    fn question_of(&self, number: usize) -> Option<(PolicyQuestion, FinishedBuild)> {
        let row = self.rows.tape.rows.get(number)?;
        let (mut ask, done) = self.rows.tape.ask(number, row);
        ask.preset = ask.preset.or_else(|| self.terms.memory.map(Bytes::as_f64));
        Some((ask, done))
    }

    fn teach_policy(&mut self, number: usize) {
        if let Some((ask, done)) = self.question_of(number) {
            self.policy.learn(&ask, &done);
        }
    }

    fn build_arrives(&mut self, row: usize, now_ms: u64) {
        let Some((ask, done)) = self.question_of(row) else { return };
        let plan = self.policy.plan(&ask);
        let is_long = self.spread.zip(plan.wall_p95).is_some_and(|(from, p95)| p95 > from);
        let [memory, limit] =
            [plan.memory.request, plan.memory.limit].map(|size| Bytes::from_f64(size.max(1.0)).0);
        let needs = Bytes::from_f64(done.peak).0;
        let milli = self.rows.cores.of(row);
        let size =
            self.clamp_to_fleet(BuildSize { millicores: milli, memory, limit, peak_use: needs, is_long });
        let build = self.builds.len();
        self.builds.push(SimulatedBuild {
            row_number: row,
            size,
            slot: None,
            waits_since_ms: now_ms,
            waited_ms: 0,
            tries: 0,
            evicted: false,
        });
        self.outcome.builds += 1;
        self.nodes.close_idle(now_ms);
        if !self.start(build, now_ms) {
            self.queue.push(build, size);
        }
    }

    fn clamp_to_fleet(&mut self, size: BuildSize) -> BuildSize {
        let (milli, memory) = self.fleet.clamp(size.millicores, size.memory);
        self.outcome.clamped += u64::from((milli, memory) != (size.millicores, size.memory));
        // if the limit was equal to the request, it stays so
        let limit = if size.limit == size.memory { memory } else { size.limit.max(memory) };
        BuildSize { millicores: milli, memory, limit, ..size }
    }

    /// Starts a build on a node; returns whether a node has room.
    fn start(&mut self, number: usize, now_ms: u64) -> bool {
        let Some(build) = self.builds.get_mut(number) else { return false };
        let Some(placed) = self.nodes.assign_node(number, build.size, now_ms) else { return false };
        (build.slot, build.evicted) = (Some(placed.slot), false);
        build.tries += 1;
        build.waited_ms += placed.start_ms.saturating_sub(build.waits_since_ms);
        if let Some(row) = self.rows.tape.rows.get(build.row_number) {
            let wall = wall_with_cores(row, build.size.millicores);
            self.outcome.slower_hours += wall.saturating_sub(row.wall).hours();
            self.events
                .push(Reverse((placed.start_ms.saturating_add(wall.0), BuildEvent::Ended { build: number })));
        }
        for evicted in placed.evicted {
            if let Some(build) = self.builds.get_mut(evicted) {
                build.evicted = true;
            }
        }
        true
    }

    /// Tries to start each waiting build, the oldest first.
    fn start_waiting(&mut self, now_ms: u64) {
        // a build as large as one that did not fit does not fit either, because each start leaves less room
        let mut in_vain: Vec<BuildSize> = Vec::new();
        let (mut from, mut most) = (0, self.nodes.most_free());
        loop {
            let mut too_large = |(milli, memory)| {
                let as_large = |other: &BuildSize| milli >= other.millicores && memory >= other.memory;
                milli > most.0 || memory > most.1 || in_vain.iter().any(as_large)
            };
            let Some((at, number, size)) = self.queue.first(from, &mut too_large) else { return };
            if self.start(number, now_ms) {
                self.queue.remove(at);
                most = self.nodes.most_free();
            } else {
                in_vain.retain(|other| other.millicores < size.millicores || other.memory < size.memory);
                in_vain.push(size);
            }
            from = at + 1;
        }
    }

    /// Handles a build that has left its node: it has succeeded, or it is tried again with the next size.
    fn build_ended(&mut self, number: usize, now_ms: u64) {
        let Some(build) = self.builds.get(number) else { return };
        let (row, size, tries, evicted) = (build.row_number, build.size, build.tries, build.evicted);
        // a limit above the node's memory has no effect: the build is stopped when the node has no memory left
        let stopped_at = build.slot.map_or(size.limit, |slot| size.limit.min(self.nodes.memory(slot)));
        if let Some(slot) = build.slot {
            self.nodes.release_build(number, (slot, size), now_ms);
        }
        let Some((ask, done)) = self.question_of(row) else { return };
        if !evicted && Bytes(stopped_at).as_f64() >= done.peak {
            self.policy.learn(&ask, &done);
            return;
        }
        self.record_loss(row, size, stopped_at);
        let failed = if evicted { size.memory } else { stopped_at };
        // an evicted build is retried as the server's verdict would do it: its use becomes its request, the
        // limit stays
        let [memory, limit] = if evicted {
            let request = request_after_eviction(Bytes(size.uses()), Bytes(size.limit)).0;
            [request, size.limit.max(request)]
        } else {
            [self.next(&ask, failed); 2]
        };
        let size = BuildSize { memory, limit, ..size };
        self.outcome.evicted += u64::from(evicted);
        let (_, memory) = self.fleet.clamp(size.millicores, size.memory);
        if memory <= failed || tries >= MAX_TRIES {
            self.outcome.given_up += 1;
            return;
        }
        let size = self.clamp_to_fleet(size);
        if let Some(build) = self.builds.get_mut(number) {
            (build.size, build.waits_since_ms) = (size, now_ms);
        }
        if !self.start(number, now_ms) {
            self.queue.push(number, size);
        }
    }

    /// The next size of the policy after `failed` bytes were too little, bytes.
    fn next(&mut self, ask: &PolicyQuestion, failed: u64) -> u64 {
        let failed = Bytes(failed).as_f64();
        let next = self.policy.size_after_failure(ask, failed);
        Bytes::from_f64(if next > failed { next } else { failed * 2.0 }).0
    }

    /// Counts a lost attempt.
    fn record_loss(&mut self, row: usize, size: BuildSize, stopped_at: u64) {
        let Some(row) = self.rows.tape.rows.get(row) else { return };
        let wall = wall_with_cores(row, size.millicores);
        self.outcome.lost += 1;
        self.outcome.lost_hours += wall.hours();
        self.outcome.lost_gib_hours += Bytes(stopped_at.min(size.uses())).gib_hours(wall);
    }
}
