//! What is fuzzed: the parsers of the server, and those of the agent.

use plimsoll_server::{fuzz, fuzz::Target};

pub(crate) fn targets() -> impl Iterator<Item = Target> {
    fuzz::targets().chain([Target { name: "spool", run: plimsoll_client::fuzz::spool }])
}
