//! Several readings in one row: means, and the highest need.

use crate::meter::Size;

/// The readings since the last sample.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Row {
    readings: u32,
    memory: u128,
    need: u128,
    need_max: u64,
}

impl Row {
    /// Takes one reading in.
    pub(super) fn add(&mut self, size: Size) {
        self.readings = self.readings.saturating_add(1);
        self.memory = self.memory.saturating_add(size.memory.into());
        self.need = self.need.saturating_add(size.need.into());
        self.need_max = self.need_max.max(size.need);
    }

    /// The means, and the highest need unless the row is one reading.
    pub(super) fn means(&self) -> (Size, Option<u64>) {
        let mean = |sum: u128| u64::try_from(sum / u128::from(self.readings.max(1))).unwrap_or(u64::MAX);
        let size = Size { memory: mean(self.memory), need: mean(self.need) };
        (size, (self.readings > 1).then_some(self.need_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_the_mean_and_the_highest_and_one_reading_is_itself() {
        let mut row = Row::default();
        row.add(Size { memory: u64::MAX, need: 10 });
        assert_eq!(row.means(), (Size { memory: u64::MAX, need: 10 }, None));
        row.add(Size { memory: u64::MAX, need: 31 });
        assert_eq!(row.means(), (Size { memory: u64::MAX, need: 20 }, Some(31)));
    }
}
