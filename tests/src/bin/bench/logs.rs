//! What the log of a build costs, in CPU of one thread beside a plain scan of the same bytes: the excerpt that the agent makes of all output,
//! the judging of 64 KiB, and both for 1 MiB, which has a limit of 10 ms. 100 MiB are streamed in less than 30 MiB of memory.

use std::{fmt::Write as _, fs, hint::black_box, time::Duration};

use anyhow::Context as _;
use plimsoll_base::log_excerpt::LogExcerpt;
use plimsoll_core::{
    domain::{AttemptId, Evidence},
    retry::{self, LogRules},
};
use rustix::time::{ClockId, clock_gettime};

use crate::ROUNDS;

const MIB: usize = 1 << 20;
/// Most bytes that are judged of a log, and that the agent sends of it.
const EXCERPT: usize = 64 << 10;
/// Bytes in one read of a pipe.
const PIECE: usize = 64 << 10;
const LONG_MIB: usize = 100;
/// What a build prints while it goes well, behind the time stamp of a runner; one line of 400 is an error.
const BUILDS: [&str; 5] = [
    "[ 12%] Building CXX object src/CMakeFiles/acme.dir/error_handling.cpp.o",
    "g++ -O2 -Wall -DNDEBUG -I/usr/include/acme -c src/failover.cpp -o build/failover.o",
    "src/net.cpp:12:7: warning: unused variable 'timeout' [-Wunused-variable]",
    "make[2]: Entering directory '/builds/acme/fatal'",
    "-- Looking for pthread_create in pthreads - found",
];
const ERROR: &str = "src/net.cpp:14:9: error: 'socket' was not declared in this scope";
const LINES_BEFORE_ERROR: usize = 400;
/// Lines that all look like errors, of many rules.
const ERRORS: [&str; 5] = [
    ERROR,
    "cc1plus: out of memory allocating 65536 bytes after a total of 1048576 bytes",
    "curl: (56) Recv failure: Connection reset by peer",
    "make[2]: *** [CMakeFiles/acme.dir/build.make:76: net.o] Error 1",
    "fatal: unable to access 'https://git.example.com/a.git/': Could not resolve host",
];

/// Prints the costs of a log of a build, of one in which each line is an error, and of one long line.
pub(crate) fn beside_a_scan() -> anyhow::Result<()> {
    let rules = LogRules::built_in();
    let logs = [("build", build_log()), ("all errors", log_of(&ERRORS)), ("one line", "x".repeat(MIB))];
    for (name, log) in &logs {
        let plain = median(|| newlines(log.as_bytes()))?;
        let excerpt = median(|| excerpt_of(log, 1).len())?;
        let tail = String::from_utf8_lossy(&excerpt_of(log, 1)).into_owned();
        let evidence = Evidence { log_tail: tail, ..Evidence::about(AttemptId::unnamed()) };
        let judged = median(|| retry::classify(&evidence, &rules).lines.len())?;
        println!(
            "logs ({name}): 1 MiB: plain scan {:.3} ms, excerpt {:.2} ms, judging 64 KiB {:.2} ms, both {:.2} ms (limit 10 ms)",
            milliseconds(plain),
            milliseconds(excerpt),
            milliseconds(judged),
            milliseconds(excerpt + judged)
        );
        long_log(name, log)?;
    }
    Ok(())
}

fn long_log(name: &str, log: &str) -> anyhow::Result<()> {
    let before = start_of_peak()?;
    let excerpt = median(|| excerpt_of(log, LONG_MIB).len())?;
    let grown = memory("VmHWM:")?.saturating_sub(before);
    let plain = median(|| (0..LONG_MIB).map(|_| newlines(black_box(log.as_bytes()))).sum())?;
    println!(
        "logs ({name}): {LONG_MIB} MiB streamed: plain scan {:.1} ms, excerpt {:.1} ms, memory grew by {:.1} MiB (limit 30 MiB)",
        milliseconds(plain),
        milliseconds(excerpt),
        grown as f64 / 1024.0
    );
    Ok(())
}

fn build_log() -> String {
    let mut lines: Vec<&str> = BUILDS.iter().cycle().take(LINES_BEFORE_ERROR).copied().collect();
    lines.push(ERROR);
    log_of(&lines)
}

/// These lines again and again, 1 MiB of them.
fn log_of(lines: &[&str]) -> String {
    let mut log = String::with_capacity(MIB + PIECE);
    for (number, line) in lines.iter().cycle().enumerate() {
        if log.len() >= MIB {
            break;
        }
        let _written = writeln!(log, "2024-05-22T12:{:02}:46.9626460Z {line}", number % 60);
    }
    log
}

/// The excerpt of a log that is this log so many times.
fn excerpt_of(log: &str, times: usize) -> Vec<u8> {
    let mut excerpt = LogExcerpt::new(EXCERPT, 0);
    for _ in 0..times {
        log.as_bytes().chunks(PIECE).for_each(|piece| excerpt.push(piece));
    }
    excerpt.finish(<[u8]>::to_vec)
}

#[expect(clippy::naive_bytecount, reason = "a plain scan, which the compiler makes fast")]
fn newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// Median CPU time of this thread for one run.
fn median(run: impl Fn() -> usize) -> anyhow::Result<Duration> {
    let mut times = Vec::new();
    black_box(run());
    for _ in 0..ROUNDS {
        let before = cpu()?;
        black_box(run());
        times.push(cpu()?.saturating_sub(before));
    }
    times.sort_unstable();
    times.get(ROUNDS / 2).copied().context("no rounds")
}

fn cpu() -> anyhow::Result<Duration> {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Ok(Duration::new(time.tv_sec.try_into()?, time.tv_nsec.try_into()?))
}

/// Lets the kernel count the peak of memory from now on, and returns the memory in use, in KiB.
fn start_of_peak() -> anyhow::Result<u64> {
    fs::write("/proc/self/clear_refs", "5")?;
    memory("VmRSS:")
}

/// A figure of this process, in KiB.
fn memory(name: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such figure")?;
    Ok(line.trim().trim_end_matches("kB").trim_end().parse()?)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
