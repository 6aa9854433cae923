//! Settings as options of the command line.

use std::path::PathBuf;

use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches, Parser};

use super::{Config, groups, setting::Setting};

/// Keeps what CI builds used, predicts what the next one needs, and judges failed ones.
///
/// Every setting can be given as an option (--grpc-listen), as a variable (PLIMSOLL_GRPC_LISTEN) or in the file
/// (`grpc_listen`): the option wins over the variable, the variable over the file. --print-config lists them all.
#[derive(Debug, Clone, Parser)]
#[command(name = "plimsoll-server", version)]
pub struct Args {
    /// Settings file (TOML); also PLIMSOLL_CONFIG.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Prints what is in force, with the place of each value, and ends.
    #[arg(long)]
    pub print_config: bool,
    #[command(flatten)]
    given: SettingOptions,
}

/// Settings on the command line, as text.
#[derive(Debug, Clone, Default)]
struct SettingOptions(Vec<(&'static str, String)>);

impl SettingOptions {
    fn read(matches: &ArgMatches) -> Self {
        let given = |setting: &'static Setting| {
            // a command may have an option of this name with another type; that is not this setting
            let text = matches.try_get_one::<String>(setting.name).ok().flatten();
            text.map(|text| (setting.name, text.clone()))
        };
        Self(groups::all().filter_map(given).collect())
    }
}

impl FromArgMatches for SettingOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::read(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::read(matches);
        Ok(())
    }
}

impl clap::Args for SettingOptions {
    fn augment_args(command: Command) -> Command {
        let defaults = Config::default();
        groups::ALL.iter().fold(command, |command, group| {
            let options = group.settings.iter().map(|setting| setting.option(&defaults));
            command.args(options.map(|option| option.help_heading(group.title)))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl Args {
    /// Settings on the command line: name and text.
    pub(super) fn values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.given.0.iter().map(|(name, text)| (*name, text.as_str()))
    }

    /// Adds the settings that were given after the command.
    /// Errors: an option was also given before the command; the error is its name.
    pub(crate) fn add(&mut self, behind: &ArgMatches) -> Result<(), &'static str> {
        // fails if the command has an option of this name itself, which is not the settings file
        if let Ok(Some(file)) = behind.try_get_one::<PathBuf>("config")
            && self.config.replace(file.clone()).is_some()
        {
            return Err("config");
        }
        self.print_config |= behind.try_get_one("print_config").is_ok_and(|on| on == Some(&true));
        let SettingOptions(more) = SettingOptions::read(behind);
        if let Some((twice, _)) = more.iter().find(|(name, _)| self.values().any(|(given, _)| given == *name))
        {
            return Err(*twice);
        }
        self.given.0.extend(more);
        Ok(())
    }
}

/// The options as `--help` shows them.
pub(crate) fn options() -> Command {
    Args::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_sets_the_setting_it_names() {
        let names: Vec<&str> = groups::all().map(|setting| setting.name).collect();
        let line =
            names.iter().flat_map(|name| [format!("--{}", name.replace('_', "-")), (*name).to_owned()]);
        let args = Args::parse_from(std::iter::once("plimsoll-server".to_owned()).chain(line));
        let same: Vec<_> = names.iter().map(|name| (*name, *name)).collect();
        assert_eq!(args.values().collect::<Vec<_>>(), same);
    }

    #[test]
    fn help_shows_the_default_of_every_setting_once() {
        let defaults = Config::default();
        for setting in groups::all() {
            let help = setting.meaning(&defaults);
            assert_eq!(help.matches("[default: ").count(), 1, "{}: {help}", setting.name);
        }
    }
}
