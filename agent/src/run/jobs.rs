//! How a command is told how many jobs to run at once: `{jobs}` in its words, or the variables that build tools read.
//!
//! A number on a command line wins over a variable, so a command that has one cannot be told otherwise, except by `{jobs}`.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    thread::available_parallelism,
};

use memchr::memmem;

use crate::key;

/// Stands for the number in the command.
const PLACEHOLDER: &[u8] = b"{jobs}";
/// Variables that hold the number and nothing else: Spack, `cmake --build`, cargo.
const PLAIN: [&str; 3] = ["SPACK_BUILD_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL", "CARGO_BUILD_JOBS"];
/// Options of make for the number of jobs, and for the jobserver that an outer make has for it.
const OF_MAKE: [&str; 4] = ["--jobs", "--jobserver-auth", "--jobserver-fds", "-j"];

/// How many jobs a command runs, and how it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Jobs {
    command: Vec<OsString>,
    has_placeholder: bool,
    /// What its words say.
    in_words: Option<u32>,
    make_flags: String,
    /// In force; `None` if nobody knows.
    now: Option<u32>,
    /// Another number than the one that was found.
    changed: bool,
}

impl Jobs {
    /// Reads a command. `known` is what else is known of its number of jobs, `make_flags` is `MAKEFLAGS`.
    pub(super) fn of(command: &[OsString], known: Option<u32>, make_flags: &str) -> Self {
        let has_placeholder = command.iter().any(|word| replace(word, 1) != *word);
        let words = command.iter().skip(1).filter_map(|word| word.to_str());
        let machine = || available_parallelism().ok().and_then(|cores| u32::try_from(cores.get()).ok());
        let now = if has_placeholder { known.or_else(machine).or(Some(1)) } else { known };
        Self {
            command: command.to_vec(),
            has_placeholder,
            in_words: key::jobs_flag(words),
            make_flags: make_flags.to_owned(),
            now,
            changed: false,
        }
    }

    /// A command that is never told otherwise: every word of it is its own.
    pub(super) fn as_it_is(command: &[OsString]) -> Self {
        Self {
            command: command.to_vec(),
            has_placeholder: false,
            in_words: None,
            make_flags: String::new(),
            now: None,
            changed: false,
        }
    }

    /// In force; `None` if nobody knows.
    pub(super) fn now(&self) -> Option<u32> {
        self.now
    }

    /// Why it cannot be told another number, if it cannot.
    pub(super) fn fixed(&self) -> Option<String> {
        let own = self.in_words.filter(|_| !self.has_placeholder)?;
        Some(format!("the command says -j{own} itself; write {{jobs}} in place of the number"))
    }

    /// From now on so many.
    pub(super) fn set(&mut self, jobs: u32) {
        (self.now, self.changed) = (Some(jobs), true);
    }

    /// The words of the command.
    pub(super) fn command(&self) -> Vec<OsString> {
        match self.now {
            Some(jobs) if self.has_placeholder => {
                self.command.iter().map(|word| replace(word, jobs)).collect()
            }
            _ => self.command.clone(),
        }
    }

    /// Variables that the command gets in place of those of the agent. Nothing, as long as the number is the one that was found.
    pub(super) fn variables(&self) -> Vec<(OsString, OsString)> {
        let Some(jobs) = self.now.filter(|_| self.changed) else { return Vec::new() };
        let plain = PLAIN.map(|name| (OsString::from(name), OsString::from(jobs.to_string())));
        let make = (OsString::from("MAKEFLAGS"), OsString::from(merged(&self.make_flags, jobs)));
        plain.into_iter().chain([make]).collect()
    }
}

/// The word with the number where the placeholder is. `${jobs}` is a shell's variable, and stays.
fn replace(word: &OsStr, jobs: u32) -> OsString {
    let bytes = word.as_bytes();
    let (mut replaced, mut from) = (Vec::with_capacity(bytes.len()), 0);
    for at in memmem::find_iter(bytes, PLACEHOLDER) {
        let before = bytes.get(from..at).unwrap_or_default();
        if before.last() == Some(&b'$') {
            continue;
        }
        replaced.extend_from_slice(before);
        replaced.extend_from_slice(jobs.to_string().as_bytes());
        from = at.saturating_add(PLACEHOLDER.len());
    }
    replaced.extend_from_slice(bytes.get(from..).unwrap_or_default());
    OsString::from_vec(replaced)
}

/// `MAKEFLAGS` with this number of jobs in place of any other. Its first word may be letters of options without a dash, and stays the
/// first; what follows `--` are variables of make, and stays as it is.
fn merged(flags: &str, jobs: u32) -> String {
    let (options, variables) = match flags.split_once(" -- ") {
        Some((options, variables)) => (options, format!(" -- {variables}")),
        None => (flags, String::new()),
    };
    let mut words = options.split_whitespace().peekable();
    let mut kept: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        if !is_of_jobs(word) {
            kept.push(word);
        } else if matches!(word, "-j" | "--jobs") {
            words.next_if(|next| next.bytes().all(|byte| byte.is_ascii_digit()));
        }
    }
    let number = format!("-j{jobs}");
    kept.push(&number);
    // letters alone, without a dash, are options only at the very beginning
    let space = if options.starts_with(' ') { " " } else { "" };
    format!("{space}{}{variables}", kept.join(" "))
}

fn is_of_jobs(word: &str) -> bool {
    let mut own = OF_MAKE.iter().filter_map(|option| word.strip_prefix(option).map(|rest| (option, rest)));
    own.any(|(option, rest)| match *option {
        "-j" => rest.bytes().all(|byte| byte.is_ascii_digit()),
        _long => rest.is_empty() || rest.starts_with('='),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(words: &[&str], known: Option<u32>, make_flags: &str) -> Jobs {
        let command: Vec<OsString> = words.iter().map(OsString::from).collect();
        Jobs::of(&command, known, make_flags)
    }

    #[test]
    fn the_placeholder_becomes_the_number_from_the_first_try_on() {
        let mut jobs = jobs(&["make", "-j{jobs}", "x{jobs}y{jobs}", "echo ${jobs}"], Some(6), "");
        assert_eq!(jobs.command(), ["make", "-j6", "x6y6", "echo ${jobs}"]);
        assert_eq!((jobs.now(), jobs.fixed(), jobs.variables()), (Some(6), None, Vec::new()));
        jobs.set(2);
        assert_eq!(jobs.command(), ["make", "-j2", "x2y2", "echo ${jobs}"]);
    }

    #[test]
    fn a_number_that_nobody_knows_is_that_of_the_machine_where_it_must_be_said() {
        assert!(jobs(&["make", "-j", "{jobs}"], None, "").now().is_some_and(|jobs| jobs > 0));
        assert_eq!(jobs(&["make"], None, "").now(), None);
    }

    #[test]
    fn a_command_is_left_as_it_is_until_the_number_changes() {
        let mut jobs = jobs(&["spack", "install"], Some(8), "w -j8 --jobserver-auth=3,4 -- A=b  c");
        assert_eq!((jobs.command(), jobs.variables().len()), (vec!["spack".into(), "install".into()], 0));
        jobs.set(3);
        let said = jobs.variables();
        let said: Vec<_> = said.iter().map(|(n, v)| (n.to_str().unwrap(), v.to_str().unwrap())).collect();
        let expected = [
            ("SPACK_BUILD_JOBS", "3"),
            ("CMAKE_BUILD_PARALLEL_LEVEL", "3"),
            ("CARGO_BUILD_JOBS", "3"),
            ("MAKEFLAGS", "w -j3 -- A=b  c"),
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn the_flags_of_make_keep_everything_but_the_jobs() {
        for (flags, expected) in [
            ("", "-j2"),
            ("-j8", "-j2"),
            ("--jobs=8 -k", "-k -j2"),
            ("-j 8 -k", "-k -j2"),
            ("--jobs 8 -k", "-k -j2"),
            ("ks", "ks -j2"),
            (" -j -l4", " -l4 -j2"),
            (" --jobserver-fds=3,4 -j --no-print-directory", " --no-print-directory -j2"),
            ("-j4 CFLAGS=-O2", "CFLAGS=-O2 -j2"),
            ("--jobserver-style=fifo", "--jobserver-style=fifo -j2"),
        ] {
            assert_eq!(merged(flags, 2), expected, "{flags:?}");
        }
    }

    #[test]
    fn a_number_in_the_words_of_the_command_cannot_be_changed() {
        let fixed = jobs(&["make", "-j8"], Some(8), "").fixed().unwrap();
        assert!(fixed.contains("-j8") && fixed.contains("{jobs}"), "{fixed}");
        assert_eq!(jobs(&["make"], Some(8), "").fixed(), None);
        assert_eq!(jobs(&["make", "-j{jobs}"], Some(8), "").fixed(), None);
    }
}
