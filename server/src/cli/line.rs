//! How the command line is read: settings are the same before a command and behind it.
//!
//! Each command knows all of them, but those whose name it uses for an option of its own, and its `--help` does not repeat them.

use std::{env, ffi::OsString};

use clap::{Arg, CommandFactory as _, FromArgMatches as _, error::ErrorKind};

use super::Cli;
use crate::config::options;

/// The last line of each command's help.
const SETTINGS: &str =
    "Settings (--data-dir, --config and all others of plimsoll-server --help) may stand here too.";

impl Cli {
    /// Reads the command line of this process. Ends the process on wrong usage.
    pub fn from_process() -> Self {
        Self::read(env::args_os()).unwrap_or_else(|error| error.exit())
    }

    fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = command();
        let matches = command.try_get_matches_from_mut(line)?;
        let mut cli = Self::from_arg_matches(&matches)?;
        if let Some((_name, behind)) = matches.subcommand() {
            let twice = |name: &str| {
                let option = name.replace('_', "-");
                let text = format!("--{option} stands before the command and behind it: give it once");
                command.error(ErrorKind::ArgumentConflict, text)
            };
            cli.args.add(behind).map_err(twice)?;
        }
        Ok(cli)
    }
}

/// The whole line, with the settings behind each command as well.
fn command() -> clap::Command {
    let options = options();
    let mut command = Cli::command();
    for option in options.get_arguments() {
        let help = option.get_help().cloned().unwrap_or_default();
        command = command.mut_arg(option.get_id().as_str(), |option| option.help(help));
    }
    command.mut_subcommands(|command| {
        let is_free = |option: &&Arg| {
            let own = |own: &Arg| own.get_id() == option.get_id() || own.get_long() == option.get_long();
            !command.get_arguments().any(own)
        };
        let settings: Vec<Arg> =
            options.get_arguments().filter(is_free).map(|option| option.clone().hide(true)).collect();
        command.args(settings).after_help(SETTINGS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn read(line: &str) -> Result<Config, String> {
        let words = ["plimsoll-server"].into_iter().chain(line.split(' ')).map(OsString::from);
        let cli = Cli::read(words).map_err(|error| error.to_string())?;
        Config::load(&cli.args, |_name| None)
            .map(|loaded| loaded.config)
            .map_err(|mistakes| format!("{mistakes:?}"))
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
        let has_own = Cli::command().get_subcommands().any(|command| command.get_after_help().is_some());
        assert!(!has_own, "the last line of help would be lost");
    }

    #[test]
    fn settings_are_the_same_before_a_command_and_behind_it() {
        let commands =
            ["import F", "export F", "verify", "compact", "replay F", "classify F", "backup F", "init D"];
        for command in commands {
            for line in [
                format!("--data-dir /d --memory-cap 9GiB {command}"),
                format!("{command} --data-dir /d --memory-cap=9GiB"),
            ] {
                let config = read(&line).unwrap();
                assert_eq!(config.data_dir.to_str(), Some("/d"), "{line}");
                assert_eq!(config.places["data_dir"], "--data-dir", "{line}");
                assert_eq!(config.predict.memory_cap.map(|cap| cap.0), Some(9 << 30), "{line}");
            }
        }
        let both = read("--data-dir /a import F --data-dir /b").unwrap_err();
        assert!(both.contains("--data-dir stands before the command and behind it"), "{both}");
        let unknown = read("import F --date-dir /b").unwrap_err();
        assert!(unknown.contains("--data-dir"), "{unknown}");
    }

    #[test]
    fn an_option_of_a_command_is_not_the_setting_of_the_same_name() {
        let own = read("replay F --failure-price 3").unwrap();
        assert_eq!(own.predict.failure_price, None);
        assert_eq!(read("--failure-price 3 replay F").unwrap().predict.failure_price, Some(3.0));
    }
}
