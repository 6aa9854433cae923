//! `plimsoll-server doctor`: whether a server with these settings would start, and what would trouble it. Starts nothing, and changes
//! nothing.
//!
//! | file | what it checks |
//! |---|---|
//! | `machine.rs` | addresses, memory, open files |
//! | `disk.rs` | data directory and its disk |
//! | `files.rs` | files that the settings name: access, certificates, pools, rules |
//! | `gitlab.rs` | whether GitLab answers |

mod disk;
mod files;
mod gitlab;
mod machine;
#[cfg(test)]
mod tests;

use std::io::{self, Write as _};

use anyhow::bail;
use clap::Args;
use plimsoll_proto::figures::counted;
use serde::Serialize;

use super::{Output, line::examples, terminal};
use crate::runtime::settings::Config;

/// Checks the settings and the machine as a server would find them, and says what to change. Starts nothing.
///
/// The exit status is 0 if nothing is to be done, and 1 if something is.
#[derive(Debug, Args)]
#[command(after_help = examples(&["doctor --config plimsoll.toml", "doctor --output json"]))]
pub struct Doctor {
    /// Form of the result.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

/// What one check found.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct CheckLine {
    check: &'static str,
    ok: bool,
    /// Nothing is wrong, but it is probably not what was meant.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    warning: bool,
    /// What is there; or what is wrong, and what to do.
    says: String,
}

impl CheckLine {
    fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, ok: true, warning: false, says: says.into() }
    }

    fn wrong(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, ok: false, warning: false, says: says.into() }
    }

    /// What a check gave: its error says what to do.
    fn of(check: &'static str, found: anyhow::Result<String>) -> Self {
        match found {
            Ok(says) => Self::ok(check, says),
            Err(error) => Self::wrong(check, format!("{error:#}")),
        }
    }
}

impl Doctor {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let lines = check(config)?;
        match self.output {
            Output::Json => writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&lines)?)?,
            Output::Text => {
                write!(io::stdout(), "{}", terminal::fitted(&text(&lines), io::stdout()))?;
            }
        }
        let wrong = lines.iter().filter(|line| !line.ok).count();
        if wrong > 0 {
            let checks = counted(u64::try_from(lines.len()).unwrap_or(u64::MAX), "check");
            bail!("{wrong} of {checks} found something to do");
        }
        Ok(())
    }
}

/// All checks, in the order in which a server needs what they look at.
fn check(config: &Config) -> anyhow::Result<Vec<CheckLine>> {
    let (data, is_serving) = disk::data_directory(&config.data_dir);
    let mut lines = vec![data, disk::room(&config.data_dir), machine::memory(config), machine::open_files()];
    lines.extend(machine::addresses(config, is_serving));
    lines.extend([files::access(config), files::tls(config)]);
    lines.extend(files::webhook(config));
    lines.extend([files::pools(config), files::rules(config)]);
    lines.extend(gitlab::answers(&config.gitlab)?);
    Ok(lines)
}

/// A row for each check. Two spaces part the columns, so that what is wrapped stands below the last one.
fn text(lines: &[CheckLine]) -> String {
    let row = |line: &CheckLine| {
        let state = match (line.ok, line.warning) {
            (true, true) => "warn",
            (true, false) => "ok",
            (false, _) => "wrong",
        };
        format!("{state:<5}  {:<15}  {}\n", line.check, line.says)
    };
    lines.iter().map(row).collect()
}
