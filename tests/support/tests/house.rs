//! Which room of the server may use which, and that code maps name what is there.
//!
//! It reads text and not syntax: comments are left out, and so are tests, at the foot of a file or in files of their own.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the tree must fail")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use plimsoll_support::files_below;

/// What each room of the server uses beside itself, tests apart. The crates below are guarded by the compiler. A new arrow wants a
/// reason; one that is gone leaves the table.
const ARROWS: &[(&str, &[&str])] = &[
    ("access", &["runtime"]),
    ("admin", &["access", "causes", "ci", "door", "ingest", "pools", "runtime", "sizing", "tickets"]),
    (
        "app",
        &[
            "access", "admin", "causes", "ci", "door", "fleet", "ingest", "pools", "runtime", "sizing",
            "tickets", "verdicts",
        ],
    ),
    ("causes", &["runtime"]),
    ("ci", &["ingest", "runtime", "sizing", "tickets", "verdicts"]),
    ("door", &["access", "ci", "fleet", "ingest", "pools", "runtime", "sizing", "tickets", "verdicts"]),
    ("fleet", &["access", "causes", "ingest", "pools", "runtime", "sizing", "verdicts"]),
    ("fuzz", &["access", "ci", "door", "runtime"]),
    ("ingest", &["access", "causes", "pools", "runtime", "tickets"]),
    ("pools", &["runtime"]),
    ("sizing", &["access", "pools", "runtime"]),
    ("tickets", &["access", "pools", "runtime", "sizing"]),
    ("verdicts", &["access", "causes", "ingest", "pools", "runtime"]),
];

/// All crates with sources that a program is made of.
const CRATES: [&str; 9] = [
    "proto",
    "server/core",
    "server/store",
    "server/lab",
    "server/pages",
    "server/app",
    "agent/measure",
    "agent/client",
    "agent/cli",
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().parent().unwrap().to_owned()
}

/// The room of a file below `src/`; `None` for the root of the crate and for files that hold nothing but tests.
fn room(inner: &Path) -> Option<String> {
    let is_of_tests = |part: &str| {
        ["tests", "tests.rs", "fixture.rs", "fixtures"].contains(&part) || part.ends_with("_tests.rs")
    };
    let parts: Vec<&str> = inner.iter().filter_map(|part| part.to_str()).collect();
    let name = parts.first()?.trim_end_matches(".rs");
    let is_root = ["lib", "main"].contains(&name);
    (!is_root && !parts.iter().any(|part| is_of_tests(part))).then(|| name.to_owned())
}

/// The name that a text begins with.
fn first_name(text: &str) -> String {
    text.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// The first names of the paths that begin with `crate::`; of a list in braces, those of its entries.
fn named(text: &str) -> BTreeSet<String> {
    let code = text.split("\nmod tests {").next().unwrap_or_default();
    let lines: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut names = BTreeSet::new();
    for path in lines.join("\n").replace("(in crate::", "(").split("crate::").skip(1) {
        let Some(list) = path.strip_prefix('{') else {
            names.insert(first_name(path));
            continue;
        };
        let (mut depth, mut is_entry) = (1, true);
        for piece in list.split_inclusive(['{', '}', ',']) {
            if is_entry {
                names.insert(first_name(piece));
            }
            depth += i32::from(piece.ends_with('{')) - i32::from(piece.ends_with('}'));
            is_entry = depth == 1 && piece.ends_with(',');
            if depth == 0 {
                break;
            }
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The room that the root of the crate passes this name on from, if any.
fn passed_on(root: &str, name: &str) -> Option<String> {
    let lines = root.lines().filter_map(|line| line.trim().strip_prefix("pub use "));
    let words = |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
    lines.filter(|line| words(line)).map(first_name).next()
}

/// Each room of the server with each other one that it uses.
fn found() -> BTreeSet<(String, String)> {
    let source = repository().join("server/app/src");
    let rooms: BTreeSet<&str> = ARROWS.iter().map(|(from, _)| *from).chain(["runtime"]).collect();
    let root = fs::read_to_string(source.join("lib.rs")).unwrap();
    let mut found = BTreeSet::new();
    for file in files_below(&source) {
        let Some(from) = room(file.strip_prefix(&source).unwrap()) else { continue };
        assert!(rooms.contains(from.as_str()), "a room that the table lacks: {from}");
        let used = named(&fs::read_to_string(&file).unwrap()).into_iter();
        let used = used.map(|name| passed_on(&root, &name).unwrap_or(name));
        let used = used.filter(|name| *name != from && rooms.contains(name.as_str()));
        found.extend(used.map(|to| (from.clone(), to)));
    }
    found
}

#[test]
fn rooms_use_only_those_of_the_table() {
    let pair = |from: &str, to: &&str| (from.to_owned(), (*to).to_owned());
    let table: BTreeSet<_> =
        ARROWS.iter().flat_map(|(from, to)| to.iter().map(move |to| pair(from, to))).collect();
    let found = found();
    let new: Vec<_> = found.difference(&table).collect();
    let gone: Vec<_> = table.difference(&found).collect();
    assert!(new.is_empty(), "new arrows between rooms: {new:?}");
    assert!(gone.is_empty(), "arrows that are no longer there; remove them from the table: {gone:?}");
}

#[test]
fn no_rooms_use_each_other_in_a_circle() {
    let mut left: Vec<_> = ARROWS.to_vec();
    // a room that uses none of those that are left is in no circle
    while let Some(at) =
        left.iter().position(|(_, to)| !to.iter().any(|to| left.iter().any(|(from, _)| from == to)))
    {
        left.remove(at);
    }
    assert_eq!(left, []);
}

#[test]
fn names_of_rooms_are_read_from_paths() {
    let names = |code| named(code).into_iter().collect::<Vec<_>>();
    let text = "use crate::{\n    a::{self, b as c},\n    d::*,\n};\ncrate::e::f(x, g)";
    assert_eq!(names(text), ["a", "d", "e"]);
    assert_eq!(names("// crate::a\npub(in crate::a) x;\nmod tests {\nuse crate::b;"), Vec::<String>::new());
    let rooms = |files: [&str; 2]| files.map(|file| room(Path::new(file)));
    assert_eq!(rooms(["a/tests/b.rs", "lib.rs"]), [None, None]);
    assert_eq!(rooms(["a.rs", "a/b/c.rs"]), [Some("a".to_owned()), Some("a".to_owned())]);
}

/// The paths in the first column of the tables of a README.md that begin with `start`.
fn in_code_map(readme: &Path, start: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(readme).unwrap();
    let first = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let paths = first.flat_map(|column| column.split('`').skip(1).step_by(2));
    paths.filter(|path| path.starts_with(start)).map(str::to_owned).collect()
}

#[test]
fn each_crates_code_map_is_complete() {
    // `proto` has none: each of its files is a service or says what it is; the files of the store are one row
    for name in CRATES.iter().filter(|name| !["proto", "server/store"].contains(name)) {
        let dir = repository().join(name);
        let entries = fs::read_dir(dir.join("src")).unwrap().map(|entry| entry.unwrap());
        let there = entries.map(|entry| {
            let slash = if entry.path().is_dir() { "/" } else { "" };
            format!("src/{}{slash}", entry.file_name().into_string().unwrap())
        });
        let there = there.filter(|path| !["src/lib.rs", "src/main.rs"].contains(&path.as_str())).collect();
        assert_eq!(in_code_map(&dir.join("README.md"), "src/"), there, "{name}/README.md");
    }
}

#[test]
fn the_readmes_code_map_names_all_crates() {
    for side in ["server/", "agent/"] {
        let there: BTreeSet<String> =
            CRATES.iter().filter(|name| name.starts_with(side)).map(|name| format!("{name}/")).collect();
        assert_eq!(in_code_map(&repository().join("README.md"), side), there);
    }
}

/// Pauses, bounds and the guardian count time by the monotonic clock: a step of the wall clock changes nothing.
#[test]
fn rescue_reads_no_wall_clock() {
    for dir in ["agent/measure/src/rescue", "agent/measure/src/sampler", "agent/cli/src/rescue"] {
        let files = files_below(&repository().join(dir));
        assert!(files.len() >= 5, "{dir}");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let wall = ["SystemTime", "UNIX_EPOCH", "unix_ms", "clock_gettime", "modified()"];
            let found = wall.into_iter().find(|name| text.contains(name));
            assert_eq!(found, None, "{}", file.display());
        }
    }
}

/// What cargo compiles each crate of the workspace and below with, if it builds for these kinds of dependencies.
fn features(edges: &str) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "tree",
        "--workspace",
        "--locked",
        "--prefix",
        "none",
        "--format",
        "{p} {f}",
        "--edges",
        edges,
    ]);
    let tree = cargo.current_dir(repository()).output().unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let lines = String::from_utf8(tree.stdout).unwrap();
    lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

/// Cargo compiles a crate once for each set of features: a test that builds the programs would compile the server again.
#[test]
fn builds_and_tests_use_the_same_features() {
    let (build, test) = (features("normal"), features("normal,dev"));
    assert!(build.len() > 200, "{build:?}");
    let other: Vec<_> = build.difference(&test).collect();
    assert!(
        other.is_empty(),
        "name these features in tests/Cargo.toml, as only tests ask for them: {other:#?}"
    );
}
