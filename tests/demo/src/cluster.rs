//! Three servers over one PostgreSQL: the server that serves is killed, then the database, while builds run; nothing is lost.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Child},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use plimsoll_support::postgres::PostgresServer;

use crate::{
    cast::{self, Agent, Server},
    story::ask,
};

/// Servers over the database.
const SERVERS: usize = 3;

/// Builds that run meanwhile.
const BUILDS: usize = 3;

/// Time in which builds run undisturbed, so that there is something to lose.
const QUIET: Duration = Duration::from_secs(3);

/// Between two looks for the server that serves.
const LOOK: Duration = Duration::from_millis(100);

/// Time limit for a server to serve; a takeover takes 10 s.
const SERVES_WITHIN: Duration = Duration::from_mins(1);

/// Longest wait of an agent at the end of its build.
const PATIENCE: &str = "60s";

/// Shows it.
pub(crate) fn show() -> anyhow::Result<()> {
    let dir = env::temp_dir().join(format!("plimsoll-demo-{}", process::id()));
    cast::assemble(&dir)?;
    let Some(database) = PostgresServer::start(|_folder| Vec::new()) else {
        bail!("it needs the programs of PostgreSQL: apt-get install postgresql");
    };
    let url = database.url(&database.new_database());
    let mut cluster = Cluster::start(&dir, &url)?;
    let (serving, _time) = cluster.wait_for_serving()?;
    cluster.wait_for_all()?;
    println!("PostgreSQL runs at port {}, and {SERVERS} servers over it:\n", database.port);
    cluster.print();

    let agent = Agent::new(&dir, &cluster.servers);
    let end = dir.join("end");
    println!("\n1. {BUILDS} builds run. Each has an agent that knows the addresses of all servers.");
    let builds: Vec<_> =
        (1..=BUILDS).map(|number| build(&agent, number, &end)).collect::<anyhow::Result<_>>()?;
    thread::sleep(QUIET);

    let pid = cluster.kill(serving)?;
    println!(
        "\n2. The server that serves is killed: kill -9 {pid}. The builds go on; their agents keep the samples.\n"
    );
    let (serving, time) = cluster.wait_for_serving()?;
    println!(
        "   Server {} serves after {:.1} s. The killed one starts again and waits.\n",
        serving + 1,
        time.as_secs_f64()
    );
    cluster.start_again()?;
    cluster.wait_for_all()?;
    thread::sleep(QUIET);
    cluster.print();

    println!(
        "\n3. The database ends at once, as in a crash. Predictions are answered from memory meanwhile:\n"
    );
    database.crash();
    thread::sleep(QUIET);
    ask(&agent, &["predict", "--key", "package=demo"])?;
    database.start_again();
    let (_serving, time) = cluster.wait_for_serving()?;
    println!("\n   The database runs again, and a server serves after {:.1} s.", time.as_secs_f64());
    thread::sleep(QUIET);

    println!("\n4. The builds end.\n");
    fs::write(&end, "")?;
    for build in builds {
        let stderr = String::from_utf8_lossy(&build.wait_with_output()?.stderr).into_owned();
        let line = stderr.lines().rfind(|line| line.starts_with("plimsoll:")).unwrap_or(&stderr);
        println!("   {}", line.trim_start_matches("plimsoll: "));
        ensure!(line.contains("samples delivered"), "the samples were not delivered:\n{stderr}");
    }

    println!("\n5. What the servers have of them:\n");
    for number in 1..=BUILDS {
        println!("   {}", checked(&agent, &attempt(number))?);
    }
    println!(
        "\nNothing is lost. Servers and database are stopped; the logs of the servers are in {}.",
        dir.display()
    );
    Ok(())
}

fn attempt(number: usize) -> String {
    format!("demo-{number}")
}

/// A build that works a little and waits a little, until the file `end` is there.
fn build(agent: &Agent, number: usize, end: &Path) -> anyhow::Result<Child> {
    let script = format!(
        "until [ -e '{}' ]; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.2; done",
        end.display()
    );
    let attempt = attempt(number);
    let key = ["--key", "package=demo", "--interval", "100ms", "--patience", PATIENCE];
    agent.begin(&[&["run", "--attempt", &attempt], &key[..], &["--", "sh", "-c", &script]].concat())
}

/// One line about an attempt. Fails if samples of it are lost.
fn checked(agent: &Agent, attempt: &str) -> anyhow::Result<String> {
    let output = agent.call(&["show", attempt, "-o", "json"])?;
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let field = |name: &str| shown.pointer(&format!("/summary/{name}")).and_then(serde_json::Value::as_u64);
    let (samples, lost) = (field("samples").unwrap_or(0), field("samples_lost").unwrap_or(0));
    ensure!(samples > 0 && lost == 0, "{attempt}: {samples} samples, {lost} lost");
    Ok(format!("{attempt}: {samples} samples, none lost"))
}

/// The servers, each in a directory of its own.
struct Cluster {
    servers: Vec<Server>,
    dirs: Vec<PathBuf>,
    url: String,
    /// Place of the server that was killed.
    killed: Option<usize>,
}

impl Cluster {
    fn start(dir: &Path, url: &str) -> anyhow::Result<Self> {
        let dirs: Vec<_> = (1..=SERVERS).map(|number| dir.join(format!("server-{number}"))).collect();
        let servers = dirs.iter().map(|dir| Server::begin(dir, url)).collect::<anyhow::Result<_>>()?;
        Ok(Self { servers, dirs, url: url.to_owned(), killed: None })
    }

    /// Prints what each server says of itself.
    fn print(&self) {
        for (number, server) in (1..).zip(&self.servers) {
            let says = match server.readiness() {
                Some((200, _text)) => "serves".to_owned(),
                Some((_status, text)) => text,
                None => "does not answer".to_owned(),
            };
            println!("   server {number}, gRPC http://{}: {says}", server.grpc);
        }
    }

    /// Waits until a server is ready; returns its place, and how long that took.
    fn wait_for_serving(&self) -> anyhow::Result<(usize, Duration)> {
        let begun = Instant::now();
        while begun.elapsed() < SERVES_WITHIN {
            let ready = |server: &Server| server.readiness().is_some_and(|(status, _text)| status == 200);
            if let Some(place) = self.servers.iter().position(ready) {
                return Ok((place, begun.elapsed()));
            }
            thread::sleep(LOOK);
        }
        bail!("no server serves within {SERVES_WITHIN:?}")
    }

    /// Waits until each server answers: one serves, the others wait.
    fn wait_for_all(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while self.servers.iter().any(|server| server.readiness().is_none()) {
            let logs: Vec<_> = self.dirs.iter().map(|dir| cast::log_of(dir)).collect();
            ensure!(begun.elapsed() < SERVES_WITHIN, "a server does not answer; see {logs:?}");
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn kill(&mut self, place: usize) -> anyhow::Result<u32> {
        self.killed = Some(place);
        self.servers.get_mut(place).context("no such server")?.kill()
    }

    /// Starts the killed server again.
    fn start_again(&mut self) -> anyhow::Result<()> {
        let place = self.killed.take().context("no server was killed")?;
        let dir = self.dirs.get(place).context("no such server")?;
        self.servers.get_mut(place).context("no such server")?.start_again(dir, &self.url)
    }
}
