//! The tables of the guide are what the programs print.

use plimsoll_tests::{Answer, Server, assert_has};

const GUIDE: &str = include_str!("../../deploy/docs/evaluate.md");

/// Builds that were measured for this project, each in its own cgroup: Rust crates, Debian's C and C++ packages, Python extensions.
/// The need is the highest resident memory.
const LAB: &str = "tests/data/lab_builds.csv";

/// The rows of a table of `replay` without the time that a prediction takes, which is another on each machine.
fn rows(text: &str) -> Vec<String> {
    let table = text.lines().skip_while(|line| !line.starts_with("policy "));
    let rows = table.skip(1).take_while(|line| line.contains('x') && !line.contains("builds needed"));
    let cells = |line: &str| line.split_whitespace().take(9).collect::<Vec<_>>().join(" ");
    rows.map(cells).collect()
}

/// What `replay` prints of a file of the repository.
fn replayed(file: &str, options: &[&str]) -> String {
    let mut replay = Server::program();
    replay.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).args(["replay", file]).args(options);
    Answer::of(&mut replay).done()
}

/// What the guide shows behind this command.
fn shown(command: &str) -> &'static str {
    GUIDE.split_once(command).expect("the guide names the command").1
}

#[test]
fn the_lab_builds_table_is_replay_output() {
    let (after, printed) = (shown(&format!("plimsoll-server replay {LAB}")), replayed(LAB, &[]));
    assert!(rows(&printed).len() > 5, "{printed}");
    assert_eq!(rows(after), rows(&printed), "write this into the guide:\n{printed}");
    let last = printed.lines().find(|line| line.contains("builds needed")).unwrap();
    assert_has(after, [last.split(". ").next().unwrap()]);
}

/// 500 made-up builds of 30 packages whose needs repeat.
const REPEATED: &str = "tests/data/repeated_builds.csv";

#[test]
fn the_repeated_builds_tables_are_replay_output() {
    let options = ["--policy", "max-seen,krr,plimsoll", "--match-failures", "2%"];
    let mut after = shown(&format!("plimsoll-server replay {REPEATED} {}", options.join(" ")));
    for more in [&[][..], &["--warmup", "40%"]] {
        let printed = replayed(REPEATED, &[&options, more].concat());
        let (_, table) = after.split_once("```text\n").expect("the guide shows the table");
        let (table, rest) = table.split_once("```").expect("the end of the table");
        assert_eq!(rows(table), rows(&printed), "write this into the guide:\n{printed}");
        assert_eq!(rows(table).len(), 3, "{table}");
        after = rest;
    }
}
