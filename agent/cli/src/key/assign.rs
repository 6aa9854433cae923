//! `--key name=value`, as a person types it.

use plimsoll_base::quantity;
use plimsoll_proto::{job::build_jobs, key::text_names, limits, v1::Key};

/// Names that `--key` accepts, as a list for people.
pub fn key_names() -> String {
    format!("{}, build_jobs, input_bytes, label.NAME", text_names())
}

/// A value of the arch that matches all in a question, as an empty value does.
const ANY_ARCH: &str = "any";

/// Applies one assignment to a key. An empty value means unknown.
/// Errors: the name is unknown, or the value exceeds a bound; the text lists what is valid.
pub fn assign(key: &mut Key, assignment: &str) -> Result<(), String> {
    let (name, value) = assignment
        .split_once('=')
        .ok_or_else(|| format!("--key {assignment:?} is not name=value; names are: {}", key_names()))?;
    if let Some(label) = name.strip_prefix("label.") {
        return assign_label(key, label, value);
    }
    if let Some((field, most)) = key.text_mut(name) {
        check(name, value, most)?;
        let value = if name == "arch" && value == ANY_ARCH { "" } else { value };
        value.clone_into(field);
        return Ok(());
    }
    let hints = key.hints.get_or_insert_default();
    match name {
        "build_jobs" => {
            let wrong = || format!("--key build_jobs={value}: expected 1 to {}", limits::BUILD_JOBS);
            hints.build_jobs = known(value).map(|jobs| build_jobs(jobs).ok_or_else(wrong)).transpose()?;
        }
        "input_bytes" => {
            let read = |size| quantity::bytes(size).map_err(|error| format!("--key input_bytes: {error}"));
            hints.input_bytes = known(value).map(read).transpose()?;
        }
        _ => return Err(format!("--key {name:?} is not a part of a key; names are: {}", key_names())),
    }
    Ok(())
}

fn assign_label(key: &mut Key, label: &str, value: &str) -> Result<(), String> {
    if label.is_empty() {
        return Err(format!("--key label. needs a name; names are: {}", key_names()));
    }
    check("label", label, limits::LABEL_BYTES)?;
    check(&format!("label.{label}"), value, limits::LABEL_BYTES)?;
    key.labels.insert(label.to_owned(), value.to_owned());
    if key.labels.len() > limits::LABELS {
        return Err(format!("--key label.{label}: at most {} labels", limits::LABELS));
    }
    Ok(())
}

fn check(name: &str, value: &str, most: usize) -> Result<(), String> {
    if value.len() > most {
        return Err(format!("--key {name} is {} bytes long; at most {most}", value.len()));
    }
    if value.chars().any(char::is_control) {
        return Err(format!("--key {name} holds a control character"));
    }
    Ok(())
}

fn known(value: &str) -> Option<&str> {
    Some(value).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_can_be_assigned() {
        for name in key_names().split(", ") {
            let mut key = Key::default();
            assign(&mut key, &format!("{name}=7")).unwrap();
            assert_ne!(key, Key::default(), "{name}");
        }
        let mut key = Key { arch: "x86_64".to_owned(), ..Key::default() };
        assign(&mut key, "arch=any").unwrap();
        assert_eq!(key, Key::default(), "any arch");
    }

    #[test]
    fn values_may_hold_equal_signs_and_sizes() {
        let mut key = Key::default();
        assign(&mut key, "variants=+x build_type=Release").unwrap();
        assign(&mut key, "input_bytes=2MiB").unwrap();
        assert_eq!(key.variants.as_str(), "+x build_type=Release");
        assert_eq!(key.hints.unwrap().input_bytes, Some(2 << 20));
    }

    #[test]
    fn assignment_errors_name_the_expected_value() {
        let long = format!("owner={}", "x".repeat(257));
        let cases = [
            ("pkg=x", "names are: project, stack"),
            ("package", "is not name=value"),
            ("build_jobs=0", "expected 1 to 4096"),
            ("input_bytes=many", "is not a size"),
            ("label.=x", "needs a name"),
            ("ref=a\nb", "control character"),
            (&long, "257 bytes long; at most 256"),
        ];
        for (assignment, expected) in cases {
            let error = assign(&mut Key::default(), assignment).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let mut key = Key::default();
        let full = (0..=limits::LABELS).try_for_each(|n| assign(&mut key, &format!("label.l{n}=x")));
        assert!(full.unwrap_err().contains("at most 32 labels"));
    }
}
