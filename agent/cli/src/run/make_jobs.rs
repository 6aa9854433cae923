//! Sets how many parallel jobs a command runs: through `{jobs}` in its words, or through variables that build
//! tools read.
//!
//! A number in the command's words takes precedence over a variable. So the number of such a command cannot be
//! changed, unless it is written as `{jobs}`. The same holds for a script in the words (`sh -c 'make -j8'`).
//! Commands that cannot be examined, for example scripts in files, get the variables; whether they use them is
//! unknown.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
};

use memchr::memmem;

use crate::key;

/// Text in a command that is replaced by the number of jobs.
const JOBS_PLACEHOLDER: &[u8] = b"{jobs}";
/// Variables that have only the number: of Spack, `cmake --build` and cargo.
const NUMBER_VARIABLES: [&str; 3] = ["SPACK_BUILD_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL", "CARGO_BUILD_JOBS"];
/// Tools that read the number of jobs from [`NUMBER_VARIABLES`] or from `MAKEFLAGS`.
const OBEYING_TOOLS: [&str; 5] = ["make", "gmake", "cmake", "cargo", "spack"];
/// Tools that read the number of jobs only from their command line.
const OPTION_ONLY_TOOLS: [&str; 6] = ["ninja", "samu", "meson", "bazel", "bazelisk", "scons"];
/// Characters that end a word in a shell script, besides spaces.
const WORD_ENDS: &str = ";&|()<>`'\"";
/// Options of make for the number of jobs, and for its jobserver, with which an outer make shares out the jobs.
const MAKE_OPTIONS: [&str; 4] = ["--jobs", "--jobserver-auth", "--jobserver-fds", "-j"];

/// The number of jobs of a command, and how to change it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BuildJobs {
    command: Vec<OsString>,
    has_placeholder: bool,
    /// Why the number of jobs cannot be changed; `None` if it can.
    unchangeable: Option<String>,
    /// Whether the command runs a tool that reads the variables with the number.
    reads_variables: bool,
    make_flags: String,
    /// The current number of jobs; `None` if unknown.
    current: Option<u32>,
    /// Whether the number is no longer the original one.
    is_changed: bool,
}

impl BuildJobs {
    /// Examines a command. `known` is its number of jobs from other sources, `make_flags` is the value of
    /// `MAKEFLAGS`.
    pub(super) fn of(command: &[OsString], known: Option<u32>, make_flags: &str) -> Self {
        let has_placeholder = command.iter().any(|word| replace_placeholder(word, 1) != *word);
        let words: Vec<&str> =
            command.iter().filter_map(|word| word.to_str()).flat_map(split_words).collect();
        let now = if has_placeholder { known.or_else(key::processors).or(Some(1)) } else { known };
        Self {
            command: command.to_vec(),
            has_placeholder,
            unchangeable: unchangeable_reason(&words)
                .or_else(|| fixed_in_rpm(command))
                .filter(|_| !has_placeholder),
            reads_variables: words.iter().any(|word| OBEYING_TOOLS.contains(&name(word))),
            make_flags: make_flags.to_owned(),
            current: now,
            is_changed: false,
        }
    }

    /// A command that keeps its number of jobs.
    pub(super) fn as_it_is(command: &[OsString]) -> Self {
        Self { command: command.to_vec(), ..Self::default() }
    }

    /// The current number of jobs; `None` if unknown.
    pub(super) fn current(&self) -> Option<u32> {
        self.current
    }

    /// The number of jobs that the command certainly uses: the original one, or one set in a way that the
    /// command respects. `None` if that is not certain.
    pub(super) fn certain_number(&self) -> Option<u32> {
        self.current.filter(|_| !self.is_changed || self.has_placeholder || self.reads_variables)
    }

    /// Why the command cannot get another number of jobs; `None` if it can.
    pub(super) fn unchangeable(&self) -> Option<String> {
        self.unchangeable.clone()
    }

    /// Sets the number of jobs from now on.
    pub(super) fn set(&mut self, jobs: u32) {
        (self.current, self.is_changed) = (Some(jobs), true);
    }

    /// The words of the command, with the current number of jobs.
    pub(super) fn command(&self) -> Vec<OsString> {
        match self.current {
            Some(jobs) if self.has_placeholder => {
                self.command.iter().map(|word| replace_placeholder(word, jobs)).collect()
            }
            _ => self.command.clone(),
        }
    }

    /// Variables that replace those of the agent's environment for the next try. Empty while the number of jobs is the original one.
    pub(super) fn variables(&self) -> Vec<(OsString, OsString)> {
        let Some(jobs) = self.current.filter(|_| self.is_changed) else { return Vec::new() };
        let plain = NUMBER_VARIABLES.map(|name| (OsString::from(name), OsString::from(jobs.to_string())));
        let make = (OsString::from("MAKEFLAGS"), OsString::from(with_jobs(&self.make_flags, jobs)));
        plain.into_iter().chain([make]).collect()
    }
}

/// Splits a word into the words of a script, because it may be one.
fn split_words(word: &str) -> impl Iterator<Item = &str> {
    word.split(|c: char| c.is_whitespace() || WORD_ENDS.contains(c)).filter(|word| !word.is_empty())
}

/// The last part of a path: the name of a program.
fn name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Why the number of jobs in these words cannot be changed; `None` if it can.
fn unchangeable_reason(words: &[&str]) -> Option<String> {
    if let Some(at) = words.iter().position(|word| sets_jobs(word)) {
        let (word, next) = (words.get(at)?, words.get(at.saturating_add(1)));
        let number =
            next.filter(|next| is_separate_option(word) && next.bytes().all(|byte| byte.is_ascii_digit()));
        let own = number.map_or_else(|| (*word).to_owned(), |number| format!("{word} {number}"));
        return Some(format!("the command says {own} itself; write {{jobs}} in place of the number"));
    }
    let deaf = words.iter().map(|word| name(word)).find(|name| OPTION_ONLY_TOOLS.contains(name))?;
    Some(format!("{deaf} reads its number of jobs from the command alone; write -j{{jobs}} there"))
}

/// Why the number of jobs of a command that builds RPMs cannot be changed: RPM reads it from a macro.
fn fixed_in_rpm(command: &[OsString]) -> Option<String> {
    let program = key::rpm_program(command)?;
    Some(format!("{program} reads its number of jobs from a macro; write --define '_smp_mflags -j{{jobs}}'"))
}

/// Whether a word sets the number of jobs: `-j8`, `-kj8`, `--jobs=8`, `-j` alone, or `-j$(nproc)`. A variable
/// (`-j$SPACK_BUILD_JOBS`) does not count, because the agent can set it.
fn sets_jobs(word: &str) -> bool {
    if is_separate_option(word) {
        return true;
    }
    let short =
        word.strip_prefix('-').filter(|rest| !rest.starts_with('-')).and_then(|rest| rest.split_once('j'));
    let cluster = short.filter(|(before, _)| before.bytes().all(|byte| byte.is_ascii_alphabetic()));
    let long = ["--jobs=", "--parallel="].into_iter().find_map(|option| word.strip_prefix(option));
    let value = long.or_else(|| Some(cluster?.1));
    value.is_some_and(|value| match value.strip_prefix('$') {
        Some(variable) => !NUMBER_VARIABLES.contains(&variable.trim_matches(['{', '}'])),
        None => key::jobs_flag(std::iter::once(format!("-j{value}").as_str())).is_some(),
    })
}

/// Whether the word is an option for the number of jobs that has the number in the next word, as in `-j 8`.
fn is_separate_option(word: &str) -> bool {
    matches!(word, "-j" | "--jobs" | "--parallel")
}

/// A word of the command with `{jobs}` replaced by the number. `${jobs}` is a variable of the shell, and stays.
fn replace_placeholder(word: &OsStr, jobs: u32) -> OsString {
    let bytes = word.as_bytes();
    let (mut replaced, mut from) = (Vec::with_capacity(bytes.len()), 0);
    for at in memmem::find_iter(bytes, JOBS_PLACEHOLDER) {
        let before = bytes.get(from..at).unwrap_or_default();
        if before.last() == Some(&b'$') {
            continue;
        }
        replaced.extend_from_slice(before);
        replaced.extend_from_slice(jobs.to_string().as_bytes());
        from = at.saturating_add(JOBS_PLACEHOLDER.len());
    }
    replaced.extend_from_slice(bytes.get(from..).unwrap_or_default());
    OsString::from_vec(replaced)
}

/// `MAKEFLAGS` with this number of jobs in place of any other. Its first word may be letters of options without
/// a dash, and stays the first; variables of make after `--` do not change.
fn with_jobs(flags: &str, jobs: u32) -> String {
    let (options, variables) = match flags.split_once(" -- ") {
        Some((options, variables)) => (options, format!(" -- {variables}")),
        None => (flags, String::new()),
    };
    let mut words = options.split_whitespace().peekable();
    let mut kept: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        if !is_jobs_option(word) {
            kept.push(word);
        } else if matches!(word, "-j" | "--jobs") {
            words.next_if(|next| next.bytes().all(|byte| byte.is_ascii_digit()));
        }
    }
    let number = format!("-j{jobs}");
    kept.push(&number);
    // make reads letters without a dash as options only at the very start of the text
    let space = if options.starts_with(' ') { " " } else { "" };
    format!("{space}{}{variables}", kept.join(" "))
}

fn is_jobs_option(word: &str) -> bool {
    let mut own =
        MAKE_OPTIONS.iter().filter_map(|option| word.strip_prefix(option).map(|rest| (option, rest)));
    own.any(|(option, rest)| match *option {
        "-j" => rest.bytes().all(|byte| byte.is_ascii_digit()),
        _long => rest.is_empty() || rest.starts_with('='),
    })
}

#[cfg(test)]
mod tests;
