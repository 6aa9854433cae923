//! References for people, made from the programs: of the commands, `deploy/docs/cli.md`, and of the interface.

mod api;
mod files;

use std::{fmt::Write as _, fs, path::Path, process::Command};

use plimsoll_proto::fixtures::assert_pinned;
use plimsoll_tests::{Answer, Programs, assert_has};

use crate::tools::repository;

const HEAD: &str = "# Commands

What `--help` says of each program and each of its commands. Settings of the server have a [page of their own](settings.md).
";

fn help(program: &Path, command: &[&str]) -> String {
    Answer::of(Command::new(program).env_clear().args(command).arg("--help")).done()
}

/// The names in the list of commands of a help.
fn commands(help: &str) -> Vec<&str> {
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names =
        listed.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").collect()
}

fn write_all(page: &mut String, program: &Path, path: &[&str]) {
    let help = help(program, &path[1..]);
    // settings stand on a page of their own
    let is_server = path == ["plimsoll-server"];
    let shown = if is_server { help.split("\nListeners:").next().unwrap() } else { &help };
    let text: Vec<&str> = shown.trim_end().lines().map(str::trim_end).collect();
    let depth = "#".repeat(path.len() + 1);
    write!(page, "\n{depth} {}\n\n```text\n{}\n```\n", path.join(" "), text.join("\n")).unwrap();
    for name in commands(&help) {
        write_all(page, program, &[path, &[name]].concat());
    }
}

#[test]
fn the_command_reference_matches_the_programs() {
    let programs = Programs::for_tests();
    let mut page = HEAD.to_owned();
    write_all(&mut page, &programs.agent, &["plimsoll"]);
    write_all(&mut page, &programs.server, &["plimsoll-server"]);
    assert_is_the_page(&page, "cli.md");
}

/// Fails if the page in `deploy/docs` is another one, and writes what it should be beside the tests' files.
fn assert_is_the_page(now: &str, name: &str) {
    let file = repository().join("deploy/docs").join(name);
    assert_pinned(now, &fs::read_to_string(file).unwrap_or_default(), name);
}

/// A program gives each of these shells all of these words, and a page of the manual for each of these commands.
fn assert_gives(program: &Path, shells: &[&str], words: &[&str], pages: &[String], status: i32) {
    let dir = tempfile::tempdir().unwrap();
    for shell in shells {
        assert_has(&Answer::of(Command::new(program).args(["completions", shell])).done(), words);
    }
    Answer::of(Command::new(program).arg("man").arg(dir.path())).done();
    let missing: Vec<_> = pages.iter().filter(|page| !dir.path().join(page).is_file()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let nowhere = Answer::of(Command::new(program).args(["man", "/nowhere"]));
    assert_eq!(nowhere.code, Some(status));
    assert_has(&nowhere.stderr, ["cannot write pages into /nowhere"]);
}

#[test]
fn shells_and_man_are_given_every_command() {
    let agent = &Programs::for_tests().agent;
    let help = help(agent, &[]);
    let names = commands(&help);
    let pages: Vec<String> = names.iter().map(|name| format!("plimsoll-{name}.1")).collect();
    assert_gives(agent, &["bash", "zsh", "fish"], &names, &pages, 2);
}

#[test]
fn completions_and_man_pages_cover_the_server() {
    let words = ["backup", "restore", "rules", "--grpc-listen", "--admit-mode"];
    let pages = ["plimsoll-server-backup.1".to_owned()];
    assert_gives(&Programs::for_tests().server, &["bash", "zsh"], &words, &pages, 1);
}
