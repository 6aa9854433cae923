//! The result of looking for groups of need: if attempts of one key fall into several, a size that fits one group is wrong for another.

use super::Bytes;

/// Groups of need, with the field that distinguishes them if one is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct NeedGroups {
    /// Two to four groups, lowest need first.
    pub groups: Vec<NeedGroup>,
    /// The field that distinguishes the groups best; `None` if no field does.
    pub told_apart_by: Option<Distinction>,
    /// Fields of the key that are empty in all attempts of the groups.
    pub unrecorded: Vec<&'static str>,
    /// Whether labels, refs and phases were compared too, from the summaries on disk. Otherwise only the values in memory were: keys and
    /// times.
    pub looked_at_all: bool,
}

/// Attempts with about the same need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NeedGroup {
    /// Number of attempts in the group.
    pub attempts: u32,
    /// Share of the group's attempts in those of all groups, 0 to 1.
    pub share: f64,
    /// Lowest, median and highest need of the group.
    pub need: [Bytes; 3],
}

/// A field with values that correspond to the groups.
#[derive(Debug, Clone, PartialEq)]
pub struct Distinction {
    /// Name of the field, for example `version`, `label stage` or `hour of day (UTC)`.
    pub field: String,
    /// The values that are typical of each group, those with most attempts first; empty for a group without typical values.
    pub values: Vec<Vec<String>>,
    /// Share of the attempts that the field's value alone assigns to the right group, 0 to 1.
    pub accuracy: f64,
    /// Index of the group that the requested key's value is typical of; `None` if it is typical of none.
    pub asked: Option<usize>,
}
