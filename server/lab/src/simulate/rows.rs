//! Which builds are simulated, and the cores that each holds.

use super::cores::SimulatedCores;
use crate::replay::{ReplayTape, TapeRow};

/// The time of the rows that are simulated. The policy only learns from earlier rows; later rows are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowWindow {
    /// First arrival that is simulated, milliseconds since 1970.
    pub from_ms: u64,
    /// First arrival that is not simulated any more, milliseconds since 1970.
    pub until_ms: u64,
}

impl RowWindow {
    pub(super) fn simulates(self, row: &TapeRow) -> bool {
        (self.from_ms..self.until_ms).contains(&row.start_ms) && !row.stopped
    }
}

/// The rows for a simulation.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedRows<'t> {
    /// The recorded attempts.
    pub tape: &'t ReplayTape,
    /// Which of the rows are simulated.
    pub window: RowWindow,
    /// The cores that each build holds.
    pub cores: &'t SimulatedCores,
}

impl<'t> SimulatedRows<'t> {
    /// The rows that are simulated, with their numbers. Builds that were stopped for lack of memory are left
    /// out, because their need is unknown.
    pub(super) fn simulated(self) -> impl Iterator<Item = (usize, &'t TapeRow)> {
        self.tape.rows.iter().enumerate().filter(move |(_, row)| self.window.simulates(row))
    }
}
