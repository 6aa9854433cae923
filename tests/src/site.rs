//! A place to run the agent's program at: a server, and an agent that reports to it.

use std::{fs, net::SocketAddr};

use tempfile::TempDir;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use crate::{Agent, Programs, Sender, Server, eventually};

/// A server on a directory of its own, and an agent with its spool beside it.
#[derive(Debug)]
pub struct Site {
    /// Holds `data` and `spool`, and the files of options.
    pub dir: TempDir,
    /// Runs until this is dropped.
    pub server: Server,
    /// Reports to the server.
    pub agent: Agent,
    options: Vec<String>,
}

impl Site {
    /// Starts the server.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(&[], &[])
    }

    /// Starts the server with further options. Those of `files` name a file of the site, which is written with this text.
    pub fn start_with(files: &[(&str, &str)], options: &[&str]) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let mut options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        for (option, text) in files {
            let path = dir.path().join(option.trim_start_matches('-'));
            fs::write(&path, text)?;
            options.extend([(*option).to_owned(), path.display().to_string()]);
        }
        Self::serve(dir, options)
    }

    fn serve(dir: TempDir, options: Vec<String>) -> anyhow::Result<Self> {
        let (programs, texts) =
            (Programs::for_tests(), options.iter().map(String::as_str).collect::<Vec<_>>());
        let server = Server::start_with(programs, &dir.path().join("data"), &texts)?;
        let agent = Agent::new(programs, server.url(), &dir.path().join("spool"));
        Ok(Self { dir, server, agent, options })
    }

    /// Kills the server and starts it again on the same store, with the same options.
    pub fn killed(self) -> anyhow::Result<Self> {
        let Self { dir, server, options, .. } = self;
        server.kill()?;
        Self::serve(dir, options)
    }

    /// The agent with this token.
    pub fn agent_as(&self, token: &str) -> Agent {
        self.agent.clone().with("PLIMSOLL_TOKEN", token)
    }

    /// A connection to the server.
    pub async fn connect(&self) -> anyhow::Result<Channel> {
        Ok(Endpoint::new(self.server.url())?.connect().await?)
    }

    /// A stream to the collector with this token, as soon as the server has the keys of the issuer that signed it.
    pub async fn stream(&self, token: &str) -> anyhow::Result<Sender> {
        let channel = self.connect().await?;
        let open = async || Sender::open_as(channel.clone(), token).await;
        // UNAVAILABLE: the issuer's keys are on their way
        let is_open = |opened: &Result<Sender, Status>| {
            !opened.as_ref().is_err_and(|status| status.code() == Code::Unavailable)
        };
        Ok(eventually("the issuer's keys are there", open, is_open).await?)
    }

    /// Ends the server at once.
    pub fn end_server(self) -> anyhow::Result<SiteWithoutServer> {
        let Self { dir, server, agent, options } = self;
        let grpc = server.grpc;
        server.kill()?;
        Ok(SiteWithoutServer { dir, agent, options, grpc })
    }
}

/// A site whose server has ended, for now.
#[derive(Debug)]
pub struct SiteWithoutServer {
    /// As in [`Site`].
    pub dir: TempDir,
    /// Reports to the address of the server.
    pub agent: Agent,
    options: Vec<String>,
    grpc: SocketAddr,
}

impl SiteWithoutServer {
    /// Starts the server again, at the same address.
    pub fn start_server(self) -> anyhow::Result<Site> {
        let Self { dir, mut options, grpc, .. } = self;
        options.extend(["--grpc-listen".to_owned(), grpc.to_string()]);
        Site::serve(dir, options)
    }
}
