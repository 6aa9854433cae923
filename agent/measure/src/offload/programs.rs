//! Recognizes programs that have their work done by a daemon, and the daemons, by the name of the program.
//!
//! The kernel keeps 15 characters of a name (`comm`). A program that runs under another name, such as a compiler that is a link to distcc,
//! is recognized by its file (`exe`), if that may be read.

use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
};

use crate::kernel;

/// A service that does work for builds: its daemon and its clients.
#[derive(Debug)]
pub(super) struct Service {
    /// Name of the service in reports.
    pub(super) name: &'static str,
    pub(super) clients: &'static [&'static str],
    pub(super) daemons: &'static [&'static str],
}

const fn service(
    name: &'static str,
    clients: &'static [&'static str],
    daemons: &'static [&'static str],
) -> Service {
    Service { name, clients, daemons }
}

/// All known services. If daemon and client are the same program, or the daemon is not known, the build's CPU time decides whether the work
/// is done here.
pub(super) const SERVICES: [Service; 26] = [
    service("docker", &["docker", "docker-compose", "docker-buildx", "finch"], &["dockerd", "buildkitd"]),
    service("podman", &["podman", "podman-remote"], &[]),
    service("buildkit", &["buildctl"], &["buildkitd"]),
    service("earthly", &["earthly", "earth"], &["buildkitd"]),
    service("dagger", &["dagger"], &["dagger-engine"]),
    service("containerd", &["nerdctl", "ctr", "crictl"], &["containerd"]),
    service("lxc", &["lxc", "lxc-attach", "lxc-execute", "lxc-start"], &["lxd"]),
    service("incus", &["incus"], &["incusd"]),
    service("systemd", &["systemd-run", "run0", "machinectl", "systemctl"], &["systemd"]),
    service("flatpak", &["flatpak-spawn", "host-spawn"], &[]),
    service(
        "virtual-machine",
        &["limactl", "colima", "multipass", "vagrant", "virsh", "VBoxManage", "prlctl", "tart", "adb"],
        &["qemu-system-x86_64", "qemu-system-aarch64", "VBoxHeadless", "libvirtd"],
    ),
    service(
        "nix",
        &["nix", "nix-build", "nix-shell", "nix-store", "nix-env", "nixos-rebuild"],
        &["nix-daemon"],
    ),
    service("guix", &["guix"], &["guix-daemon"]),
    service("ssh", &["ssh", "sshpass", "autossh", "mosh-client", "pdsh", "clush"], &["sshd", "sshd-session"]),
    service("bazel", &["bazel", "bazelisk", "bazel-real"], &[BAZEL_SERVER]),
    service("distcc", &["distcc"], &["distccd"]),
    service("icecc", &["icecc"], &["iceccd"]),
    service("sccache", &["sccache"], &[]),
    service(
        "remote-execution",
        &["buck2", "siso", "rewrapper", "gomacc", "recc", "FBuild", "fbuild", "mvnd"],
        &[],
    ),
    service("kubectl", &["kubectl", "oc", "helm", "skaffold", "tkn", "argo"], &["kubelet", "k3s-server"]),
    service("nomad", &["nomad"], &[]),
    service("slurm", &["srun", "salloc", "sbatch"], &["slurmd", "slurmstepd"]),
    service(
        "batch-scheduler",
        &["bsub", "qsub", "qrsh", "qlogin", "condor_run", "condor_wait", "flux", "oarsub", "jsrun", "aprun"],
        &["sge_execd", "pbs_mom", "condor_startd"],
    ),
    service("build-farm", &["copr-cli", "copr", "koji", "brew", "fedpkg", "osc", "fly", "flyctl"], &[]),
    service("terraform", &["terraform", "tofu", "pulumi", "packer"], &[]),
    service("ansible", &["ansible", "ansible-playbook"], &[]),
];

/// Programs that let `ssh` carry their data, and do the work of the build here: such an `ssh` does not lead it.
const SSH_CARRIES_FOR: [&str; 7] = ["git", "git-lfs", "rsync", "scp", "sftp", "hg", "svn"];
/// The option with which bazel's server has its work done elsewhere, although it runs among the build's processes.
const BAZEL_REMOTE: &str = "--remote_executor=";
/// Bytes of a process's name that the kernel keeps (`TASK_COMM_LEN` less the NUL).
const COMM_BYTES: usize = 15;
/// Start of the command line of bazel's server, `bazel(FOLDER)`: the program itself is Java.
const BAZEL_SERVER: &str = "bazel(";
/// Most processes that are examined, the first ones of the list: a build with more does its work itself.
pub(super) const MAX_PROCESSES: usize = 128;

/// The running processes of one service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Presence {
    /// Number of client processes.
    pub(super) clients: u32,
    /// Whether a daemon of the service is among the processes.
    pub(super) has_daemon: bool,
}

/// The running processes of each service, in the order of [`SERVICES`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServicePrograms(pub(super) [Presence; SERVICES.len()]);

impl ServicePrograms {
    /// Examines processes by their ids, in the folder `proc`. Processes that have ended, or that our pid namespace does not show, are
    /// skipped.
    pub fn among_processes(proc: &Path, pids: impl IntoIterator<Item = i32>) -> Self {
        let (mut found, mut java, mut bazel) = (Self::default(), Vec::new(), Vec::new());
        for pid in pids.into_iter().filter(|&pid| pid > 0).take(MAX_PROCESSES) {
            let folder = proc.join(pid.to_string());
            // the process may have ended meanwhile
            let Some(comm) = comm_of(&folder) else { continue };
            if comm == "ssh" && carries_data(proc, &folder) {
                continue;
            }
            if !found.count(&comm) && !found.count(&file_name(&folder)) && comm == "java" {
                java.push(folder);
            } else if comm.starts_with("bazel") {
                bazel.push(folder);
            }
        }
        // reading a command line may wait for the memory of its process, so it is read only if clients of bazel run
        let is_here =
            found.has_clients_of(BAZEL_SERVER) && !bazel.iter().any(|folder| works_elsewhere(folder));
        if is_here && java.iter().any(|folder| is_bazel(folder)) {
            found.count(BAZEL_SERVER);
        }
        found
    }

    /// Whether clients run of the service that has this daemon.
    fn has_clients_of(&self, daemon: &str) -> bool {
        let mut services = SERVICES.iter().zip(&self.0);
        services.any(|(service, presence)| service.daemons.contains(&daemon) && presence.clients > 0)
    }

    fn count(&mut self, name: &str) -> bool {
        let name = without_wrapper(name);
        let is = |program: &&str| *program == name || (name.len() == COMM_BYTES && program.starts_with(name));
        let mut is_known = false;
        for (service, presence) in SERVICES.iter().zip(&mut self.0) {
            let (is_client, is_daemon) = (service.clients.iter().any(is), service.daemons.iter().any(is));
            presence.clients += u32::from(is_client);
            presence.has_daemon |= is_daemon;
            is_known |= is_client || is_daemon;
        }
        is_known
    }
}

/// The name of a process; `None` if it has ended.
fn comm_of(folder: &Path) -> Option<String> {
    Some(kernel::read(&folder.join("comm")).ok()??.trim_end().to_owned())
}

/// The name of a program in the names that wrappers of nix and guix give it: `.nix-build-wrapped`, `.guix-real`.
fn without_wrapper(name: &str) -> &str {
    let Some(name) = name.strip_prefix('.') else { return name };
    name.split_once("-wrap").or_else(|| name.split_once("-real")).map_or(name, |(name, _)| name)
}

/// Whether a process of `ssh` carries the data of its parent.
fn carries_data(proc: &Path, folder: &Path) -> bool {
    let stat = kernel::read(&folder.join("stat")).ok().flatten().unwrap_or_default();
    let parent = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(1));
    let parent = parent.and_then(|parent| comm_of(&proc.join(parent)));
    parent.is_some_and(|name| SSH_CARRIES_FOR.contains(&&*name))
}

/// Whether a client of bazel names a service that does its work.
fn works_elsewhere(folder: &Path) -> bool {
    let line = kernel::read(&folder.join("cmdline")).ok().flatten().unwrap_or_default();
    line.split('\0')
        .any(|argument| argument.strip_prefix(BAZEL_REMOTE).is_some_and(|service| !service.is_empty()))
}

/// The name of the file that a program runs from; empty if it may not be read.
fn file_name(folder: &Path) -> String {
    let file = fs::read_link(folder.join("exe")).unwrap_or_default();
    file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whether a process, by its folder in `/proc`, is bazel's server.
pub(crate) fn is_bazel(folder: &Path) -> bool {
    let mut start = [0; BAZEL_SERVER.len()];
    let read = File::open(folder.join("cmdline")).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *BAZEL_SERVER.as_bytes()
}
