//! A place to run the agent's program at: a server, and an agent that reports to it.

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
}
