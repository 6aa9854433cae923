//! How many cores each build holds, and how much longer a build takes with too few.
//!
//! Each build has the same cores under every policy, so that the rows of a table differ only because of memory.

use std::{cmp::Reverse, collections::BinaryHeap};

use plimsoll_core::{
    domain::{Bytes, Millis},
    predict::Settings,
};

use crate::replay::{PolicyKind, ReplayTape, SizingPolicy, TapeRow};

/// Which cores each build holds in a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CpuRule {
    /// The cores that the recorded build requested.
    Asked,
    /// The cores that this server predicts for the build.
    Predicted,
}

impl CpuRule {
    /// Name of the rule on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Predicted => "predicted",
        }
    }

    /// Name of the rule in the heading of a table.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Asked => "cores as asked for",
            Self::Predicted => "cores as predicted",
        }
    }
}

/// The cores that each build holds, in thousandths of a core.
#[derive(Debug, Clone)]
pub struct SimulatedCores {
    /// For each row, thousandths of a core; above 0.
    millicores: Vec<u64>,
}

impl SimulatedCores {
    /// The CPU request in the file; `otherwise` for rows without one. In thousandths of a core.
    pub fn asked(tape: &ReplayTape, otherwise: u64) -> Self {
        let asked =
            |row: &TapeRow| if row.milli_asked > 0 { row.milli_asked.into() } else { otherwise.max(1) };
        Self { millicores: tape.rows.iter().map(asked).collect() }
    }

    /// Predicts the cores of each build from the builds that had ended before its start, by the recorded times,
    /// whatever the fleet and the policy are. `on_progress` gets the share that is done, once for every thousand rows.
    pub fn predicted(tape: &ReplayTape, settings: &Settings, mut on_progress: impl FnMut(f64)) -> Self {
        let mut policy = PolicyKind::Plimsoll.make(None, settings);
        // builds that are running, by the time of their end
        let mut running: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let mut milli = Vec::with_capacity(tape.rows.len());
        for (number, row) in tape.rows.iter().enumerate() {
            if number.is_multiple_of(1000) {
                on_progress(share(number, tape.rows.len()));
            }
            for ended in std::iter::from_fn(|| next_ended(&mut running, row.start_ms)) {
                teach_policy(policy.as_mut(), tape, ended);
            }
            let (ask, _) = tape.ask(number, row);
            milli.push(policy.plan(&ask).milli.unwrap_or_default().max(1));
            running.push(Reverse((row.start_ms.saturating_add(row.wall.0), number)));
        }
        Self { millicores: milli }
    }

    /// Thousandths of a core for the row with this number.
    pub(super) fn of(&self, row: usize) -> u64 {
        self.millicores.get(row).copied().unwrap_or(1).max(1)
    }
}

fn teach_policy(policy: &mut dyn SizingPolicy, tape: &ReplayTape, ended: usize) {
    if let Some(row) = tape.rows.get(ended) {
        let (ask, done) = tape.ask(ended, row);
        policy.learn(&ask, &done);
    }
}

/// Removes and returns the build that ended first, if it ended at or before `now_ms`.
fn next_ended(running: &mut BinaryHeap<Reverse<(u64, usize)>>, now_ms: u64) -> Option<usize> {
    let Reverse((end_ms, number)) = *running.peek()?;
    if end_ms > now_ms {
        return None;
    }
    running.pop();
    Some(number)
}

/// A part of a whole, as a share from 0 to 1.
pub(super) fn share(part: usize, whole: usize) -> f64 {
    let float = |count: usize| Bytes(u64::try_from(count).unwrap_or(u64::MAX)).as_f64();
    float(part) / float(whole).max(1.0)
}

/// How many times the recorded time a build takes with `milli` thousandths of a core; at least 1.
///
/// If a build used more cores on average than it holds, it takes longer in proportion, as if its node had no
/// free cores. If the file has a CPU request, use above that request is ignored: those cores were not
/// guaranteed in the recorded run either. The result is 1 if the file has no CPU time.
pub(super) fn slow_down_factor(row: &TapeRow, milli: u64) -> f64 {
    let used = Bytes(row.cpu.0).as_f64() / row.wall.as_f64().max(1.0);
    let promised = if row.milli_asked > 0 { used.min(f64::from(row.milli_asked)) } else { used };
    (promised / Bytes(milli.max(1)).as_f64()).max(1.0)
}

/// Wall time of the attempt with `milli` thousandths of a core.
pub(super) fn wall_with_cores(row: &TapeRow, milli: u64) -> Millis {
    Millis::from_f64((row.wall.as_f64() * slow_down_factor(row, milli)).ceil())
}
