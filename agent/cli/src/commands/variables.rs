//! Environment variables for options. A variable is often set for all builds, so a mistake in one must not stop
//! them: it is reported, and the variable is ignored. An empty variable is ignored too. A mistake in an option
//! is an error.

use std::ffi::{OsStr, OsString};

use clap::{ArgMatches, Command, parser::ValueSource};

use super::{
    delivery_args::{attempt_id, pool},
    output::{check_phases, check_report},
    verdict_args::{check_exit_codes, check_retries},
};

/// The command line without the variables that [`check`] refuses; their problems are passed to `warn`.
pub(super) fn without_unusable(
    command: Command,
    lookup: impl Fn(&OsStr) -> Option<OsString>,
    mut warn: impl FnMut(String),
) -> Command {
    let mut warned = Vec::new();
    command.mut_subcommands(|subcommand| {
        subcommand.mut_args(|argument| {
            let Some(name) = argument.get_env().map(OsStr::to_owned) else { return argument };
            match lookup(&name).map(|value| check(&name, &value)) {
                None | Some(Ok(())) => return argument,
                Some(Err(Some(problem))) if !warned.contains(&name) => {
                    warn(format!("{} is left out: {problem}", name.display()));
                    warned.push(name);
                }
                Some(Err(_)) => {}
            }
            argument.env(None::<&str>)
        })
    })
}

/// Checks the value of a variable. An error without a text means that the value is empty.
pub(super) fn check(name: &OsStr, value: &OsStr) -> Result<(), Option<String>> {
    if value.is_empty() {
        return Err(None);
    }
    let words = || value.to_str().ok_or_else(|| Some("it is not UTF-8".to_owned()));
    match name.to_str() {
        Some("PLIMSOLL_PHASES") => check_phases(words()?).map_err(Some),
        Some("PLIMSOLL_REPORT") => check_report(words()?).map_err(Some),
        Some("PLIMSOLL_EXIT_CODE_FOR") => check_exit_codes(words()?).map_err(Some),
        Some("PLIMSOLL_RETRY_IN_PLACE") => check_retries(words()?).map_err(Some),
        Some("PLIMSOLL_POOL") => pool(words()?).map(drop).map_err(Some),
        Some("PLIMSOLL_TICKET") => attempt_id(words()?).map(drop).map_err(Some),
        Some("PLIMSOLL_SERVER") => words().map(drop),
        _path => Ok(()),
    }
}

/// Whether the command line has a pattern for phases although a variable switches phases off. The command line
/// takes precedence.
pub(super) fn pattern_overrules(matches: &ArgMatches) -> bool {
    let Some((_name, run)) = matches.subcommand().filter(|(name, _)| *name == "run") else { return false };
    let off =
        run.get_many::<String>("phases").is_some_and(|mut words| words.any(|word| word.trim() == "off"));
    off && run.value_source("phases") == Some(ValueSource::EnvVariable) && run.contains_id("patterns")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::Cli;

    /// Which variables are left to `run`, and the notes.
    fn left(variables: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let mut warnings = Vec::new();
        let find = |name: &OsStr| variables.iter().find(|(known, _)| name == *known);
        let lookup = |name: &OsStr| find(name).map(|(_, value)| OsString::from(value));
        let command = without_unusable(Cli::command(), lookup, |problem| warnings.push(problem));
        let run = command.find_subcommand("run").unwrap();
        let names = run.get_arguments().filter_map(|argument| argument.get_env());
        (names.map(|name| name.to_str().unwrap().to_owned()).collect(), warnings)
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let (all, _warned) = left(&[]);
        for name in &all {
            let (names, warnings) = left(&[(name, "")]);
            assert!(!names.contains(name) && warnings.is_empty(), "{name}: {warnings:?}");
            assert_eq!(names.len() + 1, all.len());
        }
        assert!(all.len() >= 6, "{all:?}");
    }

    #[test]
    fn a_wrong_variable_is_reported_and_left_out() {
        for (name, value) in [
            ("PLIMSOLL_PHASES", "make"),
            ("PLIMSOLL_REPORT", "loud"),
            ("PLIMSOLL_EXIT_CODE_FOR", "bigger=82,bigger=83"),
            ("PLIMSOLL_RETRY_IN_PLACE", "11"),
            ("PLIMSOLL_POOL", "two words"),
            ("PLIMSOLL_TICKET", "two words"),
        ] {
            let (names, warnings) = left(&[(name, value)]);
            assert!(!names.iter().any(|left| left == name), "{names:?}");
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            let tells = warnings[0].contains("expected") || warnings[0].contains("already");
            assert!(warnings[0].starts_with(name) && tells, "{warnings:?}");
        }
        let (names, warnings) = left(&[("PLIMSOLL_PHASES", "off"), ("PLIMSOLL_REPORT", "text,json=a")]);
        assert!(names.contains(&"PLIMSOLL_PHASES".to_owned()) && warnings.is_empty());
    }
}
