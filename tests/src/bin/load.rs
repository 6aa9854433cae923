//! A build that does what its arguments say, word after word: what the tests measure.
//!
//! `keep MIB` touches memory and holds it, `ramp MIB MS` does so in even steps over this time of work, `free` gives all of it back, `threads N` starts threads that sleep, `sleep MS`, `busy MS` of CPU time, `write MIB FILE`,
//! `read TIMES FILE`, `child WORD...` does the rest in a child process and ends as the child does, `apart PROGRAM...`
//! becomes a program in a cgroup and a mount namespace of its own.

use std::{
    env,
    fs::File,
    hint::black_box,
    io::{Read as _, Write as _},
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use nix::{
    mount::{MsFlags, mount, umount},
    sched::{CloneFlags, unshare},
};

/// Pieces in which files are written and read.
const PIECE_BYTES: usize = 64 << 10;
const PIECES_IN_MIB: usize = (1 << 20) / PIECE_BYTES;

fn main() -> anyhow::Result<ExitCode> {
    let mut words = env::args().skip(1);
    let mut held = Vec::new();
    while let Some(word) = words.next() {
        let mut next = || words.next().with_context(|| format!("{word} needs more words"));
        match word.as_str() {
            "keep" => held.push(touched(next()?.parse()?)),
            "ramp" => ramp(next()?.parse()?, next()?.parse()?, &mut held),
            "free" => held.clear(),
            "threads" => {
                for _thread in 0..next()?.parse::<u32>()? {
                    thread::spawn(|| thread::sleep(Duration::MAX));
                }
            }
            "sleep" => thread::sleep(Duration::from_millis(next()?.parse()?)),
            "busy" => busy(Duration::from_millis(next()?.parse()?)),
            "write" => write(next()?.parse()?, &next()?)?,
            "read" => read(next()?.parse()?, &next()?)?,
            "apart" => apart(&words.by_ref().collect::<Vec<_>>())?,
            "child" => {
                let status = Command::new(env::current_exe()?).args(words).status()?;
                return Ok(status.code().map_or(ExitCode::FAILURE, |code| {
                    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
                }));
            }
            other => bail!("{other} is not a word that is known here"),
        }
    }
    // until here, whatever the optimizer thinks of memory that is never read
    black_box(&held);
    Ok(ExitCode::SUCCESS)
}

/// Becomes a program that sees no group but its own, as in a container.
fn apart(command: &[String]) -> anyhow::Result<()> {
    unshare(CloneFlags::CLONE_NEWCGROUP | CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    umount("/sys/fs/cgroup")?;
    mount(Some("cgroup"), "/sys/fs/cgroup", Some("cgroup2"), MsFlags::empty(), none)?;
    let (program, arguments) = command.split_first().context("apart needs a program")?;
    Err(Command::new(program).args(arguments).exec().into())
}

/// Memory in which every page was written to.
fn touched(mib: usize) -> Vec<u8> {
    black_box(vec![1; mib << 20])
}

/// Works for so many milliseconds, with one MiB more after each step.
fn ramp(mib: u32, ms: u64, held: &mut Vec<Vec<u8>>) {
    for _step in 0..mib {
        held.push(touched(1));
        busy(Duration::from_millis(ms) / mib);
    }
}

fn busy(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        black_box(start);
    }
}

fn write(mib: usize, path: &str) -> anyhow::Result<()> {
    let mut file = File::create(path)?;
    let piece = vec![1; PIECE_BYTES];
    for _piece in 0..mib * PIECES_IN_MIB {
        file.write_all(&piece)?;
    }
    Ok(())
}

fn read(times: u32, path: &str) -> anyhow::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    for _time in 0..times {
        let mut file = File::open(path)?;
        while file.read(&mut piece)? > 0 {}
    }
    Ok(())
}
