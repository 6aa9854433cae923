//! `plimsoll-server init`.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    time::Duration,
};

use clap::Args;

use super::line::examples_text;
use crate::{
    admin::tasks::init::{self, CreatedConfig, ListenAddresses},
    runtime::{clock::Clock, settings::Config},
};

/// Writes a configuration for a first try into a new directory: TLS with a CA of its own, and two tokens.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["init first", "init first --name plimsoll.example.org"]))]
pub struct Init {
    /// A directory that is not there yet, or empty.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// A name or an address under which others reach the server, beside localhost; may come more than once. With one it listens on all
    /// of the machine's addresses (those of IPv6 too if one of the names is such an address), without on loopback alone. --grpc-listen and
    /// --http-listen name other addresses.
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
}

impl Init {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let now = Duration::from_millis(Clock.now_unix_ms());
        let listen = ListenAddresses::of(config, &self.names);
        let made = init::init(&self.dir, &self.names, listen, now)?;
        Ok(io::stdout().write_all(instructions(&made, &shown_host(&self.names), listen).as_bytes())?)
    }
}

/// The first name under which the server can be reached, as it is written in an address.
fn shown_host(names: &[String]) -> String {
    let host = names.iter().find(|name| !name.contains('*')).map_or("localhost", String::as_str);
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// Instructions for the user. The tokens are shown only here.
fn instructions(made: &CreatedConfig, host: &str, listen: ListenAddresses) -> String {
    let CreatedConfig { dir, agent_token: agent, operator_token: operator } = made;
    let dir = dir.display();
    let (grpc, http) = (listen.grpc.port(), listen.http.port());
    let quoted = |name: &str| shell_word(&format!("{dir}/{name}"));
    let (settings, ca) = (quoted("plimsoll.toml"), quoted("ca.crt"));
    format!(
        "Written to {dir}. The tokens are shown this once; the files hold their hashes.\n\
         \n\
         agent     {agent}\n\
         operator  {operator}\n\
         \n\
         1. Start the server:\n\
         plimsoll-server --config {settings}\n\
         \n\
         2. Measure a build, with a copy of ca.crt where it runs:\n\
         PLIMSOLL_TOKEN={agent} plimsoll run --server https://{host}:{grpc} --ca {ca} --key package=hello -- make\n\
         \n\
         3. See what it used; or open https://{host}:{http}/ in a browser\n\
         (any user name, the operator's token as password):\n\
         PLIMSOLL_TOKEN={operator} plimsoll attempts --server https://{host}:{grpc} --ca {ca}\n\
         \n\
         The CA's key, ca.key, signs further certificates: keep it elsewhere.\n"
    )
}

/// The text quoted for a shell.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_name_a_host_that_is_one() {
        let host =
            |names: &[&str]| shown_host(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(host(&[]), "localhost");
        assert_eq!(host(&["*.example"]), "localhost");
        assert_eq!(host(&["*.example", "2001:db8::1"]), "[2001:db8::1]");
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(shell_word("/a/b-1.c"), "/a/b-1.c");
        assert_eq!(shell_word("/a b/c's"), "'/a b/c'\\''s'");
    }
}
