//! Time to open a store of many summaries, and the memory that the server has then. Limits at a million: 5 s from
//! the start to the first answer (reading and understanding go on side by side), 600 MB.
//!
//! `cargo bench -p plimsoll-server --bench open [-- NUMBER..]`
//!
//! A number with `long` behind it (`1000000long`) is of attempts with names as long as they may be. Of those only the newest have room
//! in memory, and the time is not bounded: the store is some 20 times as large.
//!
//! For each number a store of so many summaries of 20,000 keys is made, then opened by a fresh process, three times: what the
//! server does before it serves. Beside it stands a plain walk over the same bytes by sled alone.

#[path = "parts/fleet.rs"]
mod fleet;
#[path = "parts/mix.rs"]
mod mix;

use std::{
    env, fs,
    io::{self, Write as _},
    path::Path,
    process::{Command, ExitCode},
    time::Instant,
};

use fleet::{Any, cpu_seconds, make, memory_mb};
use plimsoll_core::domain::Bytes;
use plimsoll_server::{App, Config};
use tokio_util::sync::CancellationToken;

const NUMBERS: [&str; 4] = ["10000", "100000", "1000000", "100000long"];
/// Behind a number of attempts with long names.
const LONG: &str = "long";
const ROUNDS: usize = 3;
const LIMIT_SECONDS: f64 = 5.0;
const LIMIT_MB: f64 = 600.0;

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
    let app = Box::pin(App::build(config, &CancellationToken::new())).await?.ok_or("stopped")?;
    let seconds = begin.elapsed().as_secs_f64();
    let figures = [seconds, cpu_seconds()?, memory_mb("VmRSS")?, memory_mb("VmHWM")?];
    say(&figures)?;
    Ok(app.run(tokio::runtime::Handle::current(), async {}).await?)
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

/// The figures that a fresh process says.
fn ask(what: &str, dir: &Path) -> Any<[f64; 4]> {
    let output = Command::new(env::current_exe()?).arg(what).arg(dir).output()?;
    let printed = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = printed.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    <[f64; 4]>::try_from(numbers).map_err(|_other| format!("{what}: {errors}").into())
}

fn median(rounds: &[[f64; 4]], index: usize) -> f64 {
    let mut figures: Vec<f64> = rounds.iter().filter_map(|round| round.get(index).copied()).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::INFINITY)
}

fn measure(number: &str) -> Any<bool> {
    let dir = env::temp_dir().join(format!("plimsoll-open-{}-{number}", std::process::id()));
    let made = Command::new(env::current_exe()?).args(["make", number]).arg(&dir).status()?;
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
    Ok((number.ends_with(LONG) || open(0) <= LIMIT_SECONDS) && open(3) <= LIMIT_MB)
}

fn main() -> Any<ExitCode> {
    let args: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match args.as_slice() {
        [what, number, dir] if what == "make" => {
            let (number, long) =
                number.strip_suffix(LONG).map_or((&**number, false), |number| (number, true));
            runtime.block_on(make(Path::new(dir), number.parse()?, long))?;
        }
        [what, dir] if what == "open" => runtime.block_on(open(Path::new(dir)))?,
        [what, dir] if what == "walk" => walk(Path::new(dir))?,
        numbers => {
            let asked: Vec<&str> = numbers.iter().map(String::as_str).collect();
            let mut within = true;
            for number in if asked.is_empty() { NUMBERS.as_slice() } else { &asked } {
                within &= measure(number)?;
            }
            return Ok(if within { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    }
    Ok(ExitCode::SUCCESS)
}
