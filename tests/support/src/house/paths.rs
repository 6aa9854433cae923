//! Paths in code, as far as they say which modules are used.

/// A path, name by name.
pub(super) type Names = Vec<String>;

/// The paths that stand behind `start` wherever that stands in `code`, lists in braces taken apart.
pub(super) fn behind(code: &str, start: &str) -> Vec<Names> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(start) {
        let (before, rest) = code.split_at(at);
        let goes_on = before.ends_with(|letter: char| letter.is_alphanumeric() || "_:".contains(letter));
        if !goes_on && !before.ends_with("in ") {
            tree(rest.strip_prefix(start).unwrap_or_default(), &[], &mut found);
        }
    }
    found
}

/// Reads one path, or a list of them, that goes on from `before`. Returns what follows.
fn tree<'c>(code: &'c str, before: &[String], found: &mut Vec<Names>) -> &'c str {
    let code = code.trim_start();
    if let Some(mut rest) = code.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == ',');
            match rest.strip_prefix('}') {
                Some(after) => return after,
                None if rest.is_empty() => return rest,
                None => rest = tree(rest, before, found),
            }
        }
    }
    let end = code.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(code.len());
    let (name, rest) = code.split_at(end);
    if name.is_empty() {
        // `*`, or what is no path: what stands before it is used
        found.push(before.to_vec());
        let mut letters = rest.chars();
        letters.next();
        return letters.as_str();
    }
    let names = [before, &[name.to_owned()]].concat();
    let is_path =
        |rest: &&str| rest.starts_with(|letter: char| letter.is_alphanumeric() || "_{*".contains(letter));
    if let Some(rest) = rest.strip_prefix("::").filter(is_path) {
        return tree(rest, &names, found);
    }
    found.push(names);
    match rest.strip_prefix(" as ") {
        Some(rest) => rest.trim_start_matches(|letter: char| letter.is_alphanumeric() || letter == '_'),
        None => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_apart_and_other_names_are_not_followed() {
        let found =
            |code| behind(code, "crate::").into_iter().map(|names| names.join("/")).collect::<Vec<_>>();
        assert_eq!(
            found("use crate::{a::{self, b as c}, d::*};\ncrate::e::f(x)"),
            ["a/self", "a/b", "d", "e/f"]
        );
        assert_eq!(found("pub(in crate::a) fn f() { my_crate::b::c() }"), Vec::<String>::new());
    }
}
