//! Runs the build in place of the agent, unmeasured, if the agent cannot set itself up.
//!
//! | missing | found by |
//! |---|---|
//! | stack, address space, open files | [`preflight`], because there is no error to catch later |
//! | a system call that tokio cannot do without | the panic hook, because tokio panics |
//! | signals, a process for the build | an error of the function that needs it |

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt as _,
    panic,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

use nix::{
    errno::Errno,
    sys::signal::SigSet,
    unistd::{AccessFlags, eaccess},
};
use rustix::{
    event::{EventfdFlags, eventfd},
    process::{Resource, getrlimit},
};

use super::make_jobs::BuildJobs;
use crate::{key::TOKEN_VARIABLE, standard_error::write_line};

/// Stack that the agent needs, bytes. Measured: 160 KiB without a server; the rest is for TLS.
const STACK_BYTES: u64 = 512 << 10;
/// Address space that the agent needs, bytes. Measured: 20 MiB; the rest is for threads.
const ADDRESS_SPACE_BYTES: u64 = 48 << 20;
/// Open files that the agent needs beside those that it was started with. Measured, with the output read.
const OPEN_FILES: usize = 14;
/// Where programs are looked for without `PATH` (glibc's `confstr`).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Whether the build runs, so that a panic must not start it once more.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Notes that the build runs.
pub(super) fn note_start() {
    STARTED.store(true, Ordering::Relaxed);
}

/// What the agent lacks to run at all; `None` if nothing.
fn preflight() -> Option<String> {
    let short = |resource, least| getrlimit(resource).current.filter(|most| *most < least);
    if let Some(stack) = short(Resource::Stack, STACK_BYTES) {
        return Some(format!("its stack is limited to {} KiB", stack >> 10));
    }
    if let Some(space) = short(Resource::As, ADDRESS_SPACE_BYTES) {
        return Some(format!("its memory is limited to {} KiB", space >> 10));
    }
    let files: Result<Vec<_>, _> = (0..OPEN_FILES).map(|_file| eventfd(0, EventfdFlags::CLOEXEC)).collect();
    files.err().map(|error| format!("cannot open {OPEN_FILES} files: {}", io::Error::from(error)))
}

/// Runs the command of `plimsoll run` in place of this process, if the agent lacks something or panics before the
/// build runs. Returns the exit code if the command cannot be run, and `None` if the agent can begin.
pub(crate) fn guard(arguments: impl Iterator<Item = OsString>) -> Option<u8> {
    let command = command_of(arguments)?;
    let same = command.clone();
    let original = SigSet::thread_get_mask().ok();
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |problem| {
        if STARTED.swap(true, Ordering::Relaxed) {
            usual(problem);
        } else {
            if let Some(mask) = original {
                let _blocked = mask.thread_set_mask();
            }
            end_without_agent(&command, problem.payload_as_str().unwrap_or("a bug"));
        }
    }));
    preflight().map(|why| run_instead(&same, &why))
}

#[expect(clippy::exit, reason = "the panic must not end the process in another way")]
fn end_without_agent(command: &[OsString], why: &str) -> ! {
    std::process::exit(run_instead(command, why).into());
}

/// Runs the command of `plimsoll run` in place of this process. Returns the exit code if that fails, and `None` if the
/// arguments are those of another command.
pub(crate) fn run_without_agent(arguments: impl Iterator<Item = OsString>, why: &io::Error) -> Option<u8> {
    Some(run_instead(&command_of(arguments)?, &why.to_string()))
}

/// The command in the arguments of `plimsoll run`; `None` if they are those of another command.
fn command_of(arguments: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    let arguments: Vec<OsString> = arguments.collect();
    let at = arguments.iter().position(|word| word == "--")?;
    let (options, command) = arguments.split_at_checked(at)?;
    let retries = options.iter().any(|word| word.as_encoded_bytes().starts_with(b"--retry-in-place"));
    let mut words = options.iter().skip(1);
    while let Some(word) = words.next() {
        if !word.as_encoded_bytes().starts_with(b"--") {
            let command = command.get(1..).filter(|command| word == "run" && !command.is_empty())?;
            let with_jobs = || BuildJobs::of(command, None, "").command();
            return Some(if retries { with_jobs() } else { command.to_vec() });
        }
        if !word.as_encoded_bytes().contains(&b'=') {
            words.next();
        }
    }
    None
}

/// Runs a command in place of this process, and says why. Returns the exit code if the command cannot be run.
pub(super) fn run_instead(command: &[OsString], why: &str) -> u8 {
    write_line(&format!("plimsoll: the build runs without being measured: {why}"));
    let Some(name) = command.first() else { return 127 };
    let execute = |command: &[OsString]| {
        let mut words = command.iter();
        Command::new(words.next().unwrap_or(name)).args(words).env_remove(TOKEN_VARIABLE).exec()
    };
    let mut error = execute(command);
    if error.raw_os_error() == Some(nix::libc::ENOEXEC) {
        error = execute(&under_shell(command));
    }
    write_line(&format!("plimsoll: cannot run '{}': {error}", name.display()));
    exit_code_of(Errno::from_raw(error.raw_os_error().unwrap_or(0)))
}

/// The exit code for a command that could not be started, as a shell reports it.
pub(super) fn exit_code_of(error: Errno) -> u8 {
    if error == Errno::ENOENT { 127 } else { 126 }
}

/// The shell that runs scripts without a `#!` line.
pub(super) const SHELL: &str = "/bin/sh";

/// The command as `execvp` executes it if the kernel found no format in its file: the shell runs a script without a `#!` line.
pub(super) fn under_shell(command: &[OsString]) -> Vec<OsString> {
    let file = command.first().map(|name| script_path(name).into_os_string());
    std::iter::once(SHELL.into()).chain(file).chain(command.iter().skip(1).cloned()).collect()
}

/// The file that `execvp` executes for this name.
fn script_path(name: &OsStr) -> PathBuf {
    if name.as_encoded_bytes().contains(&b'/') {
        return name.into();
    }
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let is_executed = |file: &PathBuf| file.is_file() && eaccess(file, AccessFlags::X_OK).is_ok();
    // an empty entry is the current directory
    let found = env::split_paths(&path).map(|entry| entry.join(name)).find(is_executed);
    found.unwrap_or_else(|| Path::new(name).to_owned())
}
