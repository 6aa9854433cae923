//! The commands of each guide are run in their order, against one server for each guide, in a directory that has what readers have: a log, a
//! `make`, recorded builds. The exit status is compared, and of the output the shape: how each line begins, without its numbers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt as _,
    process::Output,
};

use plimsoll_support::postgres::PostgresServer;
use plimsoll_tests::{Programs, Server};
use regex::Regex;

use super::{
    Block, all_blocks,
    console_tables::{BEFORE, DATABASE, ENDS_WITH, EXACT, NOT_RUN, REPLACED},
};
use crate::{guide_dir::GuideDir, tools::repository};

/// Words of a command line that make the server do something else than to serve.
const COMMANDS: [&str; 13] = [
    "--print-config",
    "backup",
    "completions",
    "import",
    "init",
    "man",
    "pools",
    "projects",
    "repair",
    "replay",
    "restore",
    "rules",
    "verify",
];

/// A command as a guide shows it, with the output that follows it.
#[derive(Debug, PartialEq)]
struct Shown {
    command: String,
    output: Vec<String>,
}

/// The commands of a block. Where a line begins with `$`, only such lines are commands.
fn shown(text: &str) -> Vec<Shown> {
    let has_output = text.starts_with("$ ");
    let mut all: Vec<Shown> = Vec::new();
    let text = text.replace("\\\n", " ").replace("|\n", "|");
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (None, Some(last)) if has_output => last.output.push(line.to_owned()),
            (command, _) => {
                let command = command.unwrap_or(line).split_whitespace().collect::<Vec<_>>().join(" ");
                all.push(Shown { command, output: Vec::new() });
            }
        }
    }
    all
}

/// How a line of output begins, without its numbers: its label, or the first two words of a sentence.
fn shape(line: &str) -> String {
    let line = Regex::new("[0-9]+(\\.[0-9]+)?").unwrap().replace_all(line.trim(), "0").into_owned();
    let label = line.split_once("  ").map(|(label, _)| label.to_owned());
    label.unwrap_or_else(|| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

/// The first shown line whose shape was not printed behind those before it.
fn missing<'s>(shown: &'s [String], printed: &str) -> Option<&'s String> {
    let mut printed = printed.lines().filter(|line| !line.trim().is_empty()).map(shape);
    shown.iter().find(|line| !printed.any(|other| other == shape(line)))
}

/// A directory and a server for the commands of one guide.
struct Reader {
    dir: GuideDir,
    server: Option<Server>,
    /// URL of an empty database, if the guide has one and PostgreSQL is installed.
    database: Option<String>,
}

impl Reader {
    fn new(commands: &[&Shown]) -> Self {
        let dir = GuideDir::new();
        let path = |name: &str| dir.path(name);
        for name in ["var/lib", "etc"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        fs::write(path("bin/make"), "#!/bin/sh\nexit 0\n").unwrap();
        fs::set_permissions(path("bin/make"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(path("build.log"), "a.c:1:2: error: no\n").unwrap();
        let builds = fs::read_to_string(repository().join("tests/data/lab_builds.csv")).unwrap();
        fs::write(path("lab_builds.csv"), &builds).unwrap();
        let with_request = |(at, line): (usize, &str)| {
            format!("{line},{}\n", if at == 0 { "requested_bytes" } else { "4294967296" })
        };
        // compressed or not: the program looks at the bytes
        let builds: String = builds.lines().enumerate().map(with_request).collect();
        fs::write(path("builds.csv.gz"), builds).unwrap();
        let has_database = commands.iter().any(|shown| shown.command.contains(DATABASE));
        let database = if has_database { PostgresServer::shared() } else { None };
        let database = database.map(|server| server.url(&server.new_database()));
        let mut reader = Self { dir, server: None, database };
        let asks =
            |shown: &&Shown| shown.command.starts_with("plimsoll ") || shown.command.contains(" backup ");
        if commands.iter().any(asks) {
            let imported = reader.run("plimsoll-server import lab_builds.csv --data-dir /var/lib/plimsoll");
            assert!(imported.status.success(), "{imported:?}");
            reader.start();
        }
        if commands.iter().any(|shown| shown.command.contains(BEFORE.0)) {
            let made = reader.run(BEFORE.1);
            assert!(made.status.success(), "{made:?}");
        }
        reader
    }

    fn start(&mut self) {
        let data = self.dir.path("var/lib/plimsoll");
        self.server = Some(Server::start(Programs::for_tests(), &data).unwrap());
    }

    fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().unwrap();
        }
    }

    fn run(&self, command: &str) -> Output {
        let root = self.dir.name("");
        let root = root.trim_end_matches('/');
        let mut words = command.to_owned();
        if let Some(database) = &self.database {
            words = words.replace(DATABASE, database);
        }
        for (written, here) in REPLACED {
            words = words.replace(written, &here.replace("ROOT", root));
        }
        let mut shell = self.dir.shell(&words);
        if let Some(server) = &self.server {
            shell.env("PLIMSOLL_SERVER", server.url()).env("PLIMSOLL_HTTP_LISTEN", server.http.to_string());
        }
        shell.output().unwrap()
    }

    /// Runs a command as readers do who have come so far, and says what is not as the guide shows it.
    fn follow(&mut self, shown: &Shown) -> Option<String> {
        let command = &shown.command;
        if command.contains(DATABASE) && self.database.is_none() {
            return None;
        }
        // the guide says so: the server is stopped for it, and started again behind it
        if command.starts_with("plimsoll-server") && command.contains("import ") {
            self.stop();
        } else if command.starts_with("plimsoll ") && self.server.is_none() {
            self.start();
        }
        if command.starts_with("plimsoll-server repair") {
            // the guide says so: the server is stopped, and the new directory is empty
            self.stop();
            fs::remove_dir_all(self.dir.path("var/lib/plimsoll-new")).unwrap();
        }
        let serves = command.starts_with("plimsoll-server")
            && !command.split_whitespace().any(|word| COMMANDS.contains(&word));
        let answer = self.run(&if serves { format!("{command} --print-config") } else { command.clone() });
        let ends = ENDS_WITH
            .iter()
            .find(|(start, ..)| command.starts_with(start))
            .map_or(0, |(_, status, _)| *status);
        let printed = String::from_utf8_lossy(&answer.stdout);
        let written = String::from_utf8_lossy(&answer.stderr);
        if answer.status.code() != Some(ends) {
            return Some(format!("{command}: {} and not {ends}\n{printed}{written}", answer.status));
        }
        // the key of a command without `--key arch=` is that of the machine
        let is_exact = EXACT.contains(&command.as_str()) && cfg!(target_arch = "x86_64");
        if is_exact && shown.output.join("\n") != printed.trim_end() {
            return Some(format!("{command}: write this into the guide:\n{printed}"));
        }
        let line = missing(&shown.output, &printed)?;
        Some(format!("{command}: printed nothing like {line:?}\n{printed}"))
    }
}

/// The row of the table that leaves a command out.
fn not_run(command: &str) -> Option<&'static str> {
    NOT_RUN.iter().find(|(start, _)| command.starts_with(start)).map(|(start, _)| *start)
}

fn is_shell(block: &Block) -> bool {
    block.language == "console" || (block.language == "text" && block.text.starts_with("$ plimsoll"))
}

#[test]
fn guide_commands_print_what_is_shown() {
    let mut guides: BTreeMap<String, Vec<Shown>> = BTreeMap::new();
    for block in all_blocks().iter().filter(|block| is_shell(block)) {
        guides.entry(block.guide.clone()).or_default().extend(shown(&block.text));
    }
    let (mut wrong, mut left_out, mut ran) = (Vec::new(), BTreeSet::new(), 0);
    for (guide, commands) in &guides {
        left_out.extend(commands.iter().filter_map(|shown| not_run(&shown.command)));
        let commands: Vec<&Shown> =
            commands.iter().filter(|shown| not_run(&shown.command).is_none()).collect();
        let mut reader = Reader::new(&commands);
        ran += commands.len();
        wrong.extend(commands.iter().filter_map(|shown| Some(format!("{guide}: {}", reader.follow(shown)?))));
    }
    assert!(wrong.is_empty() && ran > 25, "{ran} commands ran\n{}", wrong.join("\n\n"));
    let stale: Vec<_> = NOT_RUN.iter().filter(|(start, _)| !left_out.contains(start)).collect();
    assert!(stale.is_empty(), "no guide has these any more: {stale:?}");
}

#[test]
fn commands_are_parsed_and_compared_by_shape() {
    let read = shown("$ a b \\\n    --c\nneed   12 KiB\n$ d\n");
    let first = Shown { command: "a b --c".to_owned(), output: vec!["need   12 KiB".to_owned()] };
    assert_eq!(read, [first, Shown { command: "d".to_owned(), output: Vec::new() }]);
    let written = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        missing(&written(&["need   12 KiB", "5 attempts of it"]), "x\nneed  9 GiB\n77 attempts of all\n"),
        None
    );
    assert!(missing(&written(&["need   12 KiB"]), "needs  9 GiB\n").is_some());
    assert!(missing(&written(&["b  1", "a  1"]), "a  1\nb  1\n").is_some(), "the order counts");
}
