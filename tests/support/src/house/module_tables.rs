//! Tables in the head of a module that list modules: each name in them has to be there.
//!
//! A table lists modules in its column `module`, or else in its first column if that names a module of the file. A name is a module of the
//! file itself, or a path: `crate::retention`, `ci_outcomes::awaited`.

use std::{fs, path::Path};

use super::files;

/// The names in the module tables of the files below `dirs` that lead to no module, each with its file.
///
/// # Panics
/// A folder or a file cannot be read.
pub fn gone_from_module_tables(dirs: &[&Path]) -> Vec<String> {
    let all = dirs.iter().flat_map(|dir| files(dir));
    let sources: Vec<_> = all.filter(|file| file.extension().is_some_and(|end| end == "rs")).collect();
    let is_file = |path: &[&str]| {
        let path = path.join("/").replace("crate", "src");
        let ends = [format!("{path}.rs"), format!("{path}/mod.rs")];
        sources.iter().any(|file| ends.iter().any(|end| file.ends_with(end)))
    };
    let mut gone = Vec::new();
    for file in &sources {
        let text = fs::read_to_string(file).unwrap();
        for name in tables(&text).iter().flat_map(|table| listed(table, &text)) {
            let path: Vec<&str> = name.split("::").collect();
            let is_there = if path.len() == 1 { declares(&text, name) } else { is_file(&path) };
            if !is_there {
                gone.push(format!("{name} in {}", file.display()));
            }
        }
    }
    gone
}

/// A row of a table, cell by cell.
type Row<'t> = Vec<&'t str>;

/// The tables in the comment at the head of a file. The first row of each is its header.
fn tables(text: &str) -> Vec<Vec<Row<'_>>> {
    let head = text.lines().map_while(|line| line.strip_prefix("//!"));
    let rows = head.map(|line| line.trim().strip_prefix('|').map(|row| row.split('|').collect::<Row<'_>>()));
    let rows: Vec<_> = rows.collect();
    let tables = rows.split(Option::is_none).filter(|table| !table.is_empty());
    tables.map(|table| table.iter().flatten().cloned().collect()).collect()
}

/// The modules that a table lists, as it writes them.
fn listed<'t>(table: &[Row<'t>], text: &str) -> Vec<&'t str> {
    let Some((header, rows)) = table.split_first() else { return Vec::new() };
    let column = header.iter().position(|cell| cell.trim() == "module");
    let cells = rows.iter().filter_map(|row| row.get(column.unwrap_or(0)));
    let quoted = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let is_module = |name: &&str| {
        name.chars()
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_:".contains(letter))
    };
    let names: Vec<&str> = quoted.filter(is_module).collect();
    let lists_modules = column.is_some() || names.iter().any(|name| declares(text, name));
    if lists_modules { names } else { Vec::new() }
}

/// Whether a file has a module of this name, in a file of its own or in place.
fn declares(text: &str, name: &str) -> bool {
    let heads = [format!("mod {name};"), format!("mod {name} {{")];
    text.lines().any(|line| heads.iter().any(|head| line.ends_with(head.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that are gone, of a file `a/mod.rs` with a file `b.rs` beside it and `c/d.rs` elsewhere.
    fn gone(text: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [("a/mod.rs", text), ("a/b.rs", ""), ("src/c/d.rs", "")] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = gone_from_module_tables(&[dir.path()]);
        found.iter().filter_map(|name| Some(name.split_once(" in ")?.0.to_owned())).collect()
    }

    #[test]
    fn a_module_table_is_known_by_its_header_or_by_a_module_that_it_names() {
        let head =
            "//! Text.\n//!\n//! | what | module |\n//! |---|---|\n//! | `x` | `b`, `e` |\n\npub mod b;\n";
        assert_eq!(gone(head), ["e"]);
        let first = "//! | file | what |\n//! |---|---|\n//! | [`b`] | |\n//! | `e` | `f` |\n\nmod b;\n";
        assert_eq!(gone(first), ["e"]);
        let other = "//! | status | means |\n//! |---|---|\n//! | `e` | |\n\nmod b;\n";
        assert_eq!(gone(other), Vec::<String>::new());
    }

    #[test]
    fn a_path_in_a_module_table_leads_to_a_file() {
        let paths = "//! | module |\n//! |---|\n//! | `c::d`, `crate::c::d`, `c::e`, `crate::d` |\n";
        assert_eq!(gone(paths), ["c::e", "crate::d"]);
    }
}
