//! The two programs of the story: links to this one, below a directory of its own.

use std::{
    env,
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail};
use plimsoll_support::postgres::free_port;

/// Name of the server's program.
pub(crate) const SERVER: &str = "plimsoll-server";
/// Name of the agent's program.
pub(crate) const AGENT: &str = "plimsoll";

/// Between two looks at the log of a server that starts.
const PAUSE: Duration = Duration::from_millis(10);
/// Looks before giving up: a minute.
const LOOKS: u32 = 6000;

/// Longest wait for an answer of `/readyz`.
const READ_PATIENCE: Duration = Duration::from_secs(2);

/// What cargo, and a terminal, need to know. All else stays outside: in a CI job the variables would say what is built.
const KEPT: [&str; 9] =
    ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "TMPDIR", "LANG", "LC_ALL", "COLUMNS"];

/// Makes both programs in this directory.
pub(crate) fn assemble(dir: &Path) -> anyhow::Result<()> {
    let own = env::current_exe().context("this program cannot be found")?;
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    for name in [SERVER, AGENT] {
        symlink(&own, dir.join(name)).with_context(|| dir.display().to_string())?;
    }
    Ok(())
}

/// A running server. It is ended when this is dropped, unless it was left running.
#[derive(Debug)]
pub(crate) struct Server {
    child: Option<Child>,
    /// Address for gRPC.
    pub(crate) grpc: SocketAddr,
    /// Address for HTTP.
    pub(crate) http: SocketAddr,
}

impl Server {
    /// Starts one with its store and log in `dir`, at the usual addresses if they are free.
    pub(crate) fn start(dir: &Path) -> anyhow::Result<Self> {
        let usual = ["127.0.0.1:7410", "127.0.0.1:7411"];
        let free = usual.iter().all(|address| TcpListener::bind(address).is_ok());
        let [grpc, http] = if free { usual } else { ["127.0.0.1:0"; 2] };
        let listen = ["--grpc-listen", grpc, "--http-listen", http];
        let mut child = spawn(dir, &listen)?;
        let log = log_of(dir);
        for _look in 0..LOOKS {
            // asked first: what it wrote before its end is then in the file
            let ended = child.try_wait()?;
            let text = fs::read_to_string(&log)?;
            if let Some((grpc, http)) = text.lines().find_map(addresses_in) {
                return Ok(Self { child: Some(child), grpc, http });
            }
            if let Some(status) = ended {
                bail!("the server ended with {status}: {text}");
            }
            thread::sleep(PAUSE);
        }
        child.kill()?;
        child.wait()?;
        bail!("the server did not start within a minute: {}", fs::read_to_string(&log)?)
    }

    /// Starts one in `dir` over a database, at free ports. It serves now, or waits as a standby.
    pub(crate) fn begin(dir: &Path, store_url: &str) -> anyhow::Result<Self> {
        let [grpc, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let mut server = Self { child: None, grpc, http };
        server.start_again(dir, store_url)?;
        Ok(server)
    }

    /// Starts it again at its addresses.
    pub(crate) fn start_again(&mut self, dir: &Path, store_url: &str) -> anyhow::Result<()> {
        let [grpc, http] = [self.grpc, self.http].map(|address| address.to_string());
        let options = ["--grpc-listen", &grpc, "--http-listen", &http, "--store-url", store_url];
        self.child = Some(spawn(dir, &options)?);
        Ok(())
    }

    /// Ends it as a power cut does; returns its process id.
    pub(crate) fn kill(&mut self) -> anyhow::Result<u32> {
        let mut child = self.child.take().context("the server does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(child.id())
    }

    /// The answer of `/readyz`: status and text. `None` if it gives none.
    pub(crate) fn readiness(&self) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.http).ok()?;
        stream.set_read_timeout(Some(READ_PATIENCE)).ok()?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, text) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, text.trim().to_owned()))
    }

    /// Leaves it running when this program ends, and gives its process id.
    pub(crate) fn leave_running(mut self) -> u32 {
        self.child.take().map_or(0, |child| child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // it may have ended already; then there is nothing to do
            let _ended = child.kill().and_then(|()| child.wait());
        }
    }
}

/// Starts the server's program with its store and log in `dir`.
fn spawn(dir: &Path, options: &[&str]) -> anyhow::Result<Child> {
    fs::create_dir_all(dir)?;
    let program = dir.ancestors().map(|above| above.join(SERVER)).find(|program| program.is_symlink());
    let mut command = Command::new(program.context("the server's program is missing")?);
    command.env_clear().args(["--log-format", "json"]).args(options).arg("--data-dir").arg(dir.join("data"));
    // the log of a server that starts again goes on
    let log = File::options().create(true).append(true).open(log_of(dir))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().context("the server cannot be started")
}

/// Where the server in this directory writes its log.
pub(crate) fn log_of(dir: &Path) -> PathBuf {
    dir.join("server.log")
}

/// The addresses, if this line of the log names them.
fn addresses_in(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let record: serde_json::Value = serde_json::from_str(line).ok()?;
    let field = |name: &str| record.get("fields")?.get(name)?.as_str()?.parse().ok();
    Some((field("grpc")?, field("http")?))
}

/// The agent, for one server or several.
#[derive(Debug)]
pub(crate) struct Agent {
    program: PathBuf,
    server: String,
    spool: PathBuf,
}

impl Agent {
    /// The agent of this directory.
    pub(crate) fn new(dir: &Path, servers: &[Server]) -> Self {
        let servers: Vec<String> = servers.iter().map(|server| format!("http://{}", server.grpc)).collect();
        Self { program: dir.join(AGENT), server: servers.join(","), spool: dir.join("spool") }
    }

    /// Runs it to its end.
    pub(crate) fn call(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        self.command(arguments).output().context("the agent cannot be started")
    }

    /// Runs it in the background.
    pub(crate) fn begin(&self, arguments: &[&str]) -> anyhow::Result<Child> {
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("the agent cannot be started")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let kept = env::vars_os().filter(|(name, _)| KEPT.iter().any(|kept| name == kept));
        let mut command = Command::new(&self.program);
        command.env_clear().envs(kept);
        command.env("PLIMSOLL_SERVER", &self.server).env("PLIMSOLL_SPOOL_DIR", &self.spool);
        command.args(arguments).stdin(Stdio::null());
        command
    }
}
