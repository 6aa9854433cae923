//! The steps of the guide for Copr's builders, from an empty machine to a first ticket, a first suggestion and Koji's capacity. Mock, Copr
//! and Koji are not there: a build is `true`, and Resalloc's command is a script that makes the same calls.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use plimsoll_tests::{Answer, Server, Site};

use crate::tools::has_python;

const GUIDE: &str = include_str!("../../deploy/docs/copr-koji.md");

/// The options and calls of Resalloc's command.
const RESALLOC: &str = r#"
import argparse, xmlrpc.client
options = argparse.ArgumentParser()
for name in ("--connection", "--sandbox", "what"): options.add_argument(name)
options.add_argument("--tag", action="append")
options.add_argument("number", nargs="?")
asked = options.parse_args()
p = xmlrpc.client.ServerProxy(asked.connection, allow_none=True)
calls = {
    "ticket": lambda: p.takeTicket(asked.tag, asked.sandbox),
    "ticket-wait": lambda: p.waitTicket(asked.number),
    "ticket-close": lambda: p.closeTicket(asked.number),
}
print(calls[asked.what]())
"#;

/// The first block of the guide in this language.
fn first_block(language: &str) -> &'static str {
    let (_, rest) = GUIDE.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// What a command line of the server's program prints in this directory.
fn server_prints(dir: &Path, line: &str) -> String {
    let words = line.split_whitespace().skip(1);
    Answer::of(Server::program().args(words).current_dir(dir)).done()
}

#[test]
fn the_guide_works_from_start_to_capacity() {
    if !has_python() {
        return;
    }
    // 1 and 2: the pools, and the server
    let site = Site::start_with(&[("--pools-file", first_block("toml"))], &[]).unwrap();
    // 3 and 4: a ticket, as the backend takes it
    let address = format!("http://{}", site.server.http);
    let calls = first_block("text").lines().map(|line| {
        let line = line.replace("http://127.0.0.1:7411", &address);
        let words = line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        Answer::of(Command::new("python3").args(["-c", RESALLOC]).args(&words[1..])).done()
    });
    assert_eq!(calls.collect::<Vec<_>>(), ["1\n", "x86\n", "None\n"]);
    // 5: measured builds
    assert!(GUIDE.contains("put `plimsoll run --pool x86 --` in front of `mock`"));
    for _ in 0..2 {
        let ran = site.agent.call(&["run", "--pool", "x86", "--", "true"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    // 6: the history of the stopped server
    let stopped = site.end_server().unwrap();
    let dir = stopped.dir.path().to_owned();
    assert!(GUIDE.contains("`plimsoll-server export builds.jsonl`"));
    server_prints(&dir, "plimsoll-server export builds.jsonl --data-dir data");
    assert_eq!(fs::read_to_string(dir.join("builds.jsonl")).unwrap().lines().count(), 2);
    let site = stopped.start_server().unwrap();
    // 7 and 8: the made history names a package, and two builds suggest nothing: as text, and as Copr's list
    symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy"), dir.join("deploy")).unwrap();
    fs::write(dir.join("first.csv"), first_block("csv")).unwrap();
    let answers = |history: &str| -> Vec<String> {
        let lines = first_block("console").lines().map(|line| line.replace("lab_builds.csv", history));
        lines.map(|line| server_prints(&dir, line.strip_prefix("$ ").unwrap())).collect()
    };
    let first = answers("first.csv");
    assert!(first[0].contains("put on the list: 1 package\n"), "{first:?}");
    assert!(first[1].contains("@web/browser(:[^/]*)?/[^/]*x86_64[^/]*/chromium$"), "{first:?}");
    let own = answers("builds.jsonl");
    assert!(own[0].contains("fewer than 5 builds"), "{own:?}");
    assert_eq!(own[1], "EXTRA_BUILDCHROOT_TAGS = []\n");
    // 9: the first line is the number
    let capacity = "plimsoll-server pools capacity --kinds scratch,explicit --pools-file deploy/osbs.toml";
    assert!(GUIDE.contains(capacity));
    assert_eq!(server_prints(&dir, capacity).lines().next(), Some("4"));
    drop(site);
}
