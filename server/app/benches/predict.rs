//! Time of one prediction from ten thousand and from a million summaries. Limit for each: 20 us.
//!
//! `cargo bench -p plimsoll-server --bench predict`

#[path = "parts/mix.rs"]
mod mix;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::Instant,
};

use mix::mix;
use plimsoll_core::{
    domain::{AttemptId, Bytes, Cores, CpuMicros, Exit, Hints, History, Key, Millis, Summary},
    predict::{Settings, predict},
};

const SUMMARIES: [u64; 2] = [10_000, 1_000_000];
const PACKAGES: u64 = 2000;
const ASKED: u64 = 20_000;
/// Microseconds. The median of rounds, so that another program on the machine does not decide.
const LIMIT_US: f64 = 20.0;

fn key(n: u64) -> Key {
    let random = mix(n);
    Key {
        package: format!("package-{}", random % PACKAGES),
        version: format!("1.{}", random >> 20 & 7),
        variants: format!("+shared build_type={}", random >> 24 & 3),
        compiler: "gcc".to_owned(),
        compiler_version: format!("{}", 11 + (random >> 28 & 1)),
        arch: format!("linux-ubuntu22.04-x86_64_v{}", 3 + (random >> 30 & 1)),
        build_system: (if random >> 32 & 1 == 0 { "cmake" } else { "python" }).to_owned(),
        hints: Hints {
            build_jobs: Some(if (random >> 40).trailing_zeros() >= 4 { 4 } else { 8 }),
            input_bytes: None,
        },
        ..Key::default()
    }
}

fn summary(n: u64) -> Option<Summary> {
    let random = mix(n ^ 0xabcd);
    let key = key(n);
    let base =
        mix(key.package.len() as u64 ^ u64::from(key.package.as_bytes().last().copied()?)) % 4000 + 100;
    let need = Bytes((base << 20) + (random % (base << 18)));
    Some(Summary {
        started_unix_ms: 1_700_000_000_000 + n,
        wall: Millis(60_000 + random % 600_000),
        cpu: CpuMicros(random % 4_000_000_000),
        cpu_peak: Cores(8.0),
        need_peak: need,
        need_mean: Bytes(need.0 / 2),
        memory_peak: need,
        exit: Some(Exit::Code(0)),
        censored: random.is_multiple_of(100),
        ..Summary::recorded(AttemptId::parse(&n.to_string()).ok()?, key)
    })
}

/// Tells the time from so many summaries; gives the median in microseconds.
fn measure(summaries: u64) -> io::Result<f64> {
    let mut history = History::new(usize::MAX);
    (0..summaries).filter_map(summary).for_each(|summary| history.learn(summary));
    let settings = Settings::default();
    let keys: Vec<Key> = (0..ASKED).map(|n| key(n * 7919)).collect();
    let mut rounds = Vec::new();
    for keys in keys.chunks(100) {
        let before = Instant::now();
        for key in keys {
            std::hint::black_box(predict(&history, key, &settings));
        }
        rounds.push(before.elapsed().as_secs_f64() * 1e6 / 100.0);
    }
    rounds.sort_by(f64::total_cmp);
    let at = |share: usize| rounds.get(rounds.len() * share / 100).copied().unwrap_or(f64::INFINITY);
    writeln!(
        io::stdout(),
        "one prediction from {} summaries: p10 {:.1} us, median {:.1} us, p90 {:.1} us; limit {LIMIT_US} us",
        history.len(),
        at(10),
        at(50),
        at(90)
    )?;
    Ok(at(50))
}

fn main() -> io::Result<ExitCode> {
    let mut within = true;
    for summaries in SUMMARIES {
        within &= measure(summaries)? <= LIMIT_US;
    }
    Ok(if within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
