//! What clients ask most: `GET /v1/allocation` as fast as it goes, over a million summaries.
//!
//! The same with wrk, while this runs and says where: `wrk -t2 -c64 -d10s 'http://ADDRESS/v1/allocation?spec=...'`. A word `specs=FILE` takes
//! the specs from a file, one a line, instead of made-up ones.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use plimsoll_proto::{spack, v1 as pb};
use plimsoll_tests::{
    Programs, QUIET, Sender, Server,
    bare::BareServer,
    figures::{Times, Usage, median},
    hello, quoted_by_python,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};
use tokio_util::task::TaskTracker;
use tonic::Status;

use crate::ROUNDS;

const SUMMARIES: u64 = 1_000_000;
const BUILDS: u64 = 500;
const TIME: Duration = Duration::from_secs(5);
/// Of one measurement of several that take turns.
const TURN: Duration = Duration::from_secs(2);
/// Connections, and what Gantry did with as many at a million rows on two cores: requests a second, p99 and CPU a request in ms.
const GANTRY: [(usize, f64, f64, f64); 3] =
    [(1, 282.0, 82.0, 3.6), (8, 363.0, 202.0, 3.0), (64, 366.0, 1310.0, 3.1)];

/// One thing that is built: the spec, taken apart.
struct Build {
    package: String,
    version: String,
    variants: String,
    rest: String,
}

pub(crate) async fn over_a_million(
    (programs, bare): (&Programs, &BareServer),
    dir: &Path,
    specs: Option<&str>,
) -> anyhow::Result<()> {
    let builds = match specs {
        Some(file) => fs::read_to_string(file)?.lines().filter_map(build).collect(),
        None => made_up(),
    };
    ensure!(!builds.is_empty(), "the file of specs holds none");
    let (data, rows) = (dir.join("front"), dir.join("front.csv"));
    write_rows(&rows, &builds)?;
    let mut import = Command::new(&programs.server);
    import.env_clear().arg("--data-dir").arg(&data).arg("import").arg(&rows).stdout(Stdio::null());
    ensure!(import.stderr(Stdio::null()).status()?.success(), "the import failed");
    let server = Server::start_with(programs, &data, &["--log", QUIET])?;
    let resident = Usage::of(server.pid())?.resident_kib / 1024;
    println!(
        "{SUMMARIES} summaries of {} builds, {resident} MiB resident; HTTP at {}",
        builds.len(),
        server.http
    );
    let asked = builds.iter().flat_map(asked).map(|spec| get(&format!("/v1/allocation?spec={spec}")));
    let questions: Arc<Vec<String>> = Arc::new(asked.collect());
    for (connections, rate, p99, cpu) in GANTRY {
        let before = Usage::of(server.pid())?;
        let (times, seconds) = ask(server.http, (connections, TIME), &questions).await?;
        let used = (Usage::of(server.pid())?.cpu_ms - before.cpu_ms) as f64;
        let (ours, per) = (times.count() as f64 / seconds, used / times.count() as f64);
        println!(
            "  GET /v1/allocation, {connections} connections: {ours:.0}/s, {times}, {per:.3} ms of CPU each"
        );
        println!(
            "    against Gantry: {:.1} x its rate, p99 {:.0} x lower, CPU {:.0} x lower; goals 20, 50 at 64, 20",
            ours / rate,
            p99 / times.quantile_ms(99),
            cpu / per
        );
    }
    for connections in [8, 64] {
        against_empty_route(&server, bare, connections, &questions).await?;
    }
    while_attempts_end(&server, &builds, &questions).await?;
    let resident = Usage::of(server.pid())?.resident_kib / 1024;
    println!("  {resident} MiB resident at the end");
    drop(server);
    Ok(fs::remove_dir_all(&data)?)
}

fn build(line: &str) -> Option<Build> {
    let (head, rest) = line.rsplit_once(" arch=")?;
    let (spec, variants) = head.split_once(' ').unwrap_or((head, ""));
    let (package, version) = spec.split_once('@')?;
    let text = str::to_owned;
    Some(Build { package: text(package), version: text(version), variants: text(variants), rest: text(rest) })
}

fn made_up() -> Vec<Build> {
    let variants = "~ipo+mpi+shared api=default build_system=cmake build_type=Release generator=make";
    let rest = "linux-debian12-x86_64_v3%gcc@12.2.0";
    let build = |n: u64| Build {
        package: format!("package-{n}"),
        version: format!("1.{}", n % 7),
        variants: variants.to_owned(),
        rest: rest.to_owned(),
    };
    (0..BUILDS).map(build).collect()
}

/// The busiest package has every tenth row; every second row is of another version.
fn write_rows(path: &Path, builds: &[Build]) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(
        file,
        "attempt,package,version,variants,compiler,compiler_version,arch,build_system,submitted_ms,wall_ms,peak_bytes,cpu_usec,build_jobs"
    )?;
    for n in 0..SUMMARIES {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        // the cube of a share of 1,000, in whole numbers
        let share = mixed % 1000;
        let place = usize::try_from(share.pow(3) * builds.len() as u64 / 1_000_000_000)?;
        let build = &builds.get(place).context("no build")?;
        let (variants, system) = spack::variants(&build.variants);
        let (arch, compiler) = build.rest.rsplit_once('%').unwrap_or((&build.rest, ""));
        let (compiler, compiler_version) = compiler.split_once('@').unwrap_or((compiler, ""));
        let (compiler, compiler_version) = (spack::compiler(compiler), spack::compiler(compiler_version));
        let other = if n % 2 == 0 { String::new() } else { format!(".{}", mixed % 5) };
        let (wall, peak) = (60_000 + n % 600_000, (mixed % 4000 + 100) << 20);
        writeln!(
            file,
            "row-{n},{},{}{other},\"{}\",{compiler},{compiler_version},{arch},{system},{},{wall},{peak},{},4",
            build.package,
            build.version,
            variants.replace('"', "\"\""),
            1_780_000_000_000_u64 + n * 1000,
            wall * 900,
        )?;
    }
    Ok(file.flush()?)
}

/// A build as it is asked for: as it was, of another version, with other variants, and one that is unknown.
fn asked(build: &Build) -> [String; 4] {
    let Build { package, version, variants, rest } = build;
    let space = if variants.starts_with(['+', '~']) { "" } else { " " };
    [
        format!("{package}@{version} {variants} arch={rest}"),
        format!("{package}@{version}.99 {variants} arch={rest}"),
        format!("{package}@{version} ~unseen{space}{variants} arch={rest}"),
        format!("unknown-{package}@{version} {variants} arch={rest}"),
    ]
    .map(|spec| quoted_by_python(&spec))
}

/// What is known, beside a route of axum that does nothing.
async fn against_empty_route(
    server: &Server,
    bare: &BareServer,
    connections: usize,
    questions: &Arc<Vec<String>>,
) -> anyhow::Result<()> {
    let asked = [
        ("an empty route", bare.http, Arc::new(vec![get("/empty")])),
        ("GET /livez", server.http, Arc::new(vec![get("/livez")])),
        ("GET /v1/allocation, known", server.http, Arc::clone(questions)),
    ];
    let mut rates = [const { Vec::new() }; 3];
    for _round in 0..ROUNDS {
        for ((_, address, requests), rates) in asked.iter().zip(&mut rates) {
            let (times, seconds) = ask(*address, (connections, TURN), requests).await?;
            rates.push(times.count() as f64 / seconds);
        }
    }
    let rates = rates.map(|mut rates| median(&mut rates));
    let [empty, ..] = rates;
    println!("  {connections} connections, medians of {ROUNDS}; goals 0.85 and 0.7 of an empty route:");
    for ((name, ..), rate) in asked.iter().zip(rates) {
        println!("    {name}: {rate:.0}/s, {:.2}", rate / empty);
    }
    Ok(())
}

/// What is known while ten attempts a second end, beside as long without.
async fn while_attempts_end(
    server: &Server,
    builds: &[Build],
    questions: &Arc<Vec<String>>,
) -> anyhow::Result<()> {
    let packages: Vec<String> = builds.iter().map(|build| build.package.clone()).collect();
    let mut rates = [const { Vec::new() }; 2];
    for round in 0..ROUNDS {
        for (rates, are_ending) in rates.iter_mut().zip([false, true]) {
            let ending = are_ending
                .then(|| TaskTracker::new().spawn(end_attempts(server.url(), round, packages.clone())));
            let (times, seconds) = ask(server.http, (64, TURN), questions).await?;
            rates.push(times.count() as f64 / seconds);
            if let Some(ending) = ending {
                ending.abort();
            }
        }
    }
    let [quiet, busy] = rates.map(|mut rates| median(&mut rates));
    println!(
        "  64 connections while ten attempts a second end: {busy:.0}/s, {:.2} of {quiet:.0}/s; goal 0.7",
        busy / quiet
    );
    Ok(())
}

/// Delivers a short attempt every 100 ms, of one package after the other.
async fn end_attempts(url: String, round: usize, packages: Vec<String>) -> Result<(), Status> {
    let mut turn = tokio::time::interval(Duration::from_millis(100));
    for (n, package) in packages.iter().cycle().enumerate() {
        turn.tick().await;
        let id = format!("ended-{round}-{n}");
        let started_unix_ms = 1_790_000_000_000 + n as u64;
        let hello = pb::Hello { started_unix_ms, ..hello(&id, package) };
        Sender::connect(&url).await?.build(hello, 10, Some(0)).await?;
    }
    Ok(())
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// As fast as it goes, on so many connections and for so long; gives the times, and the seconds that it took.
async fn ask(
    address: SocketAddr,
    (connections, time): (usize, Duration),
    requests: &Arc<Vec<String>>,
) -> anyhow::Result<(Times, f64)> {
    let began = Instant::now();
    let mut asking = JoinSet::new();
    for n in 0..connections {
        let requests = Arc::clone(requests);
        asking.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (mut times, mut at, mut buffer) = (Times::default(), n * 7919, Vec::new());
            while began.elapsed() < time {
                let request = requests.get(at % requests.len()).context("no request")?;
                at += 1;
                let sent = Instant::now();
                once(&mut stream, request.as_bytes(), &mut buffer).await?;
                times.add(sent.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Times::default();
    while let Some(asked) = asking.join_next().await {
        times.join(asked??);
    }
    Ok((times, began.elapsed().as_secs_f64()))
}

/// One request and its whole answer, which must be a 200.
async fn once(stream: &mut TcpStream, request: &[u8], buffer: &mut Vec<u8>) -> anyhow::Result<()> {
    stream.write_all(request).await?;
    buffer.clear();
    loop {
        ensure!(stream.read_buf(buffer).await? > 0, "the server hung up");
        let text = str::from_utf8(buffer)?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.context("no length")?.parse()? {
            ensure!(head.starts_with("HTTP/1.1 200 "), "{text}");
            return Ok(());
        }
    }
}
