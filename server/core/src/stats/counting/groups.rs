//! Assigns rows to groups by number, and names the groups of an answer.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;
use plimsoll_proto::{limits, v1::GroupBy};

use crate::domain::{Cause, Key};
use crate::stats::{
    Settings,
    attempts::attempt_table::{AttemptTable, RowsSnapshot},
    attempts::chunk::Chunk,
    attempts::interner::{NONE, OTHERS, OTHERS_NAME},
    attempts::labels::MAX_NAMES,
    attempts::row::AttemptRow,
    counting::totals::StatsTotals,
};

/// Most groups for which all sums are kept while rows are read: about 4 MB. With more groups, a first pass over the rows sums only their
/// waste, and a second one all values of the most wasteful.
pub(in crate::stats) const GROUPS_AT_ONCE: usize = 8192;

/// A group of attempts with its sums.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Sums over the group's attempts.
    pub totals: StatsTotals,
}

/// How rows are grouped.
#[derive(Debug)]
pub(in crate::stats) struct Groups {
    column: GroupColumn,
    group_names: Vec<Arc<str>>,
}

#[derive(Debug)]
enum GroupColumn {
    Nothing,
    /// Group number of each build, by the number of the build.
    BuildIdentity(Vec<u32>),
    Owner,
    Pool,
    RefClass,
    Cause,
    Outcome,
    /// Number of the label's name; `None` if no attempt has the label.
    Label(Option<u8>),
}

impl Groups {
    /// Assigns the rows to groups. Adds a note if the label is unknown or some values are not counted apart.
    pub(in crate::stats) fn new(
        (by, label): (GroupBy, &str),
        table: &AttemptTable,
        rows: &RowsSnapshot,
        settings: &Settings,
        notes: &mut Vec<String>,
    ) -> Self {
        let words = |words: &[&str]| words.iter().map(|word| Arc::from(*word)).collect::<Vec<_>>();
        let (by, mut names, overflowed) = match by {
            GroupBy::Unspecified => (GroupColumn::Nothing, Vec::new(), false),
            GroupBy::Owner => (GroupColumn::Owner, table.owners.texts(), table.owners.overflowed()),
            GroupBy::Pool => (GroupColumn::Pool, table.pools.texts(), table.pools.overflowed()),
            GroupBy::RefClass => (GroupColumn::RefClass, words(&settings.ref_classes.names()), false),
            GroupBy::Cause => {
                let causes = Cause::ALL.iter().map(|cause| cause.as_str());
                (GroupColumn::Cause, words(&std::iter::once("").chain(causes).collect::<Vec<_>>()), false)
            }
            GroupBy::Outcome => (GroupColumn::Outcome, words(&OUTCOMES), false),
            GroupBy::Label => by_label(label, table, notes),
            GroupBy::Package => by_key(rows, |key| &key.package),
            GroupBy::Stack => by_key(rows, |key| &key.stack),
            GroupBy::Project => by_key(rows, |key| &key.project),
            GroupBy::Version => by_key(rows, |key| &key.version),
            GroupBy::Compiler => by_key(rows, |key| &key.compiler),
            GroupBy::Arch => by_key(rows, |key| &key.arch),
        };
        if overflowed {
            notes.push(format!(
                "there are too many values to tell all apart: the latest are among {OTHERS_NAME}"
            ));
        }
        names.push(OTHERS_NAME.into());
        Self { column: by, group_names: names }
    }

    /// Whether the rows are not grouped.
    pub(in crate::stats) fn is_nothing(&self) -> bool {
        matches!(self.column, GroupColumn::Nothing)
    }

    /// Number of possible groups; the last one is for all values without a group of their own.
    pub(in crate::stats) fn len(&self) -> usize {
        self.group_names.len()
    }

    pub(in crate::stats) fn group_of(&self, chunk: &Chunk, index: usize, row: &AttemptRow) -> usize {
        let others = self.group_names.len() - 1;
        let code = |code: u16| if code == OTHERS { others } else { usize::from(code) };
        match &self.column {
            GroupColumn::Nothing => 0,
            GroupColumn::BuildIdentity(groups) => {
                let group = usize::try_from(row.build).ok().and_then(|build| groups.get(build));
                group.and_then(|group| usize::try_from(*group).ok()).unwrap_or(others)
            }
            GroupColumn::Owner => code(row.owner),
            GroupColumn::Pool => code(row.pool),
            GroupColumn::RefClass => usize::from(row.ref_class),
            GroupColumn::Cause => row.cause(),
            GroupColumn::Outcome if row.is_canceled() => CANCELED,
            GroupColumn::Outcome => row.outcome(),
            GroupColumn::Label(label) => code(label.map_or(NONE, |label| chunk.label(label, index))),
        }
    }

    /// The groups with the largest waste first, at most as many as an answer may have. If there is no waste, for example because no attempt
    /// has a request, the groups with the largest use come first.
    pub(in crate::stats) fn largest_waste_first(&self, sums: Vec<(usize, StatsTotals)>) -> Vec<Group> {
        let others = self.group_names.len() - 1;
        let mut rest = StatsTotals::default();
        let mut groups = Vec::new();
        for (place, totals) in sums.into_iter().filter(|(_, totals)| totals.attempts > 0) {
            match self.group_names.get(place) {
                Some(name) if place != others => groups.push(Group { name: name.to_string(), totals }),
                _ => rest.merge(&totals),
            }
        }
        groups.sort_by(largest_first);
        let fit = if rest.attempts > 0 { limits::STATS_GROUPS - 1 } else { limits::STATS_GROUPS };
        if groups.len() > fit {
            groups.drain(limits::STATS_GROUPS - 1..).for_each(|group| rest.merge(&group.totals));
        }
        if rest.attempts > 0 {
            groups.push(Group { name: OTHERS_NAME.to_owned(), totals: rest });
        }
        groups
    }
}

fn largest_first(a: &Group, b: &Group) -> Ordering {
    let by = |of: fn(&StatsTotals) -> f64| of(&b.totals).total_cmp(&of(&a.totals));
    by(|totals| totals.memory_wasted_gib_hours)
        .then_with(|| by(|totals| totals.memory_used_gib_hours))
        .then_with(|| by(|totals| totals.cpu_core_hours))
        .then_with(|| b.totals.attempts.cmp(&a.totals.attempts))
        .then_with(|| a.name.cmp(&b.name))
}

/// Numbers and names of the values of a label, and whether some attempts have values without a number.
fn by_label(name: &str, table: &AttemptTable, notes: &mut Vec<String>) -> (GroupColumn, Vec<Arc<str>>, bool) {
    let label = table.labels.find(name);
    if let Some((label, values)) = label.and_then(|label| Some((label, table.labels.values(label)?))) {
        return (GroupColumn::Label(Some(label)), values.texts(), values.overflowed());
    }
    let why = if table.labels.overflowed() {
        format!("the first {MAX_NAMES} names are")
    } else {
        "no attempt has it".to_owned()
    };
    notes.push(format!("label {name} is not counted: {why}"));
    (GroupColumn::Label(None), vec!["".into()], false)
}

/// The group number of each build, and the names of the groups.
fn by_key(rows: &RowsSnapshot, of_key: fn(&Key) -> &str) -> (GroupColumn, Vec<Arc<str>>, bool) {
    let mut known: HashMap<&str, u32, RandomState> = HashMap::default();
    let mut names: Vec<Arc<str>> = Vec::new();
    let groups = rows.builds.iter().map(|build| {
        let name = of_key(&build.key);
        *known.entry(name).or_insert_with(|| {
            names.push(name.into());
            u32::try_from(names.len() - 1).unwrap_or(u32::MAX)
        })
    });
    let groups = groups.collect();
    (GroupColumn::BuildIdentity(groups), names, false)
}

/// Names of groups by outcome; the last is for canceled attempts, which do not count as failures.
const OUTCOMES: [&str; 5] = ["succeeded", "failed", "lost", "ended", "canceled"];

/// Index of canceled attempts in [`OUTCOMES`].
const CANCELED: usize = 4;
