//! What a virtual machine is made of: qemu, busybox and a kernel, from the packages of the machine's own Debian.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use nix::unistd::geteuid;

/// Depends on the newest kernel for virtual machines.
const KERNEL: &str = "linux-image-cloud-amd64";
/// Where cargo lets tests keep files.
const CACHE: &str = env!("CARGO_TARGET_TMPDIR");

#[derive(Debug)]
pub(crate) struct Packages {
    pub(crate) qemu: PathBuf,
    pub(crate) busybox: PathBuf,
    pub(crate) kernel: PathBuf,
}

impl Packages {
    /// Finds what is needed. What is missing is installed, if this is root on a Debian; the kernel is only unpacked, below
    /// `target`. Else the reason why not.
    pub(crate) fn find() -> Result<Self, String> {
        if env::consts::ARCH != "x86_64" {
            return Err(format!("there is no virtual machine for {} yet", env::consts::ARCH));
        }
        let programs = || Some((in_path("qemu-system-x86_64")?, in_path("busybox")?));
        if programs().is_none() {
            install(&["qemu-system-x86", "busybox-static"])?;
        }
        let (qemu, busybox) = programs().ok_or("qemu-system-x86_64 or busybox is not in PATH")?;
        Ok(Self { qemu, busybox, kernel: kernel()? })
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

fn install(names: &[&str]) -> Result<(), String> {
    if !geteuid().is_root() {
        return Err(format!("not installed: {} (as root this test installs them)", names.join(" ")));
    }
    update()?;
    let options = ["install", "-y", "--no-install-recommends"];
    run(Command::new("apt-get").args(options).args(names).env("DEBIAN_FRONTEND", "noninteractive"))?;
    Ok(())
}

fn update() -> Result<(), String> {
    run(Command::new("apt-get").args(["update", "-qq"])).map(drop)
}

/// A kernel, unpacked once.
fn kernel() -> Result<PathBuf, String> {
    let kept = Path::new(CACHE).join("vmlinuz");
    if kept.is_file() {
        return Ok(kept);
    }
    let place = tempfile::tempdir_in(CACHE).map_err(|error| error.to_string())?;
    if let Err(reason) = download(place.path()) {
        // lists of packages that are old name files that are gone
        if !geteuid().is_root() {
            return Err(reason);
        }
        update()?;
        download(place.path())?;
    }
    let package =
        file_in(place.path(), |name| name.starts_with("linux-image")).ok_or("apt-get left no package")?;
    run(Command::new("dpkg-deb").arg("-x").arg(package).arg(place.path()))?;
    let kernel = file_in(&place.path().join("boot"), |name| name.starts_with("vmlinuz"));
    let kernel = kernel.ok_or("the package holds no kernel")?;
    fs::rename(kernel, &kept).map_err(|error| error.to_string())?;
    Ok(kept)
}

fn download(place: &Path) -> Result<(), String> {
    let depends = run(Command::new("apt-cache").args(["depends", KERNEL]))?;
    let name = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let name = name.ok_or_else(|| format!("apt knows no package {KERNEL}"))?;
    run(Command::new("apt-get").args(["download", name]).current_dir(place)).map(drop)
}

fn file_in(dir: &Path, fits: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let mut files = fs::read_dir(dir).ok()?.flatten();
    files.find(|file| file.file_name().to_str().is_some_and(&fits)).map(|file| file.path())
}

/// What a program says, or why it has nothing to say.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
