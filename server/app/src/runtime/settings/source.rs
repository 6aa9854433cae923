//! Reads the sources of settings. Each becomes a list of entries with their position in the source.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::{Args, Mistake, groups};

/// Least similarity (Jaro-Winkler, 0 to 1) at which an unknown name is taken for a misspelt known
/// one.
const MIN_NAME_SIMILARITY: f64 = 0.88;

/// A value with its source and position.
#[derive(Debug)]
pub(super) struct SettingValue {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) set_at: String,
}

/// The entries of all sources, weakest source first.
pub(super) fn gather(
    args: &Args,
    env: impl Fn(&str) -> Option<String>,
    mistakes: &mut Vec<Mistake>,
) -> Vec<SettingValue> {
    let mut entries = Vec::new();
    let file = args.config.clone().or_else(|| env("PLIMSOLL_CONFIG").map(PathBuf::from));
    if let Some(path) = file {
        read_file(&path, &mut entries, mistakes);
    }
    for setting in groups::all() {
        let variable = setting.variable();
        if let Some(text) = env(&variable) {
            entries.push(SettingValue { name: setting.name.to_owned(), text, set_at: variable });
        }
    }
    for (name, text) in args.values() {
        let place = format!("--{}", name.replace('_', "-"));
        entries.push(SettingValue { name: name.to_owned(), text: text.to_owned(), set_at: place });
    }
    entries
}

fn read_file(path: &Path, entries: &mut Vec<SettingValue>, mistakes: &mut Vec<Mistake>) {
    let file = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => parse_file(&file, &text, entries, mistakes),
        Err(error) => mistakes.push(Mistake { place: file, text: format!("cannot be read: {error}") }),
    }
}

/// Parses the text of a settings file into `entries`. `file` is its name, for the text of mistakes.
pub(super) fn parse_file(
    file: &str,
    text: &str,
    entries: &mut Vec<SettingValue>,
    mistakes: &mut Vec<Mistake>,
) {
    let line = |offset: usize| 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let place = format!("{file}:{}", line(error.span().map_or(0, |span| span.start)));
        mistakes.push(Mistake { place, text: error.message().to_owned() });
    }
    for (name, value) in table.get_ref() {
        let place = format!("{file}:{}", line(name.span().start));
        let name = name.get_ref().to_string();
        let known = groups::named(&name).is_some();
        match (known, plain_text(value.get_ref())) {
            (true, Some(text)) => entries.push(SettingValue { name, text, set_at: place }),
            (true, None) => {
                mistakes.push(Mistake { place, text: format!("{name} must be a text or a number") });
            }
            (false, _) => mistakes.extend(
                names_in(&name, value.get_ref())
                    .into_iter()
                    .map(|name| Mistake { place: place.clone(), text: unknown(&name) }),
            ),
        }
    }
}

/// The names that are set by a value in the file: if it is a table, the full names of its fields as
/// written (`a.b`), else only `name`.
fn names_in(name: &str, value: &DeValue<'_>) -> Vec<String> {
    match value {
        DeValue::Table(table) if !table.is_empty() => {
            table.iter().map(|(inner, _)| format!("{name}.{}", inner.get_ref())).collect()
        }
        _ => vec![name.to_owned()],
    }
}

/// The error for an unknown name; it suggests the most similar setting.
fn unknown(name: &str) -> String {
    let plain = name.replace(['.', '-'], "_");
    let alike = groups::all().map(|setting| (strsim::jaro_winkler(&plain, setting.name), setting.name));
    let nearest = alike.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(alike, _)| *alike >= MIN_NAME_SIMILARITY);
    let hint = nearest.map_or(String::new(), |(_, name)| format!(" (did you mean {name}?)"));
    format!("{name} is not a setting{hint}; --print-config lists them")
}

fn plain_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}
