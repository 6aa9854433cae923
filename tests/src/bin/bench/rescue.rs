//! A build at a memory limit that kills it, with `--rescue pause` and without: how many of ten runs pass, and what it costs where memory is
//! enough. First with a program that ramps up, then with `make` and six real C++ files, beside `make -j2`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use plimsoll_tests::{Agent, Programs};

/// Runs of each way.
const RUNS: usize = 10;
/// Runs with more memory than is needed.
const ROOMY_RUNS: usize = 20;
/// Jobs in a row of each of eight workers: 24 jobs, as with `make -j8`.
const CROWD: &str = "for w in 1 2 3 4 5 6 7 8; do
    (for j in 1 2 3; do LOAD ramp 40 1000 || exit 9; done) & all=\"$all $!\"; done
    for w in $all; do wait $w || code=9; done; exit ${code:-0}";
/// Classes in one file: the compiler needs about 230 MiB for it.
const CLASSES: usize = 150;
const FILES: usize = 6;

/// One way to run a build.
struct Way<'a> {
    name: &'a str,
    options: &'a str,
    script: &'a str,
}

/// Prints the table.
pub(crate) fn beside_kills(programs: &Programs, dir: &Path) -> anyhow::Result<()> {
    let agent = Agent::new(programs, "none", &dir.join("spool"));
    let load = load()?;
    let crowd = CROWD.replace("LOAD", load.to_str().context("a path without a name")?);
    println!(
        "\n{:<44} {:>7} {:>7} {:>7} {:>9}",
        "a build at its limit", "passed", "kills", "paused", "median"
    );
    let pauses = "--rescue pause --rescue-programs load";
    let ways = [("", "24 jobs of 40 MiB, -j8, 200 MiB"), (pauses, "the same, paused")];
    for (rescue, name) in ways {
        let options = format!("--limit-memory 200MiB {rescue}");
        measure(&agent, dir, RUNS, &Way { name, options: &options, script: &crowd })?;
    }
    compilers(&agent, dir)?;
    for (rescue, name) in [("", "24 jobs, 800 MiB: enough"), (pauses, "the same, with --rescue pause")] {
        let options = format!("--limit-memory 800MiB {rescue}");
        measure(&agent, dir, ROOMY_RUNS, &Way { name, options: &options, script: &crowd })?;
    }
    Ok(())
}

/// The program that the bench runs as a compiler.
pub(crate) fn load() -> anyhow::Result<PathBuf> {
    let load = env::current_exe()?.with_file_name("load");
    ensure!(load.try_exists()?, "build it first: cargo build --release --locked --bin load");
    Ok(load)
}

fn compilers(agent: &Agent, dir: &Path) -> anyhow::Result<()> {
    let source = dir.join("source");
    fs::create_dir_all(&source)?;
    for file in 0..FILES {
        fs::write(source.join(format!("f{file}.cc")), classes())?;
    }
    let names: Vec<String> = (0..FILES).map(|file| format!("f{file}.o")).collect();
    fs::write(
        source.join("Makefile"),
        format!("all: {}\n%.o: %.cc\n\tg++ -O1 -c $< -o $@\n", names.join(" ")),
    )?;
    let make = |jobs| format!("cd {} && rm -f *.o && make -s -j{jobs} 2>/dev/null", source.display());
    let (six, two) = (make(6), make(2));
    measure(
        agent,
        dir,
        RUNS,
        &Way { name: "6 x g++, -j2, 800 MiB", options: "--limit-memory 800MiB", script: &two },
    )?;
    for (limit, rescue) in [(800, ""), (800, "--rescue pause"), (600, "--rescue pause")] {
        let name = format!("6 x g++, -j6, {limit} MiB {rescue}");
        let options = format!("--limit-memory {limit}MiB {rescue}");
        measure(agent, dir, RUNS, &Way { name: &name, options: &options, script: &six })?;
    }
    Ok(())
}

/// Classes with members that a compiler has to think about.
fn classes() -> String {
    let headers = "#include <functional>\n#include <map>\n#include <string>\n#include <vector>\n";
    let class = |number| {
        format!(
            "struct S{number} {{ std::map<int, std::vector<std::string>> names; std::function<int(int)> add; }};\n\
             int f{number}(int x) {{ S{number} s; s.add = [&](int y) {{ return x + y + {number}; }};\n\
             s.names[x].push_back(\"a\"); return s.add(x) + static_cast<int>(s.names.size()); }}\n"
        )
    };
    [headers.to_owned()].into_iter().chain((0..CLASSES).map(class)).collect()
}

fn measure(agent: &Agent, dir: &Path, runs: usize, way: &Way<'_>) -> anyhow::Result<()> {
    let report = dir.join("report.json");
    let options = format!("{} --report json={}", way.options, report.display());
    let (mut passed, mut kills, mut paused, mut times) = (0, 0, 0, Vec::new());
    for _run in 0..runs {
        let begin = Instant::now();
        let ran = agent.run(&options, way.script);
        times.push(begin.elapsed());
        ensure!(
            !ran.stderr.contains("without the memory limit"),
            "no memory limit can be set here: {}",
            ran.stderr
        );
        passed += usize::from(ran.code == Some(0));
        paused += usize::from(ran.stderr.contains("rescue pauses"));
        let text = fs::read_to_string(&report)?;
        let facts: serde_json::Value = serde_json::from_str(&text)?;
        kills += facts.pointer("/totals/oom_kill").and_then(serde_json::Value::as_u64).unwrap_or(0);
    }
    times.sort();
    let median = times.get(times.len() / 2).copied().unwrap_or(Duration::ZERO);
    println!("{:<44} {passed:>4}/{runs:<2} {kills:>7} {paused:>7} {:>7.1} s", way.name, median.as_secs_f64());
    Ok(())
}
