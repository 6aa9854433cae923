//! A place to run the agent's program at: a server, and an agent that reports to it.

use std::net::SocketAddr;

use tempfile::TempDir;

use crate::{Agent, Programs, Server};

/// A server on a directory of its own, and an agent with its spool beside it.
#[derive(Debug)]
pub struct Site {
    /// Holds `data` and `spool`.
    pub dir: TempDir,
    /// Runs until this is dropped.
    pub server: Server,
    /// Reports to the server.
    pub agent: Agent,
}

impl Site {
    /// Starts the server.
    ///
    /// # Errors
    /// It does not start; the error holds its log.
    pub fn start() -> anyhow::Result<Self> {
        let (dir, programs) = (tempfile::tempdir()?, Programs::for_tests());
        let server = Server::start(programs, &dir.path().join("data"))?;
        let agent = Agent::new(programs, server.url(), &dir.path().join("spool"));
        Ok(Self { dir, server, agent })
    }

    /// Ends the server at once.
    ///
    /// # Errors
    /// It cannot be ended.
    pub fn end_server(self) -> anyhow::Result<SiteWithoutServer> {
        let Self { dir, server, agent } = self;
        let grpc = server.grpc;
        server.kill()?;
        Ok(SiteWithoutServer { dir, agent, grpc })
    }
}

/// A site whose server has ended, for now.
#[derive(Debug)]
pub struct SiteWithoutServer {
    /// As in [`Site`].
    pub dir: TempDir,
    /// Reports to the address of the server.
    pub agent: Agent,
    grpc: SocketAddr,
}

impl SiteWithoutServer {
    /// Starts the server again, at the same address.
    ///
    /// # Errors
    /// It does not start; the error holds its log.
    pub fn start_server(self) -> anyhow::Result<Site> {
        let Self { dir, agent, grpc } = self;
        let options = ["--grpc-listen", &grpc.to_string()];
        let server = Server::start_with(Programs::for_tests(), &dir.path().join("data"), &options)?;
        Ok(Site { dir, server, agent })
    }
}
