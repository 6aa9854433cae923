//! `plimsoll-server doctor`: checks whether a server with these settings would start, and what
//! would cause problems. Starts nothing, and changes nothing.
//!
//! | module | what it checks |
//! |---|---|
//! | `machine` | addresses, memory, open files |
//! | `database` | the database of the store, its rights, replication and transactions |
//! | `disk` | data directory and its disk |
//! | `files` | files that the settings name: access, certificates, pools, rules |
//! | `upstreams` | whether the servers answer that start machines of pools, and the cluster shows its LimitRanges |
//! | `gitlab` | whether GitLab answers |

mod database;
mod disk;
mod files;
mod gitlab;
mod machine;
#[cfg(test)]
mod tests;
mod upstreams;

use std::io::{self, Write as _};

use anyhow::bail;
use clap::Args;
use plimsoll_base::checks::{CheckLine, checks_text};
use plimsoll_proto::figures::counted;

use super::{Output, line::examples_text, terminal};
use crate::runtime::settings::Config;

/// Checks the settings and the machine as a server would find them, and says what to change. Starts nothing.
///
/// Each line begins with `ok`, `warn` or `fail`. The exit status is 1 if a line begins with `fail`, else 0.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["doctor --config plimsoll.toml", "doctor --output json"]))]
pub struct Doctor {
    /// Form of the result.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

/// A line of output for a check's result. The text of an error says what to do.
fn line_of(check: &'static str, found: anyhow::Result<String>) -> CheckLine {
    match found {
        Ok(says) => CheckLine::ok(check, says),
        Err(error) => CheckLine::fail(check, format!("{error:#}")),
    }
}

impl Doctor {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let lines = check(config)?;
        match self.output {
            Output::Json => writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&lines)?)?,
            Output::Text => {
                write!(io::stdout(), "{}", terminal::wrapped_for(&checks_text(&lines), io::stdout()))?;
            }
        }
        let failed = lines.iter().filter(|line| line.is_failed()).count();
        if failed > 0 {
            let checks = counted(u64::try_from(lines.len()).unwrap_or(u64::MAX), "check");
            bail!("{failed} of {checks} found something to do");
        }
        Ok(())
    }
}

/// Runs all checks, in the order in which a starting server needs them.
fn check(config: &Config) -> anyhow::Result<Vec<CheckLine>> {
    let (mut lines, is_serving) = if config.store_url.is_some() {
        // a running server may listen on these addresses: one that is in use is no failure
        (database::check_database(config)?, true)
    } else {
        let (line, is_serving) = disk::data_directory(&config.data_dir);
        (vec![line], is_serving)
    };
    lines.extend([disk::free_space(&config.data_dir), machine::memory(config), machine::check_open_files()]);
    lines.extend(machine::check_addresses(config, is_serving));
    lines.extend([files::check_access(config), files::check_tls(config)]);
    lines.extend(files::check_webhook(config));
    lines.extend(upstreams::check_limit_ranges(config)?);
    lines.extend([files::pools(config), files::check_rules(config)]);
    lines.extend(files::shadow(config));
    lines.extend(upstreams::check_upstreams(config)?);
    lines.extend(gitlab::check_gitlab(&config.gitlab)?);
    Ok(lines)
}
