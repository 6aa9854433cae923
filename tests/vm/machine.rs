//! One boot of a virtual machine, from its first file system to what it told.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use plimsoll_tests::Programs;

use crate::{archive::Archive, packages::Packages};

/// Between two looks whether the machine has ended.
const PAUSE: Duration = Duration::from_millis(100);
/// Looks before it is given up: half an hour. It takes two minutes on an idle machine.
const LOOKS: u32 = 18_000;
/// Small, so that the scenario which uses up all of it is short.
const MEMORY: &str = "768M";
const DISK_BYTES: u64 = 1 << 30;

/// Boots, and returns what the scenarios told.
pub(crate) fn boot(packages: &Packages) -> String {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    first_files(packages, &place("initrd"));
    File::create(place("disk")).unwrap().set_len(DISK_BYTES).unwrap();
    let disk = format!("file={},format=raw,if=none,id=disk,cache=unsafe", place("disk").display());
    let (console, report) = (place("console"), place("told"));
    let mut qemu = Command::new(&packages.qemu);
    // Time in the machine is counted in instructions, and a machine that waits skips to the next timer: whatever else this
    // host does, everything in there happens at the same moments.
    qemu.args(["-accel", "tcg", "-icount", "shift=0,sleep=off"]);
    // without these two a page is cleared byte by byte, which an emulator does slowly
    qemu.args(["-cpu", "max,-erms,-fsrm", "-m", MEMORY, "-nodefaults", "-display", "none", "-no-reboot"]);
    qemu.arg("-kernel").arg(&packages.kernel).arg("-initrd").arg(place("initrd"));
    qemu.args(["-append", "console=ttyS0 quiet loglevel=4 panic=-1 psi=1"]);
    qemu.arg("-drive").arg(disk).args(["-device", "nvme,serial=disk,drive=disk"]);
    for file in [&console, &report] {
        qemu.arg("-serial").arg(format!("file:{}", file.display()));
    }
    let child = qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap();
    let ended = end(child);
    // whatever was on the lines
    let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let report = read(&report);
    assert!(ended && report.contains("@done"), "the machine did not end:\n{report}\n{}", read(&console));
    report
}

/// Waits for the end of a child, and ends it if that takes too long.
fn end(mut child: Child) -> bool {
    for _look in 0..LOOKS {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        thread::sleep(PAUSE);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    false
}

/// The programs, with the libraries that they need, and the scripts.
fn first_files(packages: &Packages, path: &Path) {
    let built = Programs::for_tests();
    let mut archive = Archive::default();
    archive.program("/init", include_bytes!("guest/init.sh"));
    archive.program("/scenarios.sh", include_bytes!("guest/scenarios.sh"));
    let mut libraries: Vec<PathBuf> = Vec::new();
    for (name, file) in [
        ("/bin/busybox", packages.busybox.as_path()),
        ("/bin/plimsoll", &built.agent),
        ("/bin/plimsoll-server", &built.server),
        ("/bin/load", Path::new(env!("CARGO_BIN_EXE_load"))),
    ] {
        archive.program(name, &stripped(file));
        libraries.extend(libraries_of(file));
    }
    libraries.sort();
    libraries.dedup();
    for library in libraries {
        archive.program(library.to_str().unwrap(), &fs::read(&library).unwrap());
    }
    archive.write(path).unwrap();
}

/// A program without its symbols, which are most of it; with them if there is no `strip`.
fn stripped(file: &Path) -> Vec<u8> {
    let small = tempfile::NamedTempFile::new().unwrap();
    let strip = Command::new("strip").arg("-o").arg(small.path()).arg(file).stderr(Stdio::null()).status();
    let source = if strip.is_ok_and(|status| status.success()) { small.path() } else { file };
    fs::read(source).unwrap()
}

/// The libraries of a program, the loader included: the absolute paths that `ldd` names. A static program has none.
fn libraries_of(file: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}
