//! Which builds are simulated, and what each holds.

use super::cores::SimulatedCores;
use crate::replay::{ReplayTape, TapeRow};

/// Which rows are simulated; those before them are only learned from, and those behind them are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowWindow {
    /// First time of arrival, milliseconds since 1970.
    pub from_ms: u64,
    /// First time that is too late.
    pub until_ms: u64,
}

impl RowWindow {
    pub(super) fn simulates(self, row: &TapeRow) -> bool {
        (self.from_ms..self.until_ms).contains(&row.start_ms) && !row.stopped
    }
}

/// The builds that are simulated.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedRows<'t> {
    /// Recorded history.
    pub tape: &'t ReplayTape,
    /// Which part of it.
    pub window: RowWindow,
    /// The cores that each build holds.
    pub cores: &'t SimulatedCores,
}

impl<'t> SimulatedRows<'t> {
    /// The rows that are simulated, with their numbers. A build that memory stopped is not among them, because its need is not known.
    pub(super) fn simulated(self) -> impl Iterator<Item = (usize, &'t TapeRow)> {
        self.tape.rows.iter().enumerate().filter(move |(_, row)| self.window.simulates(row))
    }
}
