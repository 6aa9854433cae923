//! A real server as a child process, on free ports and a directory of its own.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient, stats_client::StatsClient};
use tempfile::{NamedTempFile, TempDir};
use tonic::{Status, transport::Channel};

use crate::{
    agent::Answer,
    eventually,
    http::{self, HttpAnswer},
    programs::Programs,
};

/// Between two looks at the log of a server that starts.
const PAUSE: Duration = Duration::from_millis(10);
/// Looks before giving up: ten minutes, for those who start one on a store of many GiB.
const LOOKS: u32 = 60_000;

/// What `--log` needs for a server that says where it listens, and nothing of each attempt.
pub const QUIET: &str =
    "warn,plimsoll_server=info,plimsoll_server::ingest=warn,plimsoll_server::verdicts=warn";

/// A running server. It is killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Option<Child>,
    log: NamedTempFile,
    /// Address of the gRPC listener.
    pub grpc: SocketAddr,
    /// Address of the HTTP listener.
    pub http: SocketAddr,
    /// Address of the admission webhook, if there is one.
    pub admission: Option<SocketAddr>,
}

impl Server {
    /// The server's program, for one of its commands. Its environment is empty.
    pub fn program() -> Command {
        let mut command = Command::new(&Programs::for_tests().server);
        command.env_clear().stdin(Stdio::null());
        command
    }

    /// Runs a command of the server's program to its end.
    pub fn call(words: &[&str]) -> Answer {
        Answer::of_text(Self::program().args(words))
    }

    /// Runs a command of the server's program on a data directory.
    pub fn call_on(data_dir: &Path, words: &[&str]) -> Answer {
        Answer::of_text(Self::program().arg("--data-dir").arg(data_dir).args(words))
    }

    /// Starts a server on `data_dir` and free ports.
    pub fn start(programs: &Programs, data_dir: &Path) -> anyhow::Result<Self> {
        Self::start_with(programs, data_dir, &[])
    }

    /// Starts a server with further options on a directory of its own, which must outlive it.
    pub fn fresh(options: &[&str]) -> anyhow::Result<(TempDir, Self)> {
        let dir = tempfile::tempdir()?;
        let server = Self::start_with(Programs::for_tests(), dir.path(), options)?;
        Ok((dir, server))
    }

    /// Starts a server with further options, and waits until it serves; an option given here wins over the free ports.
    pub fn start_with(programs: &Programs, data_dir: &Path, options: &[&str]) -> anyhow::Result<Self> {
        Self::start_until(programs, data_dir, options, ["grpc", "http"])
    }

    /// Starts a server over a database whose store another server has, and waits until it is a standby.
    pub fn start_standby(programs: &Programs, data_dir: &Path, options: &[&str]) -> anyhow::Result<Self> {
        Self::start_until(programs, data_dir, options, ["grpc_listen", "http_listen"])
    }

    /// Starts a server, and waits until it logs its two addresses in these fields.
    fn start_until(
        programs: &Programs,
        data_dir: &Path,
        options: &[&str],
        fields: [&str; 2],
    ) -> anyhow::Result<Self> {
        // a file and not a pipe: a server may outlive the program that started it
        let log = NamedTempFile::with_prefix("plimsoll-server-")?;
        let mut command = Command::new(&programs.server);
        command.env_clear().arg("--data-dir").arg(data_dir).args(["--log-format", "json"]);
        for (option, value) in [("--grpc-listen", "127.0.0.1:0"), ("--http-listen", "127.0.0.1:0")] {
            if !options.contains(&option) {
                command.args([option, value]);
            }
        }
        command.args(options).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.reopen()?);
        let mut child = command.spawn().context("the server's program cannot be started")?;
        for _look in 0..LOOKS {
            // asked first: what it wrote before its end is then in the file
            let ended = child.try_wait()?;
            let text = fs::read_to_string(log.path())?;
            if let Some((grpc, http, admission)) = text.lines().find_map(|line| addresses_in(line, fields)) {
                return Ok(Self { child: Some(child), log, grpc, http, admission });
            }
            if let Some(status) = ended {
                bail!("{status}: {text}");
            }
            thread::sleep(PAUSE);
        }
        child.kill()?;
        child.wait()?;
        bail!("it did not say where it listens: {}", fs::read_to_string(log.path())?)
    }

    /// The URL for agents.
    pub fn url(&self) -> String {
        format!("http://{}", self.grpc)
    }

    /// What it has logged so far.
    pub fn log(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(self.log.path())?)
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Ends it at once, as a power cut for this process: SIGKILL.
    pub fn kill(mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Asks it to stop and waits for its end.
    pub fn stop(self) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let child = self.child.as_ref().context("the server has ended")?;
        Ok(kill(Pid::from_raw(i32::try_from(child.id())?), signal)?)
    }

    /// Waits for its end.
    pub fn wait(mut self) -> anyhow::Result<ExitStatus> {
        let mut child = self.child.take().context("the server has ended")?;
        Ok(child.wait()?)
    }

    /// Waits until it ends by itself; gives its status and its log.
    pub fn ended(&mut self) -> anyhow::Result<(ExitStatus, String)> {
        for _look in 0..LOOKS {
            let child = self.child.as_mut().context("the server has ended")?;
            if let Some(status) = child.try_wait()? {
                return Ok((status, self.log()?));
            }
            thread::sleep(PAUSE);
        }
        bail!("it does not end")
    }

    /// Leaves it running when this program ends; gives its process id and the path of its log.
    pub fn leave_running(mut self) -> anyhow::Result<(u32, PathBuf)> {
        let pid = self.pid();
        let empty = NamedTempFile::new()?;
        let (_file, path) = std::mem::replace(&mut self.log, empty).keep()?;
        self.child = None;
        Ok((pid, path))
    }

    /// What it shows of an attempt, with the whole series.
    pub async fn shown(&self, attempt: &str) -> anyhow::Result<pb::GetAttemptResponse> {
        let mut client = StatsClient::connect(self.url()).await?;
        let ask =
            pb::GetAttemptRequest { attempt: attempt.to_owned(), with_series: true, ..Default::default() };
        Ok(client.get_attempt(ask).await?.into_inner())
    }

    /// What it answers to a question about a retry.
    pub async fn judge(&self, question: pb::ShouldRetryRequest) -> Result<pb::Verdict, Status> {
        let mut client = self.predictor().await?;
        client
            .should_retry(question)
            .await?
            .into_inner()
            .verdict
            .ok_or_else(|| Status::internal("the answer has no verdict"))
    }

    /// What it predicts for a key.
    pub async fn predict(&self, key: pb::Key) -> Result<pb::Prediction, Status> {
        let mut client = self.predictor().await?;
        let question = pb::PredictRequest { key: Some(key), ..pb::PredictRequest::default() };
        client
            .predict(question)
            .await?
            .into_inner()
            .prediction
            .ok_or_else(|| Status::internal("the answer has no prediction"))
    }

    async fn predictor(&self) -> Result<PredictorClient<Channel>, Status> {
        let connected = PredictorClient::connect(self.url()).await;
        connected.map_err(|error| Status::unavailable(error.to_string()))
    }

    /// Waits until it is ready.
    pub async fn wait_until_ready(&self) {
        let ready = async || self.get("/readyz").map(|(status, _)| status).ok();
        eventually("the server is ready", ready, |status| *status == Some(200)).await;
    }

    /// Waits until its metrics hold this line.
    pub async fn wait_for_metric(&self, line: &str) {
        let metrics = async || self.get("/metrics").map_or_else(|error| error.to_string(), |answer| answer.1);
        eventually(line, metrics, |text| text.contains(&format!("{line}\n"))).await;
    }

    /// Status and body of a GET.
    pub fn get(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let answer = self.send("GET", path, "", "")?;
        Ok((answer.status, answer.body))
    }

    /// The answer to a request; `headers` are further ones, each with its end.
    pub fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> anyhow::Result<HttpAnswer> {
        http::request(self.http, method, path, headers, body)
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

fn addresses_in(line: &str, [grpc, http]: [&str; 2]) -> Option<(SocketAddr, SocketAddr, Option<SocketAddr>)> {
    let entry: serde_json::Value = serde_json::from_str(line).ok()?;
    let field = |name: &str| entry.get("fields")?.get(name)?.as_str()?.parse().ok();
    Some((field(grpc)?, field(http)?, field("admission")))
}
