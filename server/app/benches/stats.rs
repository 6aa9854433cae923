//! Time of answers of GetStats over a year of many attempts, asked as a client asks. Limit at a million: 50 ms of processor time
//! for each (so that another program on the machine does not decide), and 600 MB for the whole server.
//!
//! `cargo bench -p plimsoll-server --bench stats [-- NUMBER]`

#[path = "parts/fleet.rs"]
mod fleet;
#[path = "parts/mix.rs"]
mod mix;

use std::{
    env, fs,
    io::{self, Write as _},
    path::Path,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use fleet::{Any, START_UNIX_MS, cpu_seconds, make, memory_mb};
use plimsoll_proto::v1::{Filter, GetStatsRequest, GroupBy, stats_client::StatsClient};
use plimsoll_server::{App, Config};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

const NUMBER: u64 = 1_000_000;
const YEAR_MS: u64 = 365 * 24 * 3_600_000;
const HOUR_MS: u64 = 3_600_000;
const ROUNDS: u32 = 20;
const LIMIT_MS: f64 = 50.0;
const LIMIT_MB: f64 = 600.0;

fn questions() -> Vec<(&'static str, GetStatsRequest)> {
    let by = |group_by: GroupBy| GetStatsRequest { group_by: group_by.into(), ..GetStatsRequest::default() };
    let only = |filter: Filter, asked: GetStatsRequest| GetStatsRequest { filter: Some(filter), ..asked };
    let stage = Filter { labels: [("stage".to_owned(), "stage-7".to_owned())].into(), ..Filter::default() };
    let package = Filter { package: "package-77".to_owned(), ..Filter::default() };
    let day = Filter { from_unix_ms: Some(START_UNIX_MS + YEAR_MS - 24 * HOUR_MS), ..Filter::default() };
    let month =
        Filter { from_unix_ms: Some(START_UNIX_MS + YEAR_MS - 30 * 24 * HOUR_MS), ..Filter::default() };
    let label = GetStatsRequest { group_label: "stage".to_owned(), ..by(GroupBy::Label) };
    let step = |hours: u64, asked: GetStatsRequest| GetStatsRequest { step_ms: hours * HOUR_MS, ..asked };
    vec![
        ("all of it", GetStatsRequest::default()),
        ("by package", by(GroupBy::Package)),
        ("by owner", by(GroupBy::Owner)),
        ("by cause and day", step(24, by(GroupBy::Cause))),
        ("by label", label),
        ("by package and day", step(24, by(GroupBy::Package))),
        ("one package by day", only(package, step(24, GetStatsRequest::default()))),
        ("one label's value by pool", only(stage, by(GroupBy::Pool))),
        ("the last 30 days by package and day", only(month, step(24, by(GroupBy::Package)))),
        ("the last 24 h by hour", only(day, step(1, GetStatsRequest::default()))),
    ]
}

/// Asks until the needs that have moved are known, then asks each question some times.
async fn ask(mut client: StatsClient<Channel>) -> Any<bool> {
    let mut within = true;
    client.get_stats(GetStatsRequest::default()).await?;
    for (name, question) in questions() {
        let (begin, before) = (Instant::now(), cpu_seconds()?);
        let mut best = Duration::MAX;
        let mut attempts = 0;
        for _round in 0..ROUNDS {
            let begin = Instant::now();
            let answer = client.get_stats(question.clone()).await?.into_inner();
            best = best.min(begin.elapsed());
            attempts = answer.totals.map_or(0, |totals| totals.attempts);
        }
        let mean = |seconds: f64| seconds * 1000.0 / f64::from(ROUNDS);
        let (cpu, wall) = (mean(cpu_seconds()? - before), mean(begin.elapsed().as_secs_f64()));
        writeln!(
            io::stdout(),
            "{name} ({attempts} attempts): {cpu:.1} ms of processor time, {wall:.1} ms, the best {:.1} ms",
            best.as_secs_f64() * 1000.0
        )?;
        within &= cpu <= LIMIT_MS && attempts > 0;
    }
    let (now, most) = (memory_mb("VmRSS")?, memory_mb("VmHWM")?);
    writeln!(io::stdout(), "{now:.0} MB of memory with its client, {most:.0} MB at the most")?;
    Ok(within && most <= LIMIT_MB)
}

async fn serve(dir: &Path) -> Any<bool> {
    let config = Config {
        data_dir: dir.to_owned(),
        grpc_listen: ([127, 0, 0, 1], 0).into(),
        http_listen: ([127, 0, 0, 1], 0).into(),
        ..Config::default()
    };
    let app = Box::pin(App::build(config, &CancellationToken::new())).await?.ok_or("stopped")?;
    writeln!(
        io::stdout(),
        "open: {:.0} MB of memory, {:.0} MB at the most",
        memory_mb("VmRSS")?,
        memory_mb("VmHWM")?
    )?;
    let address = format!("http://{}", app.addresses()?.grpc);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let asking = async {
        let asked = ask(StatsClient::connect(address).await?).await;
        drop(stop);
        asked
    };
    let (asked, served) =
        tokio::join!(asking, app.run(tokio::runtime::Handle::current(), async { drop(stopped.await) }));
    served?;
    asked
}

fn main() -> Any<ExitCode> {
    let args: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let within = match args.as_slice() {
        [what, number, dir] if what == "make" => {
            let number = number.parse()?;
            runtime.block_on(make(Path::new(dir), number, YEAR_MS / number, false))?;
            true
        }
        [what, dir] if what == "serve" => runtime.block_on(serve(Path::new(dir)))?,
        args => {
            let number = args.first().map_or(Ok(NUMBER), |number| number.parse())?;
            let dir = env::temp_dir().join(format!("plimsoll-stats-{}", std::process::id()));
            let run = |what: &[&str]| Command::new(env::current_exe()?).args(what).arg(&dir).status();
            let made = run(&["make", &number.to_string()])?.success();
            let served = made && run(&["serve"])?.success();
            fs::remove_dir_all(&dir)?;
            served
        }
    };
    Ok(if within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
