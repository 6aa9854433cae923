//! The parts of keys, as numbers. Work and memory are bounded, whatever a key contains.

use plimsoll_proto::limits;

use crate::domain::{Key, job_of_part};

/// Most parts of one key that are looked at.
const MAX_PARTS: usize = 40;
/// Most parts that all keys of a package have together.
const MAX_COLUMNS: usize = 48;
/// Most values of one part that are distinguished; further ones are as if the key did not have the part.
const MAX_VALUES: usize = 48;
/// Most letters of a part in a description.
const MAX_DESCRIBED: usize = 60;
/// Parts of a version that count by themselves, besides the whole version.
const VERSION_PARTS: usize = 2;

/// The values of a key's parts, one for each column of a [`PartTable`]; 0 if the key does not have the part.
pub(super) type Row = Vec<u16>;

/// A part of a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'k> {
    /// Name, and which part of a field this is; 0 for a variant.
    id: (&'k str, usize),
    value: &'k str,
    /// The text that people know the part by: the variant, or the whole field.
    text: &'k str,
}

impl Part<'_> {
    /// `+cuda`, `cuda_arch=80`, `version 1.2`.
    pub(super) fn describe(&self) -> String {
        let text: String = self.text.chars().take(MAX_DESCRIBED).collect();
        if self.id.1 == 0 { text } else { format!("{} {text}", self.id.0) }
    }
}

/// All parts of some keys, each with its values in the order in which they first occurred.
#[derive(Debug, Default)]
pub(super) struct PartTable<'k>(Vec<(Part<'k>, Vec<&'k str>)>);

impl<'k> PartTable<'k> {
    /// The values of the parts of `key`. A row ends at its last value.
    pub(super) fn row(&mut self, key: &'k Key) -> Row {
        let mut row = Vec::with_capacity(self.0.len());
        let mut next = 0;
        for part in parts_of(key).take(MAX_PARTS) {
            let Some(at) = self.column(part, next) else { continue };
            next = at + 1;
            let Some((_, values)) = self.0.get_mut(at) else { continue };
            let known = values.iter().position(|value| *value == part.value);
            if known.is_none() && values.len() >= MAX_VALUES {
                continue;
            }
            let place = known.unwrap_or_else(|| {
                values.push(part.value);
                values.len() - 1
            });
            row.resize(row.len().max(next), 0);
            if let Some(value) = row.get_mut(at) {
                *value = u16::try_from(place + 1).unwrap_or(u16::MAX);
            }
        }
        row
    }

    /// The column of a part; `None` if there is no room for it. Most keys have the same parts in the same order, so `next` is tried first.
    fn column(&mut self, part: Part<'k>, next: usize) -> Option<usize> {
        let is_same = |(other, _): &(Part<'_>, Vec<&str>)| other.id == part.id;
        if self.0.get(next).is_some_and(is_same) {
            return Some(next);
        }
        if let Some(at) = self.0.iter().position(is_same) {
            return Some(at);
        }
        let at = self.0.len();
        (at < MAX_COLUMNS).then(|| {
            self.0.push((part, Vec::new()));
            at
        })
    }

    /// The parts of `key`, each with its column.
    pub(super) fn parts<'p>(&self, key: &'p Key) -> impl Iterator<Item = (usize, Part<'p>)> {
        let column = |part: &Part<'_>| self.0.iter().position(|(other, _)| other.id == part.id);
        parts_of(key).take(MAX_PARTS).filter_map(move |part| Some((column(&part)?, part)))
    }
}

/// The parts of a key, variants first.
fn parts_of(key: &Key) -> impl Iterator<Item = Part<'_>> {
    let job = job_of_part(&key.package).map_or(0, str::len);
    let sibling = key.package.get(job..).filter(|_| job > 0).unwrap_or_default();
    let sibling = sibling.trim_matches([' ', ':', '[', ']']);
    let whole = [
        ("stack", &key.stack),
        ("compiler", &key.compiler),
        ("compiler_version", &key.compiler_version),
        ("build_system", &key.build_system),
    ];
    let whole = whole.into_iter().map(|(name, text)| Part { id: (name, 1), value: text, text });
    let fields = whole
        .chain(pieces("arch", &key.arch, &['-']))
        .chain(pieces("part", sibling, &[' ', ':', ',']))
        .chain(version(&key.version));
    variants(&key.variants).chain(fields.filter(|part| !part.value.is_empty()))
}

/// Each piece of a text by its place, after the text itself.
fn pieces<'k>(name: &'k str, text: &'k str, at: &'static [char]) -> impl Iterator<Item = Part<'k>> {
    let pieces = text.split(at).filter(|piece| !piece.is_empty());
    std::iter::once(text).chain(pieces).enumerate().map(move |(place, value)| Part {
        id: (name, place + 1),
        value,
        text,
    })
}

/// The whole version, and each of its first parts with those before it.
fn version(version: &str) -> impl Iterator<Item = Part<'_>> {
    let ends = version.match_indices('.').map(|(end, _)| end).take(VERSION_PARTS);
    let firsts = ends.filter_map(|end| version.get(..end));
    std::iter::once(version).chain(firsts).enumerate().map(move |(place, value)| Part {
        id: ("version", place + 1),
        value,
        text: version,
    })
}

/// Single variants as Spack writes them (`+cuda~mpi cuda_arch=80`), and other options by words.
fn variants(text: &str) -> impl Iterator<Item = Part<'_>> {
    let end = (0..=limits::VARIANTS_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    let text = end.and_then(|end| text.get(..end)).unwrap_or_default();
    text.split_whitespace().flat_map(flags).filter_map(|text| {
        let (name, value) = match (text.split_once('='), text.strip_prefix(['+', '~'])) {
            (Some((name, value)), None) => (name, value),
            (_, Some(name)) => (name, text.get(..1)?),
            (None, None) => (text, ""),
        };
        (!name.is_empty()).then_some(Part { id: (name, 0), value, text })
    })
}

/// Cuts a word before each `+` and `~`, unless it is a name with a value.
fn flags(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let mark = rest.char_indices().skip(1).find(|(_, letter)| matches!(letter, '=' | '+' | '~'));
        let end = mark.filter(|(_, letter)| *letter != '=').map_or(rest.len(), |(at, _)| at);
        let (flag, after) = rest.split_at_checked(end)?;
        rest = after;
        (!flag.is_empty()).then_some(flag)
    })
}
