//! The whole way on a real build: a server on its embedded store, the crate `regex` compiled several times through the agent,
//! one attempt killed at a memory limit, then what Predict, `ShouldRetry` and Stats say. Leaves the server running.

#![expect(clippy::print_stdout, reason = "the story is told on stdout")]

use std::{
    env, fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use plimsoll_tests::{Agent, Answer, Profile, Programs, Server};

/// What is built: a crate that this workspace depends on, so that its source is on the disk already.
const PACKAGE: &str = "regex";

/// Below the need of any compiler run that matters, above what cargo itself takes.
const LIMIT: &str = "120MiB";

/// A build that thrashes at its limit instead of being killed is ended after this many seconds.
const PATIENCE: &str = "90";

fn main() -> anyhow::Result<()> {
    println!("Building the two programs (release) ...");
    let programs = Programs::build(Profile::Release)?;
    let dir = env::temp_dir().join(format!("plimsoll-demo-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let server = start(&programs, &dir)?;
    let agent = Agent::new(&programs, server.url(), &dir.join("spool"));
    let builds = Builds { agent: agent.clone(), target: dir.join("target") };

    println!(
        "\n1. The crate {PACKAGE} is built at different -j. The agent measures each build and streams it.\n"
    );
    for (attempt, jobs) in [("demo-1", 1), ("demo-2", 2), ("demo-3", 4), ("demo-4", 2)] {
        let answer = builds.run(attempt, jobs, None)?;
        anyhow::ensure!(answer.code == Some(0), "the build failed:\n{}", answer.stderr);
    }

    println!("\n2. What the next build at -j2 should ask for, and why.\n");
    tell(
        &agent,
        &[
            "predict",
            "--key",
            &key_package(),
            "--key",
            &key_arch(),
            "--key",
            "build_system=cargo",
            "--key",
            "build_jobs=2",
        ],
    );

    println!("\n3. The same build with a limit that is too small ({LIMIT}).\n");
    let killed = builds.run("demo-5", 2, Some(LIMIT))?;
    if killed.stderr.contains("without the memory limit") {
        println!(
            "   This machine lets nobody make a cgroup with a limit here, so this build ran without one."
        );
    } else {
        let log = dir.join("build.log");
        fs::write(&log, &killed.stderr)?;
        println!("\n4. Is it worth another attempt? The build tool only saw an exit code.\n");
        tell(&agent, &["should-retry", "--attempt", "demo-5", "--log", &log.display().to_string()]);
    }

    println!("\n5. What all of it used and cost.\n");
    tell(&agent, &["stats", "--group-by", "package"]);
    tell(&agent, &["attempts"]);

    let (grpc, http) = (server.grpc, server.http);
    let (pid, log) = server.leave_running()?;
    println!("\nThe server goes on: gRPC http://{grpc}, HTTP http://{http}/metrics");
    println!("See it in a browser: http://{http}/");
    println!("Its store is in {}, its log in {}.", dir.join("data").display(), log.display());
    println!("Ask it:  PLIMSOLL_SERVER=http://{grpc} {} show --attempt demo-2", programs.agent.display());
    println!("Stop it: kill {pid}");
    Ok(())
}

/// On the usual addresses if they are free.
fn start(programs: &Programs, dir: &Path) -> anyhow::Result<Server> {
    let free = |address: &str| TcpListener::bind(address).is_ok();
    let usual = ["--grpc-listen", "127.0.0.1:7410", "--http-listen", "127.0.0.1:7411"];
    let options: &[&str] = if free("127.0.0.1:7410") && free("127.0.0.1:7411") { &usual } else { &[] };
    Server::start_with(programs, &dir.join("data"), options)
}

fn key_package() -> String {
    format!("package={PACKAGE}")
}

fn key_arch() -> String {
    format!("arch={}", env::consts::ARCH)
}

/// Builds of [`PACKAGE`] from nothing, each through the agent.
struct Builds {
    agent: Agent,
    target: PathBuf,
}

impl Builds {
    fn run(&self, attempt: &str, jobs: u32, limit: Option<&str>) -> anyhow::Result<Answer> {
        // nothing of the last build may be left
        if self.target.try_exists()? {
            fs::remove_dir_all(&self.target)?;
        }
        let cargo = env!("CARGO");
        let jobs = jobs.to_string();
        let target = self.target.display().to_string();
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let (package, arch) = (key_package(), key_arch());
        let build_jobs = format!("build_jobs={jobs}");
        let mut line = vec!["run", "--attempt", attempt, "--key", &package, "--key", &arch];
        line.extend(["--key", "build_system=cargo", "--key", &build_jobs, "--request-memory", "2GiB"]);
        line.extend(limit.into_iter().flat_map(|limit| ["--limit-memory", limit]));
        line.extend(["--", "timeout", PATIENCE, cargo, "build", "--quiet", "--offline", "--locked"]);
        line.extend(["--manifest-path", manifest, "-p", PACKAGE, "-j", &jobs, "--target-dir", &target]);
        let answer = self.agent.call(&line);
        let last = answer.stderr.lines().rfind(|line| line.starts_with("plimsoll:"));
        println!("   -j{jobs}  {}", last.context("the agent said nothing")?.trim_start_matches("plimsoll: "));
        Ok(answer)
    }
}

fn tell(agent: &Agent, arguments: &[&str]) {
    println!("   $ plimsoll {}", arguments.join(" "));
    let mut command: Command = agent.command(arguments);
    match command.output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            text.lines().for_each(|line| println!("   {line}"));
        }
        Err(error) => println!("   cannot be run: {error}"),
    }
}
