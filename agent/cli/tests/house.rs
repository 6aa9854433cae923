//! The plan of the agent's crates holds: no modules use each other in a circle, the code maps name what is there, and no type has a name
//! that says nothing without its module.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the tree must fail")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use plimsoll_support::house::{Modules, bare_names, in_source_folder, named_in_code_map};

const CRATES: [&str; 3] = ["measure", "client", "cli"];

fn agent() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

#[test]
fn no_modules_of_the_agent_use_each_other_in_a_circle() {
    for name in CRATES {
        let modules = Modules::read(&agent().join(name).join("src"));
        assert!(!modules.arrows().is_empty(), "agent/{name} was read");
        assert_eq!(modules.circles(), Vec::<String>::new(), "agent/{name}");
    }
}

#[test]
fn the_code_map_of_each_crate_names_all_that_is_there_and_nothing_else() {
    for name in CRATES {
        let dir = agent().join(name);
        let named = named_in_code_map(&fs::read_to_string(dir.join("README.md")).unwrap(), "src/");
        assert_eq!(named, in_source_folder(&dir), "agent/{name}/README.md");
    }
}

#[test]
fn the_code_map_of_the_repository_names_all_crates_of_the_agent() {
    let readme = fs::read_to_string(agent().parent().unwrap().join("README.md")).unwrap();
    let there: BTreeSet<String> = CRATES.iter().map(|name| format!("agent/{name}/")).collect();
    assert_eq!(named_in_code_map(&readme, "agent/"), there, "README.md");
}

#[test]
fn no_type_has_a_name_that_says_nothing_without_its_module() {
    for name in CRATES {
        assert_eq!(bare_names(&agent().join(name).join("src")), Vec::<String>::new());
    }
}
