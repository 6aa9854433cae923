//! Checks the values that callers send about a build against their bounds. Every way into the server checks a key with these functions.
//!
//! Each function returns a checked value, or a [`FieldViolation`] that names the field as the sender spells it.

use std::mem;

use plimsoll_proto::{key::KEY_TEXTS, limits, v1 as pb};

use crate::domain::{FieldViolation, Hints, Key};

/// A checked value, or the error in a field.
pub type Validated<T> = Result<T, FieldViolation>;

/// Checks that a text has at most `limit` bytes, and no control characters.
pub fn text(field: &str, value: String, limit: usize) -> Validated<String> {
    if value.len() > limit {
        return Err(FieldViolation::new(
            field,
            format!("has {} bytes, at most {limit} are allowed", value.len()),
        ));
    }
    if value.chars().any(char::is_control) {
        return Err(FieldViolation::new(field, "holds a control character; send printable text"));
    }
    Ok(value)
}

/// Checks a key; `package` is required.
pub fn key(wire: Option<pb::Key>) -> Validated<Key> {
    let key =
        wire.ok_or_else(|| FieldViolation::new("key", "is missing; at least key.package must be set"))?;
    let key = key_or_empty(Some(key))?;
    if key.package.is_empty() {
        return Err(FieldViolation::new(
            "key.package",
            "is empty; name the package, crate, target or job that is built",
        ));
    }
    Ok(key)
}

/// Checks a key that may be absent or without a package.
pub fn key_or_empty(wire: Option<pb::Key>) -> Validated<Key> {
    let Some(mut wire) = wire else { return Ok(Key::default()) };
    let mut key = Key::default();
    if wire.labels.len() > limits::LABELS {
        let description = format!("has {} labels, at most {} are allowed", wire.labels.len(), limits::LABELS);
        return Err(FieldViolation::new("key.labels", description));
    }
    for (name, value) in mem::take(&mut wire.labels) {
        let (name, value) = label(name, value)?;
        key.labels.insert(name, value);
    }
    // field names are formatted only for an error, because every prediction runs this code
    for (((name, most), from), to) in KEY_TEXTS.into_iter().zip(wire.texts_mut()).zip(key.texts_mut()) {
        *to = text(name, mem::take(from), most).map_err(|fault| fault.within("key"))?;
    }
    key.hints = hints(wire.hints.unwrap_or_default())?;
    Ok(key)
}

/// Checks a label of a key and its name.
pub fn label(name: String, value: String) -> Validated<(String, String)> {
    let name = text("key.labels", name, limits::LABEL_BYTES)?;
    if name.is_empty() {
        return Err(FieldViolation::new("key.labels", "holds a label without a name"));
    }
    let value = text("", value, limits::LABEL_BYTES)
        .map_err(|fault| FieldViolation { field: format!("key.labels[{name}]"), ..fault })?;
    Ok((name, value))
}

/// Checks the numbers that are known before a build starts.
pub fn hints(wire: pb::Hints) -> Validated<Hints> {
    let pb::Hints { build_jobs, input_bytes } = wire;
    if let Some(jobs) = build_jobs
        && (jobs == 0 || jobs > limits::BUILD_JOBS)
    {
        let description = format!("is {jobs}; it must be 1 to {}", limits::BUILD_JOBS);
        return Err(FieldViolation::new("key.hints.build_jobs", description));
    }
    Ok(Hints { build_jobs, input_bytes })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn named(package: &str) -> pb::Key {
        pb::Key { package: package.into(), ..pb::Key::default() }
    }

    #[test]
    fn a_bad_key_names_the_field() {
        let labels: HashMap<String, String> = (0..10_000).map(|n| (n.to_string(), String::new())).collect();
        let cases = [
            (None, "key"),
            (Some(named("")), "key.package"),
            (Some(named(&"x".repeat(257))), "key.package"),
            (Some(named("a\u{1f}b")), "key.package"),
            (Some(pb::Key { labels, ..named("a") }), "key.labels"),
            (Some(pb::Key { variants: "v".repeat(2049), ..named("a") }), "key.variants"),
            (
                Some(pb::Key {
                    hints: Some(pb::Hints { build_jobs: Some(0), input_bytes: None }),
                    ..named("a")
                }),
                "key.hints.build_jobs",
            ),
        ];
        for (wire, field) in cases {
            assert_eq!(key(wire).unwrap_err().field, field);
        }
        assert!(key(Some(named("zlib"))).is_ok());
    }
}
