//! Files with defaults of options, so that each machine names its server once:
//!
//! | file | for |
//! |---|---|
//! | `$XDG_CONFIG_HOME/plimsoll/config.toml`, else `~/.config/plimsoll/config.toml` | one user |
//! | `/etc/plimsoll/config.toml` | all users of the machine |
//!
//! An option takes precedence over its variable, a variable over the user's file, and that over the system's. Each line is `option = "value"`,
//! with the option's long name and `_` for `-`. An invalid line is reported with file and number, and ignored, so that builds go on.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{ErrorKind, Read as _},
    ops::Range,
    path::{Path, PathBuf},
};

use clap::{Arg, Command, builder::OsStr as ClapStr};
use toml::de::{DeTable, DeValue};

use super::variables::check;

/// The file for all users of the machine.
const SYSTEM_FILE: &str = "/etc/plimsoll/config.toml";
/// Longest file that is read, bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// Options that a file may set for all commands that have them.
const COMMON_OPTIONS: [&str; 5] = ["server", "ca", "client-cert", "client-key", "token-file"];
/// Options that a file may set for the commands in [`MEASURING_COMMANDS`].
const MEASURING_OPTIONS: [&str; 6] = ["pool", "interval", "spool-dir", "spool-max", "patience", "report"];
/// The commands that measure, and the one that checks their configuration.
const MEASURING_COMMANDS: [&str; 3] = ["run", "attach", "doctor"];
/// Options that are paths. A relative path starts at the directory of the file.
const PATH_OPTIONS: [&str; 5] = ["ca", "client-cert", "client-key", "token-file", "spool-dir"];

/// The files of this user and this machine; later ones take precedence.
pub(super) fn files() -> Vec<PathBuf> {
    let folder = |name: &str| env::var_os(name).filter(|folder| Path::new(folder).is_absolute());
    let config_dir = || folder("HOME").map(|home| PathBuf::from(home).join(".config"));
    let user = folder("XDG_CONFIG_HOME").map(PathBuf::from).or_else(config_dir);
    let user = user.map(|folder| folder.join("plimsoll/config.toml"));
    [Some(PathBuf::from(SYSTEM_FILE)), user].into_iter().flatten().collect()
}

/// Adds the values in these files to the command line as defaults; passes each mistake to `warn`.
pub(super) fn with_defaults(command: Command, files: &[PathBuf], mut warn: impl FnMut(String)) -> Command {
    files.iter().fold(command, |command, file| match read(file) {
        Ok(Some(text)) => with_file(command, file, &text, &mut warn),
        Ok(None) => command,
        Err(problem) => {
            warn(format!("{} is left out: {problem}", file.display()));
            command
        }
    })
}

/// Reads a file; `None` if it does not exist.
fn read(file: &Path) -> Result<Option<String>, String> {
    let mut text = String::new();
    // only regular files are read: reading a pipe could block forever
    let about = match fs::metadata(file) {
        Ok(about) => about,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error.to_string()),
    };
    if !about.is_file() || about.len() > MAX_FILE_BYTES {
        return Err(format!("it is no file of at most {} KiB", MAX_FILE_BYTES >> 10));
    }
    let opened = File::open(file).map_err(|error| error.to_string())?;
    opened.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(Some(text))
}

fn with_file(command: Command, file: &Path, text: &str, warn: &mut impl FnMut(String)) -> Command {
    let table = match DeTable::parse(text) {
        Ok(table) => table.into_inner(),
        Err(error) => {
            let at = file_and_line(file, text, error.span());
            warn(format!("{at}: {}; the file is left out: each line is option = \"value\"", error.message()));
            return command;
        }
    };
    let mut lines: Vec<_> = table.into_iter().collect();
    lines.sort_by_key(|(name, _value)| name.span().start);
    lines.into_iter().fold(command, |command, (name, value)| {
        let option = name.get_ref().replace('_', "-");
        match checked(&command, file, &option, value.get_ref()) {
            Ok(value) => with_default(command, &option, &value),
            Err(problem) => {
                warn(format!(
                    "{}: {} is left out: {problem}",
                    file_and_line(file, text, Some(name.span())),
                    name.get_ref()
                ));
                command
            }
        }
    })
}

/// The place of a mistake, as `FILE:LINE`.
fn file_and_line(file: &Path, text: &str, span: Option<Range<usize>>) -> String {
    let before = text.as_bytes().iter().take(span.map_or(0, |span| span.start));
    format!("{}:{}", file.display(), before.filter(|byte| **byte == b'\n').count() + 1)
}

/// Checks the value of an option: files must be allowed to set the option, and the commands must accept the
/// value.
fn checked(command: &Command, file: &Path, option: &str, value: &DeValue<'_>) -> Result<OsString, String> {
    let known = || COMMON_OPTIONS.iter().chain(&MEASURING_OPTIONS);
    if !known().any(|name| *name == option) {
        let names: Vec<String> = known().map(|name| name.replace('-', "_")).collect();
        let secret = if option == "token" {
            "a token belongs in a file of its own, named by token_file; "
        } else {
            ""
        };
        return Err(format!("{secret}expected one of {}", names.join(", ")));
    }
    let text = match value {
        DeValue::String(text) => text.to_string(),
        _ => return Err(format!("expected text: {} = \"...\"", option.replace('-', "_"))),
    };
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    let value = match file.parent().filter(|_folder| PATH_OPTIONS.contains(&option)) {
        Some(folder) => folder.join(text).into_os_string(),
        None => text.into(),
    };
    let one = command.get_subcommands().find_map(|command| settable_option(command, option));
    one.map_or(Ok(()), |argument| check_value(argument, &value))?;
    Ok(value)
}

/// The command's option of this name, if a file may set it for this command.
fn settable_option<'c>(command: &'c Command, option: &str) -> Option<&'c Arg> {
    let is_set = COMMON_OPTIONS.contains(&option) || MEASURING_COMMANDS.contains(&command.get_name());
    command.get_arguments().find(|argument| is_set && argument.get_long() == Some(option))
}

/// Checks whether an option accepts a value on the command line.
fn check_value(argument: &Arg, value: &OsStr) -> Result<(), String> {
    if let Some(Err(Some(problem))) = argument.get_env().map(|variable| check(variable, value)) {
        return Err(problem);
    }
    let alone = argument.clone().env(None::<&str>).default_value(None::<&str>);
    let name = alone.get_long().unwrap_or_default().to_owned();
    let line = [OsString::from(format!("--{name}")), value.to_owned()];
    let read = Command::new("plimsoll").no_binary_name(true).arg(alone).try_get_matches_from(line);
    // clap's text is `error: invalid value '1' for '--interval <TIME>': expected ...`, then advice: keep only
    // the reason
    read.map(drop).map_err(|error| {
        let all = error.to_string();
        let first = all.lines().next().unwrap_or_default();
        first.strip_prefix("error: ").unwrap_or(first).to_owned()
    })
}

fn with_default(command: Command, option: &str, value: &OsStr) -> Command {
    let default = ClapStr::from(value.to_owned());
    command.mut_subcommands(|subcommand| {
        if settable_option(&subcommand, option).is_none() {
            return subcommand;
        }
        subcommand.mut_args(|argument| {
            if argument.get_long() == Some(option) {
                argument.default_value(default.clone())
            } else {
                argument
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use clap::{ArgMatches, FromArgMatches as _};

    use super::*;
    use crate::commands::{Cli, common_options};

    /// Reads these files, the one that wins last, and then the line; returns the command's options and its notes.
    fn read_line(files: &[&str], line: &str) -> (ArgMatches, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<PathBuf> = (0..files.len()).map(|at| dir.path().join(format!("{at}.toml"))).collect();
        for (name, text) in names.iter().zip(files) {
            fs::write(name, text).unwrap();
        }
        let mut warnings = Vec::new();
        let absent = dir.path().join("absent/config.toml");
        let all: Vec<PathBuf> = names.into_iter().chain([absent]).collect();
        let command = with_defaults(common_options::command_line(), &all, |problem| warnings.push(problem));
        let matches = command.try_get_matches_from(line.split_whitespace()).unwrap();
        assert!(Cli::from_arg_matches(&matches).is_ok());
        let folder = format!("{}/", dir.path().display());
        (matches, warnings.into_iter().map(|line| line.replace(&folder, "")).collect())
    }

    fn value(matches: &ArgMatches, name: &str) -> String {
        let (_name, options) = matches.subcommand().unwrap();
        options.get_raw(name).unwrap().next().unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn options_override_user_files_which_override_system_files() {
        let files = ["server = \"http://system\"\nspool_max = \"1MiB\"", "server = \"http://user\""];
        let (matches, warnings) = read_line(&files, "plimsoll run -- true");
        assert_eq!((value(&matches, "server").as_str(), warnings), ("http://user", vec![]));
        assert_eq!(value(&matches, "spool_max"), "1MiB");
        for line in ["plimsoll --server http://line run -- true", "plimsoll run --server http://line -- true"]
        {
            assert_eq!(value(&read_line(&files, line).0, "server"), "http://line", "{line}");
        }
        assert_eq!(value(&read_line(&files, "plimsoll predict").0, "server"), "http://user");
    }

    #[test]
    fn relative_paths_resolve_against_their_file() {
        let (matches, _warned) =
            read_line(&["ca = \"ca.crt\"\ntoken_file = \"/run/token\""], "plimsoll predict");
        assert!(value(&matches, "ca").starts_with('/') && value(&matches, "ca").ends_with("/ca.crt"));
        assert_eq!(value(&matches, "token_file"), "/run/token");
    }

    #[test]
    fn mistakes_in_files_are_located_and_skipped() {
        let file = "# where\nsrever = \"http://a\"\ninterval = \"1\"\nreport = \"loud\"\npool = 5\ntoken = \"s\"\nserver = \"http://b\"\n";
        let (matches, warnings) = read_line(&[file], "plimsoll run -- true");
        assert_eq!(value(&matches, "server"), "http://b");
        let begins = [
            "0.toml:2: srever",
            "0.toml:3: interval",
            "0.toml:4: report",
            "0.toml:5: pool",
            "0.toml:6: token",
        ];
        for (line, begin) in warnings.iter().zip(begins) {
            assert!(line.starts_with(&format!("{begin} is left out: ")), "{line}");
        }
        assert_eq!(warnings.len(), begins.len(), "{warnings:?}");
        assert!(warnings[0].contains("expected one of server, ca,"), "{warnings:?}");
        assert!(warnings[4].contains("token_file"), "{warnings:?}");
    }

    #[test]
    fn an_invalid_toml_file_is_ignored_entirely() {
        let (matches, warnings) = read_line(&["server = \"http://a\"\npool = oak\n"], "plimsoll run -- true");
        assert_ne!(value(&matches, "server"), "http://a");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("0.toml:2: "), "{warnings:?}");
        assert!(warnings[0].contains("left out"), "{warnings:?}");
    }

    #[test]
    fn measuring_options_do_not_filter_queries() {
        let (matches, warnings) = read_line(&["pool = \"oak\""], "plimsoll run -- true");
        assert_eq!((value(&matches, "pool").as_str(), warnings), ("oak", vec![]));
        if cfg!(feature = "people") {
            let (matches, _warned) = read_line(&["pool = \"oak\""], "plimsoll stats");
            assert!(matches.subcommand().unwrap().1.get_raw("pool").is_none());
        }
    }
}
