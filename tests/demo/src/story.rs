//! What is done and shown, step by step.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process, slice,
};

use anyhow::{Context as _, ensure};

use crate::cast::{self, AGENT, Agent, Server};

/// What is built: a crate that this workspace depends on, so that its source is on the disk already.
const PACKAGE: &str = "regex";

/// What its builds ask for: much too much, as in most pipelines.
const REQUEST: &str = "2GiB";

/// Below the need of any compiler run that matters, above what cargo itself takes.
const LIMIT: &str = "120MiB";

/// A build is ended after this many seconds.
const PATIENCE: &str = "300";

/// The same for the one with the small limit: old kernels let it thrash there instead of killing it.
const PATIENCE_AT_LIMIT: &str = "45";

/// `-j` of the builds that are to succeed.
const JOBS: [u32; 4] = [1, 2, 4, 2];

/// Tells it.
pub(crate) fn tell() -> anyhow::Result<()> {
    let dir = env::temp_dir().join(format!("plimsoll-demo-{}", process::id()));
    cast::assemble(&dir)?;
    let server = Server::start(&dir)?;
    println!("The server runs: gRPC http://{}, HTTP http://{}/", server.grpc, server.http);
    let builds = Builds { agent: Agent::new(&dir, slice::from_ref(&server)), target: dir.join("target") };

    println!(
        "\n1. The crate {PACKAGE} is built with different -j. Each build asks for {REQUEST}; the agent measures it and\n   \
         streams what it sees to the server.\n"
    );
    for (number, jobs) in (1..).zip(JOBS) {
        println!("   build {number} of {}, -j{jobs} ...", JOBS.len());
        let built = builds.run(&format!("demo-{number}"), jobs, None)?;
        ensure!(built.succeeded, "the build failed:\n{}", built.stderr);
    }

    println!("\n2. What the next build at -j2 should ask for, and why.\n");
    let (package, arch) = (key_package(), key_arch());
    let key = ["--key", &package, "--key", &arch, "--key", "build_system=cargo", "--key", "build_jobs=2"];
    ask(&builds.agent, &[&["predict"], &key[..]].concat())?;

    run_into_limit(&builds, &dir)?;

    println!("\n5. What all of it used and cost.\n");
    ask(&builds.agent, &["stats", "--group-by", "package"])?;
    ask(&builds.agent, &["attempts"])?;

    let (grpc, http) = (server.grpc, server.http);
    println!("\nThe server goes on: gRPC http://{grpc}, HTTP http://{http}/metrics");
    println!("See it in a browser: http://{http}/");
    println!("Its store is in {}, its log in {}.", dir.join("data").display(), cast::log_of(&dir).display());
    println!("Ask it:  PLIMSOLL_SERVER=http://{grpc} {} show demo-2", dir.join(AGENT).display());
    println!("Stop it: kill {}", server.leave_running());
    Ok(())
}

/// Steps 3 and 4.
fn run_into_limit(builds: &Builds, dir: &Path) -> anyhow::Result<()> {
    println!("\n3. The same build, with a memory limit that is too small ({LIMIT}).\n");
    println!("   -j2, at most {PATIENCE_AT_LIMIT} s ...");
    let limited = builds.run("demo-5", 2, Some(LIMIT))?;
    if limited.stderr.contains("without the memory limit") {
        println!(
            "   This user may not make a cgroup with a limit on this machine, so the build ran without one."
        );
        println!("   Step 4 needs the limit: run the demo as root to see it.");
        return Ok(());
    }
    let log = dir.join("build.log");
    fs::write(&log, &limited.stderr).with_context(|| log.display().to_string())?;
    println!("\n4. Is it worth another attempt? The build tool only saw an exit code.\n");
    ask(&builds.agent, &["should-retry", "--attempt", "demo-5", "--log", &log.display().to_string()])
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

/// How a build went.
struct Built {
    succeeded: bool,
    stderr: String,
}

impl Builds {
    /// Builds, and prints the agent's line.
    fn run(&self, attempt: &str, jobs: u32, limit: Option<&str>) -> anyhow::Result<Built> {
        // nothing of the last build may be left
        if self.target.try_exists()? {
            fs::remove_dir_all(&self.target)?;
        }
        let jobs = jobs.to_string();
        let target = self.target.display().to_string();
        let (package, arch) = (key_package(), key_arch());
        let build_jobs = format!("build_jobs={jobs}");
        let mut line = vec!["run", "--attempt", attempt, "--key", &package, "--key", &arch];
        line.extend(["--key", "build_system=cargo", "--key", &build_jobs]);
        // a job asks for no more than its limit
        line.extend(["--request-memory", limit.unwrap_or(REQUEST)]);
        line.extend(limit.into_iter().flat_map(|limit| ["--limit-memory", limit]));
        let patience = if limit.is_some() { PATIENCE_AT_LIMIT } else { PATIENCE };
        line.extend(["--", "timeout", patience, env!("CARGO"), "build", "--quiet", "--offline", "--locked"]);
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
        line.extend(["--manifest-path", manifest, "-p", PACKAGE, "-j", &jobs, "--target-dir", &target]);
        let output = self.agent.call(&line)?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = stderr.lines().rfind(|line| line.starts_with("plimsoll:"));
        let last = last.with_context(|| format!("the agent wrote no line at the end:\n{stderr}"))?;
        println!("   -j{jobs}  {}", last.trim_start_matches("plimsoll: "));
        Ok(Built { succeeded: output.status.success(), stderr })
    }
}

/// Prints a command and its answer.
pub(crate) fn ask(agent: &Agent, arguments: &[&str]) -> anyhow::Result<()> {
    println!("   $ plimsoll {}", arguments.join(" "));
    let output = agent.call(arguments)?;
    for text in [output.stdout, output.stderr] {
        String::from_utf8_lossy(&text).lines().for_each(|line| println!("   {line}"));
    }
    Ok(())
}
