//! A block of rows. It is copied as a whole if one of its rows changes while a query reads them.

use crate::domain::{AttemptBrief, RescueTotals};
use crate::stats::{
    attempts::interner::NONE,
    attempts::labels::Label,
    attempts::row::{AttemptRow, RetryMark, RowFlag},
};

/// Most rows of one chunk: copying that many takes a fraction of a millisecond.
pub(in crate::stats) const ROWS_PER_CHUNK: usize = 2048;

/// A block of rows, in no particular order.
#[derive(Debug, Clone, Default)]
pub(in crate::stats) struct Chunk {
    rows: Vec<AttemptRow>,
    /// Prediction error of each row ([`crate::stats::attempts::row::error_of`]); empty while all of them are NaN.
    errors: Vec<f32>,
    /// What rescue did in each row; empty while it acted in none of them.
    rescues: Vec<Option<Box<RescueTotals>>>,
    /// The values of each label that any row has.
    labels: Vec<LabelColumn>,
    /// Earliest and latest end among the rows, seconds since 1970.
    ended: Option<(u32, u32)>,
}

/// The values of one label, one for each row.
#[derive(Debug, Clone)]
struct LabelColumn {
    label: u8,
    values: Vec<u16>,
}

/// A row with its prediction error, what rescue did, and its labels.
#[derive(Debug, Clone)]
pub(in crate::stats) struct FullRow {
    pub(in crate::stats) row: AttemptRow,
    pub(in crate::stats) error: f32,
    pub(in crate::stats) rescue: Option<Box<RescueTotals>>,
    pub(in crate::stats) labels: Vec<Label>,
}

impl Chunk {
    pub(in crate::stats) fn rows(&self) -> &[AttemptRow] {
        &self.rows
    }

    pub(in crate::stats) fn is_full(&self) -> bool {
        self.rows.len() >= ROWS_PER_CHUNK
    }

    /// Earliest and latest end, seconds since 1970; `None` without rows.
    pub(in crate::stats) fn end_range(&self) -> Option<(u32, u32)> {
        self.ended
    }

    /// The prediction error of a row; NaN if it is unknown.
    pub(in crate::stats) fn error(&self, index: usize) -> f32 {
        self.errors.get(index).copied().unwrap_or(f32::NAN)
    }

    /// What rescue did in a row; `None` if it did not act.
    pub(in crate::stats) fn rescue(&self, index: usize) -> Option<&RescueTotals> {
        self.rescues.get(index)?.as_deref()
    }

    /// The value of a label in a row; [`NONE`] if the row lacks the label.
    pub(in crate::stats) fn label(&self, label: u8, index: usize) -> u16 {
        let column = self.labels.iter().find(|column| column.label == label);
        column.and_then(|column| column.values.get(index)).copied().unwrap_or(NONE)
    }

    /// Adds a row.
    pub(in crate::stats) fn push(&mut self, whole: FullRow) {
        let FullRow { row, error, rescue, labels } = whole;
        if self.rows.capacity() == 0 {
            self.rows.reserve_exact(ROWS_PER_CHUNK);
        }
        let at = self.rows.len();
        let (first, last) = self.ended.unwrap_or((row.ended, row.ended));
        self.ended = Some((first.min(row.ended), last.max(row.ended)));
        self.rows.push(row);
        if !error.is_nan() || !self.errors.is_empty() {
            reserve(&mut self.errors);
            self.errors.resize(at, f32::NAN);
            self.errors.push(error);
        }
        if rescue.is_some() || !self.rescues.is_empty() {
            reserve(&mut self.rescues);
            self.rescues.resize(at, None);
            self.rescues.push(rescue);
        }
        for (label, _) in &labels {
            if !self.labels.iter().any(|column| column.label == *label) {
                self.labels.push(LabelColumn { label: *label, values: Vec::new() });
            }
        }
        for column in &mut self.labels {
            let value =
                labels.iter().find(|(label, _)| *label == column.label).map_or(NONE, |(_, value)| *value);
            reserve(&mut column.values);
            column.values.resize(at, NONE);
            column.values.push(value);
        }
    }

    /// Removes a row; the last row moves to its index.
    pub(in crate::stats) fn take(&mut self, index: usize) -> Option<FullRow> {
        if index >= self.rows.len() {
            return None;
        }
        let row = self.rows.swap_remove(index);
        let error = if self.errors.is_empty() { f32::NAN } else { self.errors.swap_remove(index) };
        let rescue = if self.rescues.is_empty() { None } else { self.rescues.swap_remove(index) };
        let mut labels = Vec::new();
        for column in &mut self.labels {
            let value = column.values.swap_remove(index);
            if value != NONE {
                labels.push((column.label, value));
            }
        }
        if self.ended.is_some_and(|(first, last)| row.ended == first || row.ended == last) {
            let ends = || self.rows.iter().map(|row| row.ended);
            self.ended = ends().min().zip(ends().max());
        }
        Some(FullRow { row, error, rescue, labels })
    }

    /// Index of the row of an attempt. Attempts are compared by pointer, because each has one allocation.
    pub(in crate::stats) fn find(&self, brief: &AttemptBrief) -> Option<usize> {
        let ended = u32::try_from(brief.ended_unix_ms() / 1000).unwrap_or(u32::MAX);
        let (first, last) = self.ended?;
        let same = |row: &AttemptRow| row.ended == ended && std::ptr::eq(&raw const *row.brief, brief);
        if (first..=last).contains(&ended) { self.rows.iter().position(same) } else { None }
    }

    /// Sets or clears a flag of a row.
    pub(in crate::stats) fn set_flag(&mut self, index: usize, flag: RowFlag, yes: bool) {
        if let Some(row) = self.rows.get_mut(index) {
            row.put_flag(flag, yes);
        }
    }

    /// Sets whether a row is a retry, and of which cause.
    pub(in crate::stats) fn set_retried(&mut self, index: usize, retried: RetryMark) {
        if let Some(row) = self.rows.get_mut(index) {
            row.set_retried(retried);
        }
    }
}

/// Reserves space for a whole chunk at once, because growing step by step would fragment the memory.
fn reserve<T>(column: &mut Vec<T>) {
    if column.capacity() == 0 {
        column.reserve_exact(ROWS_PER_CHUNK);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::test_summary;

    fn whole(n: u64, labels: &[Label]) -> FullRow {
        let mut summary = test_summary(&n.to_string(), "zlib", "1", n);
        summary.started_unix_ms += n * 1000;
        let row = AttemptRow::new(&Arc::new(AttemptBrief::from(&summary)), &(&summary).into(), 0);
        let rescue = (n == 2).then(|| Box::new(RescueTotals { attempts: n, ..RescueTotals::default() }));
        FullRow { row, error: if n == 3 { 0.5 } else { f32::NAN }, rescue, labels: labels.to_vec() }
    }

    #[test]
    fn a_row_is_returned_unchanged() {
        let mut chunk = Chunk::default();
        for (n, labels) in [(1, vec![]), (2, vec![(4, 9)]), (3, vec![(4, 8), (1, 7)]), (4, vec![(1, 6)])] {
            chunk.push(whole(n, &labels));
        }
        let start = chunk.end_range().unwrap().0;
        assert_eq!((chunk.label(4, 1), chunk.label(4, 0), chunk.label(9, 0)), (9, NONE, NONE));
        let third = Arc::clone(&chunk.rows()[2].brief);
        let out = chunk.take(chunk.find(&third).unwrap()).unwrap();
        let rescued: Vec<u64> = (0..3).filter_map(|n| Some(chunk.rescue(n)?.attempts)).collect();
        assert_eq!((rescued, out.rescue), (vec![2], None));
        assert_eq!((out.labels, out.error.to_bits()), (vec![(4, 8), (1, 7)], 0.5_f32.to_bits()));
        assert_eq!(chunk.find(&third), None);
        assert_eq!(chunk.label(1, 2), 6);
        assert_eq!(chunk.end_range(), Some((start, start + 3)));
        chunk.take(2).unwrap();
        assert_eq!((chunk.end_range(), chunk.take(2).is_none()), (Some((start, start + 1)), true));
    }
}
