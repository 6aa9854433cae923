//! Parses the command line: settings are accepted both before and after a command.
//!
//! Each command accepts all settings except those with the name of one of its own options, and its `--help` does not repeat them.

use std::{env, ffi::OsString};

use clap::{
    Arg, CommandFactory as _, FromArgMatches as _,
    builder::styling::{AnsiColor, Styles},
    error::ErrorKind,
};

use super::Cli;
use crate::runtime::settings::options;

/// Columns of help at most, also on a wider terminal.
pub(super) const COLUMNS: usize = 80;

/// Colours of help and of errors in options. clap omits them if the output is not a terminal, or
/// with `NO_COLOR`.
pub(super) const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Yellow.on_default());

/// Text above the examples in each command's help.
const SETTINGS_HEADING: &str =
    "Settings (--data-dir, --config and all others of plimsoll-server --help) may stand here too.";

/// The end of a command's help: example lines. Each of `examples` begins with the name of the
/// command.
pub(super) fn examples_text(examples: &[&str]) -> String {
    let head = if examples.len() == 1 { "Example:" } else { "Examples:" };
    let lines: Vec<String> = examples.iter().map(|example| format!("  plimsoll-server {example}")).collect();
    format!("{head}\n{}", lines.join("\n"))
}

impl Cli {
    /// Reads the command line of this process. Wrong usage ends the process.
    pub fn from_process() -> Self {
        Self::read(env::args_os()).unwrap_or_else(|error| error.exit())
    }

    fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = command();
        let matches = command.try_get_matches_from_mut(line)?;
        let mut cli = Self::from_arg_matches(&matches)?;
        let mut within = &matches;
        while let Some((_name, behind)) = within.subcommand() {
            let twice = |name: &str| {
                let option = name.replace('_', "-");
                let text = format!("--{option} is given before the command and behind it: give it once");
                command.error(ErrorKind::ArgumentConflict, text)
            };
            cli.args.add(behind).map_err(twice)?;
            within = behind;
        }
        Ok(cli)
    }
}

/// The whole command line, with the settings after each command as well.
pub(super) fn command() -> clap::Command {
    let options = options();
    let mut command = Cli::command();
    for option in options.get_arguments() {
        let help = option.get_help().cloned().unwrap_or_default();
        command = command.mut_arg(option.get_id().as_str(), |option| option.help(help));
    }
    command.mut_subcommands(|command| {
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let command = command.mut_subcommands(|inner| with_settings(inner, &options));
        with_settings(command, &options).after_help(format!("{SETTINGS_HEADING}\n\n{examples}"))
    })
}

/// A command that accepts the settings too, except those with the name of one of its own options.
fn with_settings(command: clap::Command, options: &clap::Command) -> clap::Command {
    let is_free = |option: &&Arg| {
        let own = |own: &Arg| own.get_id() == option.get_id() || own.get_long() == option.get_long();
        !command.get_arguments().any(own)
    };
    let settings: Vec<Arg> =
        options.get_arguments().filter(is_free).map(|option| option.clone().hide(true)).collect();
    command.args(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::settings::Config;

    fn read(line: &str) -> Result<Config, String> {
        let words = ["plimsoll-server"].into_iter().chain(line.split(' ')).map(OsString::from);
        let cli = Cli::read(words).map_err(|error| error.to_string())?;
        Config::load(&cli.args, |_name| None).map_err(|mistakes| format!("{mistakes:?}"))
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    /// Each command that a person types, and the program itself.
    fn walk(command: &clap::Command, visit: &mut impl FnMut(&clap::Command)) {
        visit(command);
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            walk(inner, visit);
        }
    }

    #[test]
    fn every_help_ends_with_valid_examples() {
        let mut line = command();
        line.build();
        walk(&line, &mut |of| {
            let name = of.get_name();
            let help = of.clone().render_long_help().to_string();
            let (_, examples) = help.rsplit_once("Example").unwrap_or_else(|| unreachable!("{name}: {help}"));
            let examples: Vec<&str> = examples.lines().skip(1).collect();
            assert!((1..=2).contains(&examples.len()), "{name}: {examples:?}");
            for example in examples {
                let read = command().try_get_matches_from(example.split_whitespace());
                assert!(read.is_ok(), "{example}: {read:?}");
                assert!(example.split(' ').any(|word| word == name), "{name}: {example}");
            }
        });
    }

    #[test]
    fn settings_work_before_and_after_the_command() {
        let commands =
            ["import F", "export F", "verify", "compact", "replay F", "classify F", "backup F", "init D"];
        let commands = commands.into_iter().chain(["rules test F", "pools capacity --kinds auto"]);
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
        assert!(both.contains("--data-dir is given before the command and behind it"), "{both}");
        let unknown = read("import F --date-dir /b").unwrap_err();
        assert!(unknown.contains("--data-dir"), "{unknown}");
    }

    #[test]
    fn command_options_do_not_change_equally_named_settings() {
        let own = read("replay F --failure-price 3").unwrap();
        assert_eq!(own.predict.failure_price, None);
        assert_eq!(read("--failure-price 3 replay F").unwrap().predict.failure_price, Some(3.0));
    }
}
