//! Accepts the options that most commands share also before the command.
//!
//! Each command declares these options with a default and a variable. The program itself gets a copy of each
//! without them, and passes its value on to the command. An option after the command takes precedence.

use clap::{Arg, Command, CommandFactory as _};

use super::Cli;

/// Long names of the options that may come before the command.
const COMMON_OPTIONS: [&str; 5] = ["server", "ca", "client-cert", "client-key", "token-file"];
/// The options are copied from this command, which only asks the server.
const MODEL_COMMAND: &str = "predict";

/// The command line, with the shared options also before the command.
pub(super) fn command_line() -> Command {
    let line = Cli::command();
    let is_common = |option: &&Arg| option.get_long().is_some_and(|name| COMMON_OPTIONS.contains(&name));
    let all = line.find_subcommand(MODEL_COMMAND).into_iter().flat_map(Command::get_arguments);
    let common: Vec<Arg> = all.filter(is_common).cloned().map(without_default).collect();
    line.args(common)
}

/// A copy of an option without its default and its variable.
fn without_default(option: Arg) -> Arg {
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    let help = format!("{help}; may stand behind the command as well");
    option.global(true).env(None::<&str>).default_value(None::<&str>).help(help).long_help(None::<&str>)
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command_line().debug_assert();
        let all: Vec<_> = command_line()
            .get_arguments()
            .filter_map(|option| option.get_long().map(ToOwned::to_owned))
            .collect();
        assert_eq!(all, COMMON_OPTIONS);
    }

    #[test]
    fn options_work_before_and_after_the_command() {
        let commands = [
            "run -- true",
            "attach --pid 7",
            "predict",
            "explain",
            "should-retry",
            "doctor",
            "stats",
            "attempts",
            "show x",
            "verdict undo x",
            "watch",
            "recommend",
            "gitlab-ci -- true",
        ];
        for command in commands {
            let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
            // those for people are left out of the container's binary
            if !cfg!(feature = "people") && Cli::command().find_subcommand(name).is_none() {
                continue;
            }
            let seen = |text: String| {
                let matches = command_line().try_get_matches_from(text.split_whitespace()).unwrap();
                format!("{:?}", Cli::from_arg_matches(&matches).unwrap())
            };
            let options = if name == "gitlab-ci" {
                "--server http://x"
            } else {
                "--server http://x --ca /ca --token-file /t"
            };
            let before = seen(format!("plimsoll {options} {name} {rest}"));
            let behind = seen(format!("plimsoll {name} {options} {rest}"));
            assert_eq!(before, behind);
            assert!(before.contains("http://x"), "{before}");
        }
    }

    #[test]
    fn the_option_behind_the_command_counts() {
        let matches = command_line()
            .try_get_matches_from(["plimsoll", "--server", "a", "explain", "--server", "b"])
            .unwrap();
        let (_name, explain) = matches.subcommand().unwrap();
        assert_eq!(explain.get_one::<String>("server").map(String::as_str), Some("b"));
    }
}
