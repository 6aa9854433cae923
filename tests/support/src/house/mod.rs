//! Rules of the source tree that no compiler checks: which module uses which, that none of them go round in circles, what a code map
//! and a table of modules name, and which names of types say nothing.
//!
//! It reads text and not syntax: comments are left out, and so are tests, at the foot of a file or in files of their own.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the tree must fail")]

mod module_tables;
mod modules;
mod paths;
pub mod wording;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

pub use module_tables::gone_from_module_tables;
pub use modules::Modules;

/// Names of types that say nothing without their module. A path before them does not help at the place of use.
pub const BARE_NAMES: [&str; 9] =
    ["Place", "Line", "Entry", "Told", "Heard", "Said", "Wish", "Desk", "Beside"];

/// All files below a folder.
///
/// # Panics
/// The folder cannot be read.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

/// Whether a file holds nothing but tests, by its path.
pub fn is_of_tests(file: &Path) -> bool {
    let of_tests = |part: &str| {
        ["tests", "tests.rs", "fixture.rs", "fixtures"].contains(&part) || part.ends_with("_tests.rs")
    };
    file.iter().filter_map(|part| part.to_str()).any(of_tests)
}

/// The code of a file, without comments and without the tests at its foot.
pub fn code(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let is_head_of_tests = |at: usize, line: &str| {
        let below =
            lines.iter().skip(at + 1).find(|line| !line.starts_with('#')).copied().unwrap_or_default();
        line.starts_with("#[cfg(") && line.contains("test") && below.contains("mod ") && below.ends_with('{')
    };
    let end = lines.iter().enumerate().position(|(at, line)| is_head_of_tests(at, line));
    lines.iter().take(end.unwrap_or(lines.len())).copied().collect::<Vec<_>>().join("\n")
}

/// The types below a folder whose bare name is one of [`BARE_NAMES`], each with its file.
///
/// # Panics
/// The folder cannot be read.
pub fn bare_names(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for file in files(dir).into_iter().filter(|file| file.extension().is_some_and(|end| end == "rs")) {
        let text = fs::read_to_string(&file).unwrap();
        for line in text.lines() {
            let name = ["struct ", "enum ", "type ", "trait "].iter().find_map(|kind| defined(line, kind));
            found.extend(
                name.filter(|name| BARE_NAMES.contains(name))
                    .map(|name| format!("{name} in {}", file.display())),
            );
        }
    }
    found
}

/// The name that a line defines with this keyword.
fn defined<'l>(line: &'l str, keyword: &str) -> Option<&'l str> {
    let (before, after) = line.split_once(keyword)?;
    let is_plain = before.trim().is_empty() || before.trim().starts_with("pub");
    let end = after.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(after.len());
    after.get(..end).filter(|_| is_plain)
}

/// The paths in the first column of the tables of a README.md that begin with `start`.
pub fn named_in_code_map(readme: &str, start: &str) -> BTreeSet<String> {
    let first = readme.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let paths = first.flat_map(|column| column.split('`').skip(1).step_by(2));
    paths.filter(|path| path.starts_with(start)).map(str::to_owned).collect()
}

/// What a code map of the crate in `dir` has to name: the folders and files of `src/`, but for the roots of the crate.
///
/// # Panics
/// The folder cannot be read.
pub fn in_source_folder(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir.join("src")).unwrap().map(|entry| entry.unwrap());
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        let slash = if entry.path().is_dir() { "/" } else { "" };
        (!["lib.rs", "main.rs"].contains(&name.as_str())).then(|| format!("src/{name}{slash}"))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_tests_are_no_code() {
        assert_eq!(code("one\n// two\n#[cfg(test)]\nmod tests {\nthree\n}"), "one");
        assert_eq!(code("#[cfg(test)]\nmod tests;\none"), "#[cfg(test)]\nmod tests;\none");
        assert!(is_of_tests(Path::new("a/tests/b.rs")) && !is_of_tests(Path::new("a/attests.rs")));
    }

    #[test]
    fn a_bare_name_is_found_where_it_is_defined_and_not_where_it_is_a_part() {
        assert_eq!(defined("pub(super) struct Line<'a>(&'a str);", "struct "), Some("Line"));
        assert_eq!(defined("    type Line = u8;", "type "), Some("Line"));
        assert_eq!(defined("/// a struct Line", "struct "), None);
        assert_eq!(defined("struct PoolSlot {", "struct "), Some("PoolSlot"));
    }

    #[test]
    fn a_code_map_is_the_first_column_of_a_table() {
        let readme =
            "| path | what |\n|---|---|\n| `src/a/`, `src/b.rs` | as `src/c.rs` |\ntext `src/d.rs`\n";
        assert_eq!(named_in_code_map(readme, "src/").into_iter().collect::<Vec<_>>(), ["src/a/", "src/b.rs"]);
    }
}
