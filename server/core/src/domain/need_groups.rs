//! Several groups of need among attempts that are taken for one build: a size that fits one of them is wrong for another.

use super::Bytes;

/// Groups of need, with what tells them apart as far as that is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct NeedGroups {
    /// Two to four, the least need first.
    pub groups: Vec<NeedGroup>,
    /// The field that tells them apart best; `None` if none does.
    pub told_apart_by: Option<Distinction>,
    /// Fields of the key that no attempt of them names.
    pub unrecorded: Vec<&'static str>,
    /// Labels, refs and phases were looked at, too: what is in memory of an attempt is only its key and its time.
    pub looked_at_all: bool,
}

/// Attempts that need about the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NeedGroup {
    /// How many there are.
    pub attempts: u32,
    /// Their share of the attempts of all groups, 0 to 1.
    pub share: f64,
    /// The least, the middle and the highest need among them.
    pub need: [Bytes; 3],
}

/// A field whose values go with the groups.
#[derive(Debug, Clone, PartialEq)]
pub struct Distinction {
    /// For example `version`, `label stage` or `hour of day (UTC)`.
    pub field: String,
    /// The values that stand for each group, most attempts first; none for a group that has no value of its own.
    pub values: Vec<Vec<String>>,
    /// Share of the attempts whose value names their group, 0 to 1.
    pub accuracy: f64,
    /// Place of the group to which the value of the key that was asked about belongs; `None` if that value is of none.
    pub asked: Option<usize>,
}
