//! Logs that are judged, beside the same failures without one: 1 MiB of log in less than 10 ms.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use plimsoll_tests::Programs;

use crate::ROUNDS;

/// Logs of 64 KiB, the most that is read of one.
const LOGS: usize = 160;
const LOG: usize = 64 << 10;
/// What a build prints while it goes well, behind the time stamp of a runner.
const LINES: [&str; 4] = [
    "[ 12%] Building CXX object src/CMakeFiles/acme.dir/error_handling.cpp.o",
    "g++ -O2 -Wall -DNDEBUG -I/usr/include/acme -c src/failover.cpp -o build/failover.o",
    "src/net.cpp:12:7: warning: unused variable 'timeout' [-Wunused-variable]",
    "make[2]: Entering directory '/builds/acme/fatal'",
];

pub(crate) fn beside_none(programs: &Programs, dir: &Path) -> anyhow::Result<()> {
    let mut log = String::new();
    for line in LINES.iter().cycle() {
        if log.len() > LOG {
            break;
        }
        let _written = write!(log, "2024-05-22T12:43:46.9626460Z {line}\\n");
    }
    let file = |name: &str, log: &str| -> anyhow::Result<_> {
        let path = dir.join(name);
        fs::write(&path, format!("{{\"exit\":1,\"log_tail\":\"{log}\"}}\n").repeat(LOGS))?;
        Ok(path)
    };
    let (with, without) = (file("logs.jsonl", &log)?, file("none.jsonl", "")?);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let none = judged(programs, &without)?;
        times.push(judged(programs, &with)?.saturating_sub(none));
    }
    times.sort_unstable();
    let median = times.get(ROUNDS / 2).copied().unwrap_or_default().as_secs_f64() * 1e3;
    let mebibytes = (LOGS * LOG) as f64 / f64::from(1 << 20);
    println!("logs: 1 MiB of log is judged in {:.1} ms (limit 10 ms)", median / mebibytes);
    Ok(())
}

fn judged(programs: &Programs, file: &Path) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let status = Command::new(&programs.server)
        .args(["classify", "--log-only", "--output", "json"])
        .arg(file)
        .stdout(Stdio::null())
        .status()?;
    anyhow::ensure!(status.success(), "classify failed");
    Ok(began.elapsed())
}
