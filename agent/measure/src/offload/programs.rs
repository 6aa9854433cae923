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
    clients: &'static [&'static str],
    daemons: &'static [&'static str],
}

const fn service(
    name: &'static str,
    clients: &'static [&'static str],
    daemons: &'static [&'static str],
) -> Service {
    Service { name, clients, daemons }
}

/// All known services. If daemon and client are the same program, the build's CPU time decides whether the work is done here.
pub(super) const SERVICES: [Service; 8] = [
    service("docker", &["docker", "docker-compose", "docker-buildx"], &["dockerd", "buildkitd"]),
    service("podman", &["podman", "podman-remote"], &[]),
    service("buildkit", &["buildctl"], &["buildkitd"]),
    service("containerd", &["nerdctl"], &["containerd"]),
    service("bazel", &["bazel", "bazelisk", "bazel-real"], &[BAZEL_SERVER]),
    service("distcc", &["distcc"], &["distccd"]),
    service("icecc", &["icecc"], &["iceccd"]),
    service("kubectl", &["kubectl", "oc"], &["kubelet", "k3s-server"]),
];

/// Start of the command line of bazel's server, `bazel(FOLDER)`: the program itself is Java.
const BAZEL_SERVER: &str = "bazel(";
/// Most processes that are examined, the first ones of the list: a build with more does its work itself.
const MAX_PROCESSES: usize = 128;

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
        let (mut found, mut java) = (Self::default(), Vec::new());
        for pid in pids.into_iter().filter(|&pid| pid > 0).take(MAX_PROCESSES) {
            let folder = proc.join(pid.to_string());
            // the process may have ended meanwhile
            let Some(comm) = kernel::read(&folder.join("comm")).ok().flatten() else { continue };
            let comm = comm.trim_end();
            if !found.count(comm) && !found.count(&file_name(&folder)) && comm == "java" {
                java.push(folder);
            }
        }
        // reading a command line may wait for the memory of its process, so it is read only if clients of bazel run
        if found.has_clients_of(BAZEL_SERVER) && java.iter().any(|folder| is_bazel(folder)) {
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
        let mut is_known = false;
        for (service, presence) in SERVICES.iter().zip(&mut self.0) {
            let (is_client, is_daemon) = (service.clients.contains(&name), service.daemons.contains(&name));
            presence.clients += u32::from(is_client);
            presence.has_daemon |= is_daemon;
            is_known |= is_client || is_daemon;
        }
        is_known
    }
}

/// The name of the file that a program runs from; empty if it may not be read.
fn file_name(folder: &Path) -> String {
    let file = fs::read_link(folder.join("exe")).unwrap_or_default();
    file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn is_bazel(folder: &Path) -> bool {
    let mut start = [0; BAZEL_SERVER.len()];
    let read = File::open(folder.join("cmdline")).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *BAZEL_SERVER.as_bytes()
}
