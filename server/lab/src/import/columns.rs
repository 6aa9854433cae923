//! The table of columns: the name of each column, and how its text changes a record.

use plimsoll_core::domain::{Bytes, Cause, CpuMicros, Millis};
use plimsoll_proto::limits;

use super::{
    draft::{Fingerprint, Record, RecordDraft, RecordedEnd},
    refusals::RowRefusal,
};

/// Least memory of a build: no Linux program needs less.
pub(super) const MIN_MEMORY_BYTES: u64 = 64 << 10;
/// Most memory of a build: no machine has more.
pub(super) const MAX_MEMORY_BYTES: u64 = 64 << 40;
/// Longest build: a year.
const MAX_WALL_MS: u64 = 366 * 24 * 3_600_000;
/// Latest time, in the year 2200. It is so low that times in microseconds are refused.
const MAX_UNIX_MS: u64 = 7_258_118_400_000;
/// Earliest time, in the year 2001. It is so high that times in seconds are refused.
const MIN_UNIX_MS: u64 = 978_307_200_000;

/// A column of the input file. `set` stores the column's text in a record, or returns what is wrong with the
/// text; it is not called with an empty text.
#[derive(Debug)]
pub(super) struct ImportColumn {
    pub(super) name: &'static str,
    pub(super) is_required: bool,
    pub(super) set: fn(&mut RecordDraft, &str) -> Result<(), String>,
}

macro_rules! text {
    ($name:literal, $field:ident, $needed:literal) => {
        text!($name, $field, $needed, limits::KEY_FIELD_BYTES)
    };
    ($name:literal, $field:ident, $needed:literal, $most:expr) => {
        ImportColumn {
            name: $name,
            is_required: $needed,
            set: |draft, text| check_text(text, $most).map(|t| draft.key.$field = t),
        }
    };
}

macro_rules! number {
    ($name:literal, $needed:literal, $least:expr, $most:expr, $set:expr) => {
        ImportColumn {
            name: $name,
            is_required: $needed,
            set: |draft, text| {
                let set: fn(&mut RecordDraft, u64) = $set;
                parse_whole(text, $least, $most).map(|value| set(draft, value))
            },
        }
    };
}

/// So many columns, the first ones, are part of a fingerprint also where they are empty. Later ones are not: rows that a store has keep their IDs.
const COLUMNS_COUNTED_IF_EMPTY: usize = 23;

/// All columns, in the order in which the documentation lists them. New ones go to the end.
pub(super) const IMPORT_COLUMNS: &[ImportColumn] = &[
    ImportColumn { name: "attempt", is_required: false, set: |draft, text| draft.set_attempt(text) },
    text!("project", project, false),
    text!("stack", stack, false),
    text!("package", package, true),
    text!("version", version, false),
    text!("variants", variants, false, limits::VARIANTS_BYTES),
    text!("compiler", compiler, false),
    text!("compiler_version", compiler_version, false),
    text!("arch", arch, false),
    text!("build_system", build_system, false),
    text!("ref", git_ref, false),
    text!("owner", owner, false),
    number!("submitted_ms", false, MIN_UNIX_MS, MAX_UNIX_MS, |draft, ms| draft.submitted_ms = Some(ms)),
    number!("wall_ms", true, 0, MAX_WALL_MS, |draft, ms| draft.wall = Some(Millis(ms))),
    number!("peak_bytes", true, MIN_MEMORY_BYTES, MAX_MEMORY_BYTES, |draft, bytes| draft.peak =
        Some(Bytes(bytes))),
    number!("mean_bytes", false, 0, MAX_MEMORY_BYTES, |draft, bytes| draft.mean = Some(Bytes(bytes))),
    number!("cpu_usec", false, 0, u64::MAX >> 1, |draft, usec| draft.cpu = CpuMicros(usec)),
    number!("build_jobs", false, 1, 100_000, |draft, jobs| draft.jobs = u32::try_from(jobs).ok()),
    number!("cores", false, 1, 100_000, |draft, cores| draft.cores = u32::try_from(cores).ok()),
    number!("input_bytes", false, 0, u64::MAX >> 1, |draft, bytes| {
        draft.key.hints.input_bytes = Some(bytes);
    }),
    number!("requested_bytes", false, MIN_MEMORY_BYTES, MAX_MEMORY_BYTES, |draft, bytes| {
        draft.requested = Some(Bytes(bytes));
    }),
    ImportColumn {
        name: "outcome",
        is_required: false,
        set: |draft, text| parse_outcome(text).map(|o| draft.outcome = o),
    },
    ImportColumn {
        name: "untrusted",
        is_required: false,
        set: |draft, text| parse_flag(text).map(|yes| draft.untrusted = yes),
    },
    ImportColumn {
        name: "pool",
        is_required: false,
        set: |draft, text| check_text(text, limits::KEY_FIELD_BYTES).map(|pool| draft.pool = pool),
    },
];

impl RecordDraft {
    /// The record of a line, from the texts of its columns in the order of [`IMPORT_COLUMNS`].
    pub(super) fn read<'t>(line: u64, texts: impl Iterator<Item = &'t str>) -> Result<Record, RowRefusal> {
        let mut draft = Self::default();
        let mut print = Fingerprint::default();
        let (mut empty, mut wrong) = (Vec::new(), None);
        for (number, (column, text)) in IMPORT_COLUMNS.iter().zip(texts).enumerate() {
            let text = text.trim();
            if number < COLUMNS_COUNTED_IF_EMPTY || !text.is_empty() {
                print.add(text);
            }
            let is_unknown = text.is_empty() || (!column.is_required && is_not_measured(text));
            match (is_unknown, column.is_required) {
                (true, true) => empty.push(column.name),
                (true, false) => {}
                (false, _) => {
                    let set = (column.set)(&mut draft, text);
                    let refused = set.map_err(|reason| RowRefusal { line, column: column.name, reason });
                    wrong = wrong.or_else(|| refused.err());
                }
            }
        }
        match (empty.split_first(), wrong) {
            (Some((first, others)), _) => {
                Err(RowRefusal { line, column: first, reason: missing_columns_reason(others) })
            }
            (None, Some(wrong)) => Err(wrong),
            (None, None) => draft.finish(line, &print),
        }
    }
}

/// Whether a text says that the value is not known, as data frames, databases and other programs write it.
fn is_not_measured(text: &str) -> bool {
    const WORDS: [&str; 11] = ["-", "--", "nan", "nat", "null", "none", "na", "n/a", "<na>", "#n/a", "\\n"];
    WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// The column that `name` seems to mean: it differs in one letter, in case, or in `-` for `_`.
pub(super) fn misspelt_column(name: &str) -> Option<&'static str> {
    let plain = name.trim().to_ascii_lowercase().replace([' ', '-', '.'], "_");
    let is_near =
        |known: &str| known.len().abs_diff(plain.len()) <= 1 && strsim::osa_distance(known, &plain) <= 1;
    let known = IMPORT_COLUMNS.iter().map(|column| column.name);
    known.clone().find(|known| *known == plain).or_else(|| known.clone().find(|known| is_near(known)))
}

/// Names of the columns that every row must have, separated by commas.
pub(super) fn required_names() -> String {
    let needed: Vec<&str> =
        IMPORT_COLUMNS.iter().filter(|column| column.is_required).map(|column| column.name).collect();
    needed.join(", ")
}

/// Why a row is refused if a required column is empty; the columns `others` are empty too.
fn missing_columns_reason(others: &[&str]) -> String {
    let others = if others.is_empty() { String::new() } else { format!(", and so is {}", others.join(", ")) };
    format!("is empty{others}; nothing can be learnt without the required columns: {}", required_names())
}

fn parse_outcome(text: &str) -> Result<RecordedEnd, String> {
    match text {
        "success" => Ok(RecordedEnd::Success),
        "failed" => Ok(RecordedEnd::Failed),
        "oom" => Ok(RecordedEnd::Stopped(Cause::Oom)),
        "starved" => Ok(RecordedEnd::Stopped(Cause::Starved)),
        other => Err(format!("{other:?} is not an outcome; write success, failed, oom or starved")),
    }
}

fn parse_flag(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(format!("{other:?} is neither true nor false")),
    }
}

/// Checks that a text is not longer than the wire allows, because no request could name a longer one.
fn check_text(text: &str, most: usize) -> Result<String, String> {
    if text.len() > most {
        return Err(format!("has {} bytes, at most {most} are allowed", text.len()));
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("holds the control character {c:?}")),
        None => Ok(text.to_owned()),
    }
}

/// Parses a whole number between `least` and `most`. A fraction of zeros is accepted, because data frames write
/// `12.0`.
fn parse_whole(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let digits = match text.split_once('.') {
        Some((digits, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => digits,
        _ => text,
    };
    match digits.parse::<u64>() {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        Ok(value) => Err(format!(
            "{value} cannot be right: it must be from {least} to {most}; is the unit the one in the name?"
        )),
        Err(_) => Err(format!(
            "{text:?} is not a whole number; write digits only, in the unit of the column's name"
        )),
    }
}
