//! The structure of the source tree: modules of the server use only those that the table names, no modules use each other in a circle, no
//! type has a name that says nothing, and the code maps and tables of modules name what is
//! there.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the tree must fail")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use plimsoll_support::house::{
    Modules, bare_names, code, files, gone_from_module_tables, in_source_folder, is_of_tests,
    named_in_code_map,
};

/// What each module of the server uses beside itself, tests apart. The crates below are guarded by the compiler. A new arrow wants a
/// reason; one that is gone leaves the table.
const ARROWS: &[(&str, &[&str])] = &[
    ("access", &["runtime"]),
    ("admin", &["access", "ci", "door", "ingest", "runtime", "sizing", "tickets"]),
    (
        "app",
        &["access", "admin", "ci", "door", "fleet", "ingest", "runtime", "sizing", "tickets", "verdicts"],
    ),
    ("ci", &["ingest", "runtime", "sizing", "tickets", "verdicts"]),
    ("door", &["access", "ci", "fleet", "ingest", "runtime", "sizing", "tickets", "verdicts"]),
    ("fleet", &["access", "ingest", "runtime", "sizing", "verdicts"]),
    ("fuzz", &["access", "ci", "door", "runtime"]),
    ("ingest", &["access", "runtime", "sizing", "tickets"]),
    ("sizing", &["access", "runtime"]),
    ("tickets", &["access", "runtime", "sizing"]),
    ("verdicts", &["access", "ingest", "runtime"]),
];

type Arrows = BTreeMap<String, BTreeSet<String>>;

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

fn server() -> PathBuf {
    repository().join("server")
}

#[test]
fn modules_of_the_server_use_only_those_that_the_table_names() {
    let table: Arrows = ARROWS
        .iter()
        .map(|(from, to)| ((*from).to_owned(), to.iter().map(|name| (*name).to_owned()).collect()))
        .collect();
    let found = Modules::read(&server().join("app/src")).arrows();
    let pairs = |arrows: &Arrows| -> BTreeSet<(String, String)> {
        arrows.iter().flat_map(|(from, to)| to.iter().map(|to| (from.clone(), to.clone()))).collect()
    };
    let (table, found) = (pairs(&table), pairs(&found));
    let new: Vec<_> = found.difference(&table).collect();
    let gone: Vec<_> = table.difference(&found).collect();
    assert!(new.is_empty(), "new arrows between modules: {new:?}");
    assert!(gone.is_empty(), "arrows that are no longer there; remove them from the table: {gone:?}");
}

/// The ways in stand side by side, and what two of them share stands beside them. Only HTTP mounts the routes of the page.
#[test]
fn grpc_http_and_the_page_do_not_use_each_other() {
    let source = server().join("app/src/door");
    for (way, others) in
        [("grpc", ["http", "web"].as_slice()), ("web", &["grpc", "http"]), ("http", &["grpc"])]
    {
        for file in files(&source.join(way)).iter().filter(|file| !is_of_tests(file)) {
            let code = code(&fs::read_to_string(file).unwrap());
            let used = code.split("door::").skip(1).filter_map(|rest| rest.split(';').next());
            let mut words = used.flat_map(|used| used.split(|c: char| !c.is_alphanumeric() && c != '_'));
            let wrong = words.find(|word| others.contains(word));
            assert_eq!(wrong, None, "{}", file.display());
        }
    }
}

#[test]
fn no_modules_use_each_other_in_a_circle() {
    for name in CRATES {
        let modules = Modules::read(&repository().join(name).join("src"));
        assert!(!modules.arrows().is_empty(), "{name} was read");
        assert_eq!(modules.circles(), Vec::<String>::new(), "{name}");
    }
}

/// Types whose names say nothing without their module, and the files that still have them. It only shrinks.
const BARE: &[&str] = &[];

#[test]
fn no_type_has_a_name_that_says_nothing_without_its_module() {
    let sources = ["proto", "server", "agent", "tests"].map(|name| repository().join(name));
    let found = sources.iter().flat_map(|dir| bare_names(dir));
    let root = format!("{}/", repository().display());
    let found: BTreeSet<String> = found.map(|name| name.replace(&root, "")).collect();
    let left: BTreeSet<String> = BARE.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, left, "say which: `PoolSlot`, `EvidenceLine`, `QueueEntry`");
}

#[test]
fn a_table_of_modules_names_only_modules_that_are_there() {
    let sources = ["proto", "server", "agent", "tests"].map(|name| repository().join(name));
    let gone = gone_from_module_tables(&sources.each_ref().map(PathBuf::as_path));
    assert_eq!(gone, Vec::<String>::new());
}

#[test]
fn the_code_map_of_each_crate_names_all_that_is_there_and_nothing_else() {
    // `proto` has no code map: each of its files is a service or says what it is
    for name in CRATES.iter().filter(|name| **name != "proto") {
        let dir = repository().join(name);
        let named = named_in_code_map(&fs::read_to_string(dir.join("README.md")).unwrap(), "src/");
        let mut there = in_source_folder(&dir);
        if *name == "server/store" {
            // its files are one row
            there.retain(|path| path.ends_with('/'));
            there.insert("src/".to_owned());
        }
        assert_eq!(named, there, "{name}/README.md");
    }
}

fn is_source(text: &str) -> bool {
    Path::new(text).extension().is_some_and(|extension| extension == "rs")
}

/// The files of the numbered lists of a README.md, and of the text below them.
fn walked(readme: &str) -> Vec<String> {
    let walks = readme.split("\n## ").skip(1).filter(|part| part.contains("\n1. `"));
    let quoted = walks.flat_map(|walk| walk.split('`').skip(1).step_by(2));
    let files = quoted.filter(|text| is_source(text));
    files.map(str::to_owned).collect()
}

#[test]
fn each_file_that_a_walk_through_the_server_names_is_there() {
    let dir = server().join("app");
    let files = walked(&fs::read_to_string(dir.join("README.md")).unwrap());
    assert!(files.len() > 20, "{files:?}");
    let gone: Vec<_> = files.iter().filter(|file| !dir.join(file).is_file()).collect();
    assert!(gone.is_empty(), "{gone:?}");
}

#[test]
fn the_code_map_of_the_repository_names_all_crates() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    for side in ["server/", "agent/"] {
        let there: BTreeSet<String> =
            CRATES.iter().filter(|name| name.starts_with(side)).map(|name| format!("{name}/")).collect();
        assert_eq!(named_in_code_map(&readme, side), there, "README.md");
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
fn a_build_of_the_workspace_asks_for_the_features_that_its_tests_ask_for() {
    let (build, test) = (features("normal"), features("normal,dev"));
    assert!(build.len() > 200, "{build:?}");
    let other: Vec<_> = build.difference(&test).collect();
    assert!(
        other.is_empty(),
        "name these features in tests/Cargo.toml, as only tests ask for them: {other:#?}"
    );
}
