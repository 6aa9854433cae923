//! Sums over the attempts that ended within each time step.

use std::collections::HashMap;

use plimsoll_proto::limits;

use crate::domain::FieldViolation;
use crate::stats::{
    attempts::row::AttemptRow,
    counting::totals::{BesideRow, StatsTotals},
};

/// Sums over the attempts that ended within one time step.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeStep {
    /// Start of the step, milliseconds since 1970.
    pub from_unix_ms: u64,
    /// Sums over the attempts that ended in the step.
    pub totals: StatsTotals,
}

/// The time steps of an answer while rows are read.
#[derive(Debug)]
pub(in crate::stats) struct TimeSteps {
    width_ms: u64,
    /// Width of a step in seconds, if it is a whole number of seconds.
    width: Option<u32>,
    /// Numbers of the first and of the last step that has rows.
    span: Option<(u64, u64)>,
    step_indexes: HashMap<u64, usize>,
    sums: Vec<StatsTotals>,
    /// The step of the row before: its first second, the second after it, and its index. Consecutive rows often end in the same step.
    last: (u32, u32, usize),
}

impl TimeSteps {
    /// Creates steps of this width; no steps if it is 0.
    pub(in crate::stats) fn new(width_ms: u64) -> Self {
        let width = width_ms.is_multiple_of(1000).then(|| u32::try_from(width_ms / 1000).ok()).flatten();
        Self {
            width_ms,
            width: width.filter(|width| *width > 0),
            span: None,
            step_indexes: HashMap::new(),
            sums: Vec::new(),
            last: (0, 0, 0),
        }
    }

    /// Whether no steps were requested.
    pub(in crate::stats) fn is_nothing(&self) -> bool {
        self.width_ms == 0
    }

    /// Adds a row to its step.
    /// Errors: there are more steps than an answer may have.
    pub(in crate::stats) fn add(
        &mut self,
        row: &AttemptRow,
        beside: BesideRow<'_>,
    ) -> Result<(), FieldViolation> {
        let (from, to, place) = self.last;
        let place = if (from..to).contains(&row.ended) { place } else { self.step_index(row)? };
        if let Some(sums) = self.sums.get_mut(place) {
            sums.add(row, beside);
        }
        Ok(())
    }

    fn step_index(&mut self, row: &AttemptRow) -> Result<usize, FieldViolation> {
        let width = self.width.filter(|_| row.ended < u32::MAX);
        let step = match width {
            Some(width) => u64::from(row.ended / width),
            None => row.brief.ended_unix_ms().checked_div(self.width_ms).unwrap_or_default(),
        };
        let (first, last) = self.span.map_or((step, step), |(first, last)| (first.min(step), last.max(step)));
        if last - first >= limits::STATS_STEPS {
            let description = format!(
                "gives more than {} steps; take a longer step or a shorter time",
                limits::STATS_STEPS
            );
            return Err(FieldViolation::new("step_ms", description));
        }
        self.span = Some((first, last));
        let next = self.sums.len();
        let place = *self.step_indexes.entry(step).or_insert(next);
        if place == next {
            self.sums.push(StatsTotals::default());
        }
        if let Some(width) = width {
            let from = row.ended / width * width;
            self.last = (from, from.saturating_add(width), place);
        }
        Ok(place)
    }

    /// Sums over all steps.
    pub(in crate::stats) fn total(&self) -> StatsTotals {
        let mut total = StatsTotals::default();
        self.sums.iter().for_each(|sums| total.merge(sums));
        total
    }

    /// All steps from the first to the last, including empty ones.
    pub(in crate::stats) fn without_gaps(self) -> Vec<TimeStep> {
        let Some((first, last)) = self.span else { return Vec::new() };
        let totals =
            |step: u64| self.step_indexes.get(&step).and_then(|place| self.sums.get(*place)).cloned();
        let step = |step: u64| TimeStep {
            from_unix_ms: step.saturating_mul(self.width_ms),
            totals: totals(step).unwrap_or_default(),
        };
        (first..=last).map(step).collect()
    }
}
