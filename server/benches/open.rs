//! Time to open a store of many summaries, and the memory that the server has then. Limits at a million: 5 s of processor time
//! (so that another program on the machine does not decide), 600 MB.
//!
//! `cargo bench -p plimsoll-server --bench open [-- NUMBER..]`
//!
//! For each number a store of so many summaries of 20,000 keys is made, then opened by a fresh process, three times: what the
//! server does before it serves. Beside it stands a plain walk over the same bytes by sled alone.

#[path = "parts/mix.rs"]
mod mix;

use std::{
    env,
    error::Error,
    fs,
    io::{self, Write as _},
    path::Path,
    process::{Command, ExitCode},
    time::Instant,
};

use mix::mix;
use plimsoll_server::{
    App, Config,
    domain::{
        AttemptId, Bytes, Cause, Cores, CpuMicros, Exit, Hints, Key, Millis, Outcome, Resources, Source,
        Summary,
    },
    store::{self, BATCH_OPERATIONS, Batch, Store, StoreSettings},
};

type Any<T> = Result<T, Box<dyn Error>>;

const NUMBERS: [u64; 3] = [10_000, 100_000, 1_000_000];
const KEYS: u64 = 20_000;
const ROUNDS: usize = 3;
const LIMIT_SECONDS: f64 = 5.0;
const LIMIT_MB: f64 = 600.0;

/// One of so many keys as Spack's CI has them.
fn key(n: u64) -> Key {
    let random = mix(n);
    Key {
        project: "spack/spack-packages".to_owned(),
        stack: format!("e4s-{}", random % 20),
        package: format!("package-{}", n % 2000),
        version: format!("1.{}", n / 2000),
        variants: format!("+shared~static build_type=Release generator=ninja cxxstd={}", random >> 24 & 3),
        compiler: "gcc".to_owned(),
        compiler_version: format!("{}.2.0", 11 + (random >> 28 & 1)),
        arch: format!("linux-ubuntu22.04-x86_64_v{}", 3 + (random >> 30 & 1)),
        build_system: (if random >> 32 & 1 == 0 { "cmake" } else { "python" }).to_owned(),
        labels: [("stage".to_owned(), format!("stage-{}", n % 20))].into(),
        ..Key::default()
    }
}

fn summary(n: u64) -> Any<Summary> {
    let random = mix(n ^ 0xabcd);
    let need = Bytes((100 << 20) + random % (4000 << 20));
    let key = Key {
        git_ref: format!("pr{}_branch", n / 500),
        hints: Hints { build_jobs: Some(8), input_bytes: Some(need.0 >> 8) },
        ..key(mix(n ^ 0x1234) % KEYS)
    };
    let failed = random.is_multiple_of(20);
    Ok(Summary {
        source: Source::CgroupV2,
        resources: Resources {
            memory_request: Some(Bytes(4 << 30)),
            memory_limit: Some(Bytes(8 << 30)),
            cpu_request: Some(Cores(4.0)),
            cpu_limit: None,
        },
        started_unix_ms: 1_700_000_000_000 + n * 1000,
        wall: Millis(60_000 + random % 600_000),
        cpu: CpuMicros(random % 4_000_000_000),
        cpu_peak: Cores(Millis(random % 8000).as_f64() / 1000.0),
        samples: 60 + random % 600,
        need_peak: need,
        need_mean: Bytes(need.0 / 2),
        memory_peak: Bytes(need.0 + (1 << 30)),
        oom_kill: Some(0),
        reclaim_failures: Some(0),
        memory_stall: None,
        outcome: if failed { Outcome::Failed } else { Outcome::Succeeded },
        cause: failed.then_some(Cause::Deterministic),
        exit: Some(Exit::Code(i32::from(failed))),
        ..Summary::recorded(AttemptId::parse(&format!("gitlab.spack.io:{}", 10_000_000 + n))?, key)
    })
}

fn settings(dir: &Path) -> StoreSettings {
    StoreSettings { dir: dir.to_owned(), cache_bytes: 64 << 20 }
}

async fn make(dir: &Path, number: u64) -> Any<()> {
    let store = Store::open(&settings(dir))?;
    let mut batch = Batch::default();
    for n in 0..number {
        store::put_summary(&mut batch, &summary(n)?)?;
        // half a commit: no record of these has two parts more than that
        if batch.writes.len() >= BATCH_OPERATIONS / 2 {
            store.commit(std::mem::take(&mut batch)).await?;
        }
    }
    store.commit(batch).await?;
    Ok(store.close().await?)
}

/// What the server does before it serves.
async fn open(dir: &Path) -> Any<()> {
    let begin = Instant::now();
    let config = Config {
        data_dir: dir.to_owned(),
        grpc_listen: ([127, 0, 0, 1], 0).into(),
        http_listen: ([127, 0, 0, 1], 0).into(),
        history_attempts: 1_000_000,
        ..Config::default()
    };
    let app = App::build(config).await?;
    let seconds = begin.elapsed().as_secs_f64();
    let figures = [seconds, cpu_seconds()?, memory_mb("VmRSS")?, memory_mb("VmHWM")?];
    say(&figures)?;
    Ok(app.run(async {}).await?)
}

fn walk(dir: &Path) -> Any<()> {
    let begin = Instant::now();
    let db = sled::Config::new().path(dir.join("sled")).cache_capacity(64 << 20).open()?;
    let mut bytes = 0;
    for entry in db.iter() {
        let (key, value) = entry?;
        bytes += key.len() + value.len();
    }
    let figures = [
        begin.elapsed().as_secs_f64(),
        cpu_seconds()?,
        Bytes(bytes as u64).as_f64() / 1e6,
        memory_mb("VmRSS")?,
    ];
    say(&figures)
}

fn say(figures: &[f64; 4]) -> Any<()> {
    let words: Vec<String> = figures.iter().map(ToString::to_string).collect();
    Ok(writeln!(io::stdout(), "{}", words.join(" "))?)
}

/// Processor time of this process. Its fields 14 and 15 (proc(5)) are in ticks, which Linux shows as hundredths of a second.
fn cpu_seconds() -> Any<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, behind_name) = stat.rsplit_once(')').ok_or("no name in the stat")?;
    let ticks = behind_name.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
}

/// A figure of this process in MB.
fn memory_mb(name: &str) -> Any<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(name)).ok_or("no such line in the status")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("no number in the status")?.parse()?;
    Ok(kib * 1024.0 / 1e6)
}

/// The figures that a fresh process says.
fn ask(what: &str, dir: &Path) -> Any<[f64; 4]> {
    let output = Command::new(env::current_exe()?).arg(what).arg(dir).output()?;
    let said = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = said.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    <[f64; 4]>::try_from(numbers).map_err(|_other| format!("{what}: {told}").into())
}

fn median(rounds: &[[f64; 4]], index: usize) -> f64 {
    let mut figures: Vec<f64> = rounds.iter().filter_map(|round| round.get(index).copied()).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::INFINITY)
}

fn measure(number: u64) -> Any<bool> {
    let dir = env::temp_dir().join(format!("plimsoll-open-{}-{number}", std::process::id()));
    let made = Command::new(env::current_exe()?).args(["make", &number.to_string()]).arg(&dir).status()?;
    if !made.success() {
        return Err("the store could not be made".into());
    }
    let rounds = |what| (0..ROUNDS).map(|_| ask(what, &dir)).collect::<Any<Vec<_>>>();
    let (walks, opens) = (rounds("walk"), rounds("open"));
    fs::remove_dir_all(&dir)?;
    let (walks, opens) = (walks?, opens?);
    let walk = |index| median(&walks, index);
    let open = |index| median(&opens, index);
    writeln!(
        io::stdout(),
        "{number} summaries, {:.0} MB in the store: open in {:.2} s, {:.2} s of processor time (sled alone reads them in \
         {:.2} s, {:.2} s), then {:.0} MB of memory, {:.0} MB at the most",
        walk(2),
        open(0),
        open(1),
        walk(0),
        walk(1),
        open(2),
        open(3)
    )?;
    Ok(open(1) <= LIMIT_SECONDS && open(3) <= LIMIT_MB)
}

fn main() -> Any<ExitCode> {
    let args: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match args.as_slice() {
        [what, number, dir] if what == "make" => runtime.block_on(make(Path::new(dir), number.parse()?))?,
        [what, dir] if what == "open" => runtime.block_on(open(Path::new(dir)))?,
        [what, dir] if what == "walk" => walk(Path::new(dir))?,
        numbers => {
            let mut numbers = numbers.iter().map(|number| number.parse()).collect::<Result<Vec<u64>, _>>()?;
            if numbers.is_empty() {
                numbers = NUMBERS.to_vec();
            }
            let mut within = true;
            for number in numbers {
                within &= measure(number)?;
            }
            return Ok(if within { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    }
    Ok(ExitCode::SUCCESS)
}
