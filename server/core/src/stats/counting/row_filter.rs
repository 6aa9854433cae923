//! A filter converted to the numbers that rows contain, so that testing a row takes a few nanoseconds.

use crate::stats::{
    Settings,
    attempts::attempt_table::{AttemptTable, RowsSnapshot},
    attempts::chunk::Chunk,
    attempts::interner::{Interner, OTHERS_NAME},
    attempts::labels::{Label, MAX_NAMES},
    attempts::row::AttemptRow,
    question::Filter,
};

#[derive(Debug)]
pub(in crate::stats) struct RowFilter {
    /// Whether each build matches, by the number of the build; `None` if all builds match.
    builds: Option<Vec<bool>>,
    /// The original filter: it decides for the first and the last second of the time range, because rows have whole seconds.
    filter: Filter,
    seconds: EndRange,
    outcome: Option<usize>,
    cause: Option<usize>,
    dimension_filter: DimensionFilter,
    /// Whether no row can match.
    matches_nothing: bool,
}

/// The part of a filter that is about pool, owner, class of ref and labels.
#[derive(Debug, Default)]
pub(in crate::stats) struct DimensionFilter {
    owner: Option<u16>,
    pool: Option<u16>,
    ref_class: Option<u8>,
    labels: Vec<Label>,
}

#[derive(Debug)]
struct EndRange {
    from: u32,
    to_second: u32,
}

impl RowFilter {
    /// Converts a filter for `rows`. Adds a note if the filter names something unknown.
    pub(in crate::stats) fn new(
        filter: &Filter,
        table: &AttemptTable,
        rows: &RowsSnapshot,
        settings: &Settings,
        notes: &mut Vec<String>,
    ) -> Self {
        let second = |ms: u64| u32::try_from(ms / 1000).unwrap_or(u32::MAX);
        let seconds = EndRange {
            from: filter.from_unix_ms.map_or(0, second),
            to_second: filter.to_unix_ms.map_or(u32::MAX, second),
        };
        let builds = filter
            .asks_for_keys()
            .then(|| rows.builds.iter().map(|build| filter.takes_key(&build.key)).collect::<Vec<_>>());
        let place = DimensionFilter::new(filter, table, settings, notes);
        Self {
            matches_nothing: place.is_none()
                || filter.from_unix_ms.zip(filter.to_unix_ms).is_some_and(|(from, to)| from >= to),
            builds,
            filter: filter.clone(),
            seconds,
            outcome: filter.outcome.map(|outcome| outcome as usize),
            cause: filter.cause.map(|cause| 1 + cause as usize),
            dimension_filter: place.unwrap_or_default(),
        }
    }

    /// Whether a row of the chunk may match.
    pub(in crate::stats) fn may_take(&self, chunk: &Chunk) -> bool {
        let within = |(first, last)| last >= self.seconds.from && first <= self.seconds.to_second;
        !self.matches_nothing && chunk.end_range().is_some_and(within)
    }

    /// Whether a row matches.
    pub(in crate::stats) fn takes(&self, chunk: &Chunk, index: usize, row: &AttemptRow) -> bool {
        self.takes_build(row.build)
            && self.takes_time(row)
            && self.takes_end(row)
            && self.filter.takes_id(&row.brief.attempt)
            && self
                .dimension_filter
                .takes(row.owner, row.pool, row.ref_class, |label| chunk.label(label, index))
    }

    /// Whether outcome and cause match. Canceled attempts do not count as failures, unless the filter asks for them.
    fn takes_end(&self, row: &AttemptRow) -> bool {
        let is_asked = |outcome| outcome == row.outcome() && !(self.cause.is_none() && row.is_canceled());
        self.outcome.is_none_or(is_asked) && self.cause.is_none_or(|cause| cause == row.cause())
    }

    fn takes_build(&self, build: u32) -> bool {
        let of = |builds: &Vec<bool>| usize::try_from(build).ok().and_then(|at| builds.get(at)).copied();
        self.builds.as_ref().is_none_or(|builds| of(builds).unwrap_or(false))
    }

    fn takes_time(&self, row: &AttemptRow) -> bool {
        let EndRange { from, to_second: to } = self.seconds;
        if row.ended > from && row.ended < to {
            return true;
        }
        row.ended >= from && row.ended <= to && self.filter.takes_time(row.brief.ended_unix_ms())
    }

    /// Whether no row can match, in any pool.
    pub(in crate::stats) fn is_closed(&self) -> bool {
        self.matches_nothing
    }

    /// The part of the filter that is about pool, owner, class of ref and labels.
    pub(in crate::stats) fn place(&self) -> &DimensionFilter {
        &self.dimension_filter
    }
}

impl DimensionFilter {
    /// Converts this part of a filter; `None` if no attempt can match.
    fn new(
        filter: &Filter,
        table: &AttemptTable,
        settings: &Settings,
        notes: &mut Vec<String>,
    ) -> Option<Self> {
        let mut place = Self::default();
        let mut known = true;
        if !filter.owner.is_empty() {
            place.owner = find("owner", &table.owners, &filter.owner, notes);
            known &= place.owner.is_some();
        }
        if !filter.pool.is_empty() {
            place.pool = find("pool", &table.pools, &filter.pool, notes);
            known &= place.pool.is_some();
        }
        for (name, value) in &filter.labels {
            let label = table.labels.find(name);
            let values = label.and_then(|label| table.labels.values(label));
            let code = values.and_then(|values| find(&format!("label {name}"), values, value, notes));
            place.labels.extend(label.zip(code));
            known &= code.is_some();
            if label.is_none() && table.labels.overflowed() {
                notes.push(format!("label {name} is not counted: the first {MAX_NAMES} names of labels are"));
            }
        }
        if !filter.ref_class.is_empty() {
            let class = settings.ref_classes.names().iter().position(|name| *name == filter.ref_class);
            place.ref_class = class.and_then(|class| u8::try_from(class).ok());
            known &= class.is_some();
        }
        known.then_some(place)
    }

    /// Whether these values match. `value` returns the number of a label's value.
    pub(in crate::stats) fn takes(
        &self,
        owner: u16,
        pool: u16,
        ref_class: u8,
        value: impl Fn(u8) -> u16,
    ) -> bool {
        self.owner.is_none_or(|asked| asked == owner)
            && self.pool.is_none_or(|asked| asked == pool)
            && self.ref_class.is_none_or(|asked| asked == ref_class)
            && self.labels.iter().all(|(label, asked)| value(*label) == *asked)
    }
}

/// The number of a text; `None` if no attempt has it. Adds a note if some attempts with it may be counted as
/// [`OTHERS`](crate::stats::attempts::interner::OTHERS).
fn find(what: &str, names: &Interner, text: &str, notes: &mut Vec<String>) -> Option<u16> {
    let code = names.find(text);
    if code.is_none() && names.overflowed() {
        notes.push(format!(
            "there are too many values of {what} to tell all apart: {text:?} may be among {OTHERS_NAME}"
        ));
    }
    code
}
