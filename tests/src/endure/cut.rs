//! Power cuts: only what reached the block device is there afterwards.
//!
//! The data directory lies on ext4 on a loop device. At a random moment the server is stopped (SIGSTOP) and the file behind
//! the device is copied, without a sync and without unmounting: what was only in the page cache of the file system is not in
//! it. The copy is the disk after the cut; the next round goes on with it. SIGKILL would prove nothing here, because the
//! page cache outlives a process.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::sync::watch;

use super::{
    Dice,
    agents::{self, Ledger, World},
};
use crate::{Programs, Server};

/// Size of the file system.
const DISK: &str = "512M";
/// Longest time between a server's start and the cut, milliseconds: up to the kernel's own write-back after 5 s.
const LIFE_MS: u64 = 3000;
/// Looks, a millisecond apart, at a server that is to stand still, before giving up: a minute.
const LOOKS: u32 = 60_000;

/// An ext4 file system in a file, mounted. Unmounted when this is dropped.
#[derive(Debug)]
pub struct Disk {
    image: PathBuf,
    device: String,
    mounted: PathBuf,
}

impl Disk {
    /// Makes a file system in a new file below `dir`.
    pub fn new(dir: &Path) -> anyhow::Result<Self> {
        let image = dir.join("disk-0");
        run(Command::new("truncate").args(["-s", DISK]).arg(&image))?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        Self::mount(image, dir)
    }

    fn mount(image: PathBuf, dir: &Path) -> anyhow::Result<Self> {
        let loops = ["--find", "--show", "--direct-io=on"];
        let device = run(Command::new("losetup").args(loops).arg(&image))?.trim().to_owned();
        let mounted = dir.join("mounted");
        fs::create_dir_all(&mounted)?;
        let disk = Self { image, device, mounted };
        run(Command::new("mount").arg(&disk.device).arg(&disk.mounted))?;
        Ok(disk)
    }

    /// The data directory on it.
    fn data(&self) -> PathBuf {
        self.mounted.join("data")
    }

    /// What is on the device at this moment, as a file.
    fn copy(&self, to: &Path) -> anyhow::Result<()> {
        run(Command::new("cp").arg("--sparse=always").arg(&self.image).arg(to)).map(drop)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // one that is not mounted, or not any more, needs nothing
        let _unmounted = run(Command::new("umount").arg(&self.mounted));
        let _detached = run(Command::new("losetup").arg("--detach").arg(&self.device));
        let _removed = fs::remove_file(&self.image);
    }
}

/// Cuts the power `rounds` times while `count` agents stream. Gives the number of samples that were checked after all cuts.
pub async fn power_cuts(
    programs: &Programs,
    dir: &Path,
    mut disk: Disk,
    (rounds, count): (u64, u64),
    dice: &mut Dice,
) -> anyhow::Result<u64> {
    let mut checked = 0;
    for round in 0..rounds {
        let copy = dir.join(format!("disk-{}", round + 1));
        let life = Duration::from_millis(dice.below(LIFE_MS));
        let ledger = run_until_cut(programs, &disk, &copy, (round, count), life).await?;
        drop(disk);
        disk = Disk::mount(copy, dir).with_context(|| format!("after cut {}", round + 1))?;
        let server = Server::start(programs, &disk.data());
        let server = server.with_context(|| format!("the store does not open after cut {}", round + 1))?;
        checked += agents::check(&server.url(), &ledger)
            .await
            .with_context(|| format!("after cut {}", round + 1))?;
        ensure!(server.stop()?.success(), "the server does not stop");
        run(Command::new(&programs.server).arg("verify").arg(disk.data()).env_clear())?;
    }
    Ok(checked)
}

/// Serves until the cut; gives what was acknowledged before it.
async fn run_until_cut(
    programs: &Programs,
    disk: &Disk,
    copy: &Path,
    (round, count): (u64, u64),
    life: Duration,
) -> anyhow::Result<Ledger> {
    let (place, places) = watch::channel(None);
    let (stop, stops) = watch::channel(false);
    let server = Server::start(programs, &disk.data())?;
    let agents = agents::start(count, round, &World::new(places, stops));
    place.send_replace(Some(server.url()));
    tokio::time::sleep(life).await;
    halt(server.pid())?;
    let copied = disk.copy(copy);
    place.send_replace(None);
    server.kill()?;
    stop.send_replace(true);
    copied?;
    // what the server sent before it was halted is still on its way: the agents have all of it when they end
    agents::ended(agents).await
}

/// Stops a process, and waits until it stands still.
fn halt(pid: u32) -> anyhow::Result<()> {
    kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGSTOP)?;
    for _look in 0..LOOKS {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let (_, fields) = stat.rsplit_once(") ").context("no command in stat")?;
        if fields.starts_with('T') {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    bail!("process {pid} does not stand still")
}

fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?} cannot be started"))?;
    if !output.status.success() {
        bail!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
