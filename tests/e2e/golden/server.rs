//! `plimsoll-server`: every command beside serving.

use std::{fs, path::Path, process::Command};

use plimsoll_tests::Programs;

use super::{assert_is_the_file, transcript::Transcript};

const LAB: &str = include_str!("../../data/lab_builds.csv");

/// Failures to be judged: proven, probable, not known, and none.
const FAILURES: &str = r#"{"id":"killed","exit":2,"oom_kill":1,"mem_limit":99733504,"peak_rss":96591872,"wall_s":3.2,"log_tail":["g++: fatal error: Killed signal terminated program cc1plus"]}
{"id":"probably","exit":2,"log_tail":["g++: fatal error: Killed signal terminated program cc1plus"]}
{"id":"late","exit":137,"signal":9,"oom_kill":0,"wall_s":60.1,"timeout_s":60,"log_tail":[]}
{"id":"broken","exit":2,"failure_reason":"script_failure","log_tail":["x.c:3:1: error: expected ';'"]}
{"id":"gone","exit":1,"pod_reason":"Preempted"}
{"id":"unknown","exit":1,"log_tail":["the moon is full"]}
{"id":"fine","exit":0,"log_tail":[]}
"#;

/// Pools, and which builds go where.
const POOLS: &str = r#"
[[pool]]
name = "small"
memory = "8GiB"
cores = 4

[[pool]]
name = "big"
memory = "64GiB"
cores = 16

[[rule]]
name = "compilers"
package = "llvm"
pool = "big"
"#;

/// A log with a root, what follows from it, and a rule that does not count.
const LOG: &str = "cc -c a.c\ncurl: (28) Failed to connect to x port 443: Connection timed out\n\
                   a.c:1:10: fatal error: zlib.h: No such file or directory\nmake: *** [Makefile:3: a.o] Error 1\n";

/// A rule of the operator; another one never decides, and is there twice.
const RULE: &str = "[[rule]]\nid = \"moon\"\ncause = \"infra\"\npattern = 'the moon is full'\n\
                    matches = ['the moon is full']\nspares = ['the moon']\n";
const HIDDEN: &str = "[[rule]]\nid = \"full\"\ncause = \"deterministic\"\npattern = 'No space left'\n\
                      matches = ['x: No space left on device']\n";

/// What differs from run to run.
const PLACEHOLDERS: [(&str, &str); 7] = [
    // an id of a store
    (r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b", "<id>"),
    // a token, which may begin or end with a hyphen
    (r"(?m)([ =])[A-Za-z0-9_-]{43}( |$)", "$1<token>$2"),
    (r"[\d,]+ bytes(,? (?:on disk|before|after))", "<number> bytes$1"),
    (r"before, [\d,]+ after", "before, <number> after"),
    // whether a copy is smaller differs too
    ("the copy was no smaller, so the old files stay\n", ""),
    (r" +[\d.]+ us\n", "  <time>\n"),
    (r"/tmp/[^/ ]+", "<dir>"),
];

/// Heads, and the commands below them, in their order: later ones use what earlier ones made.
const RUN: [(&str, &[&str]); 5] = [
    ("A first configuration", &["init first", "init first", "--print-config --data-dir data"]),
    (
        "Recorded history",
        &[
            "replay builds.csv",
            "replay builds.csv --policy plimsoll,max-seen --by-package --warmup 90%",
            "classify failures.jsonl",
            "rules test pools.toml --key package=llvm",
            "rules test pools.toml --key package=zlib",
            "rules explain build.log",
            "rules explain - --output json < moon.log",
            "rules check good",
            "rules check wrong",
        ],
    ),
    (
        "The store",
        &[
            "import --data-dir data builds.csv",
            "import --data-dir data builds.csv",
            "verify data",
            "export --data-dir data history.jsonl",
            "backup --data-dir data backup",
            "restore --data-dir restored backup",
            "compact --data-dir restored",
            "repair restored",
        ],
    ),
    ("A first line", &["export --data-dir data - | head -n 1 | cut -c 1-72"]),
    (
        "What cannot be done",
        &[
            "import --data-dir data nowhere.csv",
            "import --data-dir data pools.toml",
            "verify first",
            "restore --data-dir data backup",
            "backup --data-dir data backup",
            "export --data-dir nowhere history2.jsonl",
            "classify nowhere.jsonl",
            "--data-dir data --memory-cap lots --max-failures 2",
            "--no-such-option",
        ],
    ),
];

fn prepare(dir: &Path) {
    for (name, text) in [("builds.csv", LAB), ("failures.jsonl", FAILURES), ("pools.toml", POOLS)] {
        fs::write(dir.join(name), text).unwrap();
    }
    for (name, text) in [("build.log", LOG), ("moon.log", "fatal: the moon is full\n")] {
        fs::write(dir.join(name), text).unwrap();
    }
    for (name, text) in [("good/a.toml", RULE), ("wrong/b.toml", HIDDEN)] {
        fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        fs::write(dir.join(name), text).unwrap();
    }
}

#[test]
fn server_output_matches_the_golden_file() {
    let dir = tempfile::tempdir().unwrap();
    prepare(dir.path());
    let mut transcript = Transcript::new(&PLACEHOLDERS);
    for (head, lines) in RUN {
        transcript.head(head);
        for line in lines {
            // a shell, for pipes; standard error after it, as progress on a terminal differs from run to run
            let script = format!("{{ \"$P\" {line}; }} 2>errors; code=$?; cat errors; exit $code");
            let mut shell = Command::new("sh");
            shell.env_clear().env("P", &Programs::for_tests().server).env("PATH", "/usr/bin:/bin");
            transcript
                .run(&format!("plimsoll-server {line}"), shell.current_dir(dir.path()).args(["-c", &script]));
        }
    }
    assert_is_the_file(transcript.text(), "plimsoll-server.txt");
}
