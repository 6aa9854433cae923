//! References for people, made from the programs: of the commands, `deploy/docs/cli.md`, and of the interface.

mod api;
mod files;
mod structs;

use std::{env, fmt::Write as _, fs, path::Path, process::Command};

use plimsoll_tests::Programs;

const HEAD: &str = "# Commands

What `--help` says of each program and each of its commands. Settings of the server have a [page of their own](settings.md).
";

fn help(program: &Path, command: &[&str]) -> String {
    let answer = Command::new(program).env_clear().args(command).arg("--help").output().unwrap();
    assert!(answer.status.success(), "{command:?}");
    String::from_utf8(answer.stdout).unwrap()
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
fn the_reference_of_commands_is_what_the_programs_say() {
    let programs = Programs::for_tests();
    let mut page = HEAD.to_owned();
    write_all(&mut page, &programs.agent, &["plimsoll"]);
    write_all(&mut page, &programs.server, &["plimsoll-server"]);
    assert_is_the_page(&page, "cli.md");
}

/// Fails if the page in `deploy/docs` is another one, and writes what it should be beside the tests' files.
fn assert_is_the_page(now: &str, name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/docs").join(name);
    let is_the_page = fs::read_to_string(file).unwrap() == now;
    let made = env::temp_dir().join(name);
    if !is_the_page {
        fs::write(&made, now).unwrap();
    }
    assert!(is_the_page, "deploy/docs/{name} is not what the programs say; {} is", made.display());
}

#[test]
fn shells_and_man_are_given_every_command() {
    let agent = &Programs::for_tests().agent;
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<String> = commands(&help(agent, &[])).into_iter().map(str::to_owned).collect();
    for shell in ["bash", "zsh", "fish"] {
        let script = Command::new(agent).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(script.stdout).unwrap();
        assert!(names.iter().all(|name| script.contains(name)), "{shell}");
    }
    let written = Command::new(agent).arg("man").arg(dir.path()).status().unwrap();
    assert!(written.success());
    let page = |name: &String| dir.path().join(format!("plimsoll-{name}.1"));
    let missing: Vec<_> = names.iter().map(page).filter(|page| !page.is_file()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let nowhere = Command::new(agent).args(["man", "/nowhere"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("cannot write pages into /nowhere"));
}

#[test]
fn shells_and_man_are_given_every_command_and_setting_of_the_server() {
    let server = &Programs::for_tests().server;
    let dir = tempfile::tempdir().unwrap();
    let known = ["backup", "restore", "rules", "--grpc-listen", "--admit-mode"];
    for shell in ["bash", "zsh"] {
        let script = Command::new(server).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(script.stdout).unwrap();
        let missing: Vec<_> = known.iter().filter(|word| !script.contains(*word)).collect();
        assert!(missing.is_empty(), "{shell}: {missing:?}");
    }
    let written = Command::new(server).arg("man").arg(dir.path()).status().unwrap();
    assert!(written.success() && dir.path().join("plimsoll-server-backup.1").is_file());
    let nowhere = Command::new(server).args(["man", "/nowhere"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("cannot write pages into /nowhere"));
}
