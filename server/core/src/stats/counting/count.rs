//! Reads the rows once, and computes totals, groups, time steps, and how much needs vary.

use crate::domain::FieldViolation;
use crate::stats::{
    attempts::attempt_table::RowsSnapshot,
    attempts::chunk::Chunk,
    attempts::row::AttemptRow,
    counting::groups::{GROUPS_AT_ONCE, Group, Groups},
    counting::row_filter::RowFilter,
    counting::steps::{TimeStep, TimeSteps},
    counting::totals::{BesideRow, StatsTotals},
    prices::Price,
    shifts::package_variation::{BuildNeeds, PackageVariation},
};
use plimsoll_proto::limits;

/// What to compute from which rows: input of one pass over the rows.
#[derive(Debug)]
pub(in crate::stats) struct Aggregation {
    pub(in crate::stats) rows: RowsSnapshot,
    pub(in crate::stats) row_filter: RowFilter,
    pub(in crate::stats) groups: Groups,
    /// Price in each pool, by the pool's number; the last one is for all other pools.
    pub(in crate::stats) prices: Vec<Price>,
    pub(in crate::stats) step_ms: u64,
}

/// Sums over the rows, in total and by group and time step: result of one pass over the rows.
#[derive(Debug)]
pub(in crate::stats) struct Aggregates {
    pub(in crate::stats) totals: StatsTotals,
    pub(in crate::stats) groups: Vec<Group>,
    pub(in crate::stats) steps: Vec<TimeStep>,
    pub(in crate::stats) variable: Vec<PackageVariation>,
}

/// Sums of the groups while rows are read.
struct GroupSums {
    /// Index of each group's sums in the list; `None` if it is the number of the group.
    group_indexes: Option<Vec<usize>>,
    sums: Vec<StatsTotals>,
}

impl Aggregation {
    /// Computes the sums over the rows.
    /// Errors: there would be too many time steps.
    pub(in crate::stats) fn count(&self, most_variable: usize) -> Result<Aggregates, FieldViolation> {
        let mut steps = TimeSteps::new(self.step_ms);
        let mut needs = BuildNeeds::of(self.rows.builds.len());
        let mut sums = self.sums();
        let (grouped, stepped) = (!self.groups.is_nothing(), !steps.is_nothing());
        self.for_each_match(|chunk, index, row| {
            let beside =
                BesideRow { error: chunk.error(index), rescue: chunk.rescue(index), price: self.price(row) };
            needs.add(row);
            if stepped {
                steps.add(row, beside)?;
            }
            if grouped || !stepped {
                sums.add(self.groups.group_of(chunk, index, row), row, beside);
            }
            Ok(())
        })?;
        Ok(Aggregates {
            totals: if grouped || !stepped { sums.total() } else { steps.total() },
            groups: if grouped { self.groups.largest_waste_first(sums.by_group()) } else { Vec::new() },
            steps: steps.without_gaps(),
            variable: needs.most_variable(&self.rows.builds, most_variable),
        })
    }

    /// Calls `look` for every row that matches.
    fn for_each_match(
        &self,
        mut look: impl FnMut(&Chunk, usize, &AttemptRow) -> Result<(), FieldViolation>,
    ) -> Result<(), FieldViolation> {
        for chunk in self.rows.chunks.iter().filter(|chunk| self.row_filter.may_take(chunk)) {
            let counts = |(index, row): &(usize, &AttemptRow)| self.row_filter.takes(chunk, *index, row);
            for (index, row) in chunk.rows().iter().enumerate().filter(counts) {
                look(chunk, index, row)?;
            }
        }
        Ok(())
    }

    fn price(&self, row: &AttemptRow) -> Price {
        self.prices.get(usize::from(row.pool)).or_else(|| self.prices.last()).copied().unwrap_or_default()
    }

    /// Empty sums for all groups. If there are very many groups, only the most wasteful have sums of their own.
    fn sums(&self) -> GroupSums {
        let groups = self.groups.len().max(1);
        if groups <= GROUPS_AT_ONCE {
            return GroupSums { group_indexes: None, sums: vec![StatsTotals::default(); groups] };
        }
        let mut wasted = vec![0.0_f64; groups];
        let walked = self.for_each_match(|chunk, index, row| {
            if let Some(sum) = wasted.get_mut(self.groups.group_of(chunk, index, row)) {
                *sum += row.wasted();
            }
            Ok(())
        });
        drop(walked);
        let mut order: Vec<usize> = (0..groups - 1).collect();
        let by_waste = |a: &usize, b: &usize| {
            let of = |group: &usize| wasted.get(*group).copied().unwrap_or_default();
            of(b).total_cmp(&of(a))
        };
        order.select_nth_unstable_by(limits::STATS_GROUPS, by_waste);
        order.truncate(limits::STATS_GROUPS - 1);
        // all other groups share the last entry of the sums
        let mut places = vec![order.len(); groups];
        for (place, group) in order.iter().enumerate() {
            if let Some(slot) = places.get_mut(*group) {
                *slot = place;
            }
        }
        GroupSums { group_indexes: Some(places), sums: vec![StatsTotals::default(); limits::STATS_GROUPS] }
    }
}

impl GroupSums {
    fn add(&mut self, group: usize, row: &AttemptRow, beside: BesideRow<'_>) {
        let last = self.sums.len().saturating_sub(1);
        let place =
            self.group_indexes.as_ref().map_or(group, |places| places.get(group).copied().unwrap_or(last));
        if let Some(sums) = self.sums.get_mut(place) {
            sums.add(row, beside);
        }
    }

    fn total(&self) -> StatsTotals {
        let mut total = StatsTotals::default();
        self.sums.iter().for_each(|sums| total.merge(sums));
        total
    }

    /// The sums with the number of each group; the shared sums have the number after the last group.
    fn by_group(self) -> Vec<(usize, StatsTotals)> {
        let Some(places) = self.group_indexes else { return self.sums.into_iter().enumerate().collect() };
        let mut numbers = vec![usize::MAX; self.sums.len()];
        let last = self.sums.len().saturating_sub(1);
        for (group, place) in places.into_iter().enumerate().filter(|(_, place)| *place < last) {
            if let Some(number) = numbers.get_mut(place) {
                *number = group;
            }
        }
        numbers.into_iter().zip(self.sums).collect()
    }
}
