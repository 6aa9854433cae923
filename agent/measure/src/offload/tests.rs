//! Builds as they look from outside, on a kernel of text files.

use std::{
    os::{
        fd::AsFd,
        unix::{
            fs::symlink,
            net::{UnixDatagram, UnixListener, UnixStream},
        },
    },
    path::PathBuf,
};

use plimsoll_proto::{measured, v1::Summary};

use super::{connections::reach_outside, *};
use crate::fake_kernel::FakeKernel;

const SECOND: Duration = Duration::from_secs(1);

/// Looks once a second at a build of `seconds`; `at` says which programs run, and the CPU time of that second in milliseconds.
fn watched(seconds: u64, at: impl Fn(u64) -> (&'static [&'static str], u64)) -> Option<&'static str> {
    let fake = FakeKernel::new();
    let mut watch = OffloadWatch::new(8);
    let mut cpu_usec = 0;
    for second in 1..=seconds {
        let (programs, cpu_ms) = at(second);
        let pids = (1..).zip(programs).map(|(pid, name)| {
            fake.write(&format!("/proc/{pid}/comm"), &format!("{name}\n"));
            pid
        });
        let found = ServicePrograms::among_processes(&fake.kernel().path("/proc"), pids.collect::<Vec<_>>());
        cpu_usec += cpu_ms * 1000;
        let now = Duration::from_secs(second);
        if watch.is_due(now) {
            watch.add(now, cpu_usec, &found, Duration::ZERO);
        }
    }
    watch.service(watch.last, cpu_usec)
}

#[test]
fn waiting_for_a_remote_client_is_offloading() {
    for (programs, service) in [
        (&["sh", "docker", "docker-buildx"][..], "docker"),
        (&["sh", "podman"], "podman"),
        (&["buildctl"], "buildkit"),
        (&["bazel"], "bazel"),
        (&["make", "distcc", "distcc", "distcc", "distcc"], "distcc"),
        (&["kubectl"], "kubectl"),
        (&["nix-build"], "nix"),
        (&[".guix-real"], "guix"),
        (&["ssh"], "ssh"),
        (&["earthly"], "earthly"),
        (&["systemd-run"], "systemd"),
        (&["ansible-playboo"], "ansible"),
    ] {
        assert_eq!(watched(60, |_| (programs, 30)), Some(service));
    }
    assert_eq!(watched(60, |_| (&["make", "distcc", "distcc", "distcc", "distcc"], 800)), Some("distcc"));
}

#[test]
fn a_working_build_is_not_offloaded() {
    assert_eq!(watched(600, |second| (if second == 3 { &["docker"] } else { &["cc1plus"] }, 990)), None);
    let forwarded = watched(600, |_| (&["kubectl", "cc1plus"], 990));
    assert_eq!(forwarded, None, "a port that is forwarded all the time");
    assert_eq!(watched(60, |_| (&["sleep"], 0)), None);
    assert_eq!(watched(60, |_| (&["make", "distcc", "distcc", "cc1plus", "cc1plus"], 2000)), None);
    assert_eq!(watched(60, |_| (&["distcc"; 64], 8000)), None, "all of it fell back to this machine");
    assert_eq!(watched(0, |_| (&["docker"], 0)), None);
}

#[test]
fn a_daemon_inside_the_build_is_measured() {
    assert_eq!(watched(60, |_| (&["docker", "dockerd"], 0)), None);
    assert_eq!(
        watched(60, |second| (if second == 9 { &["buildctl", "buildkitd"] } else { &["buildctl"] }, 0)),
        None
    );
    let fake = FakeKernel::new();
    fake.write("/proc/7/comm", "java\n");
    fake.write("/proc/7/cmdline", "bazel(work)\0--add-opens\0");
    fake.write("/proc/8/comm", "bazel\n");
    let found = ServicePrograms::among_processes(&fake.kernel().path("/proc"), [7, 8, 0, 9]);
    let mut watch = OffloadWatch::new(8);
    watch.add(Duration::from_secs(9), 0, &found, Duration::ZERO);
    assert_eq!(watch.service(watch.last, 0), None);
}

#[test]
fn half_of_the_time_is_the_bound() {
    let until = |bound| {
        watched(100, move |second| {
            (if second <= bound { &["docker"] } else { &["cc1plus"] }, if second <= bound { 0 } else { 900 })
        })
    };
    // processes are counted each four seconds by then
    assert_eq!([until(45), until(55)], [None, Some("docker")]);
}

#[test]
fn renamed_programs_are_recognized_by_their_executable() {
    let fake = FakeKernel::new();
    fake.write("/proc/7/comm", "gcc\n");
    symlink("/usr/bin/distcc", fake.kernel().path("/proc/7/exe")).unwrap();
    let found = ServicePrograms::among_processes(&fake.kernel().path("/proc"), [7]);
    assert_eq!(found.0.iter().map(|presence| presence.clients).sum::<u32>(), 1);
}

#[test]
fn process_scans_are_bounded_and_pause() {
    let fake = FakeKernel::new();
    (1..1000).for_each(|pid| fake.write(&format!("/proc/{pid}/comm"), "docker\n"));
    let found = ServicePrograms::among_processes(&fake.kernel().path("/proc"), 1..1000);
    assert_eq!(found.0[0].clients, 128);
    let mut watch = OffloadWatch::new(8);
    let second = Duration::from_secs(1);
    watch.add(second, 0, &found, Duration::from_millis(100));
    assert!(!watch.is_due(10 * second) && watch.is_due(11 * second));
}

#[test]
fn ssh_for_git_and_bazel_without_its_server() {
    let fake = FakeKernel::new();
    let service = |name: &str| SERVICES.iter().position(|service| service.name == name).unwrap();
    let look = || ServicePrograms::among_processes(&fake.kernel().path("/proc"), 1..9).0;
    for (pid, comm) in [(1, "git"), (2, "ssh"), (3, "bazel"), (4, "java")] {
        fake.write(&format!("/proc/{pid}/comm"), &format!("{comm}\n"));
        fake.write(&format!("/proc/{pid}/stat"), &format!("{pid} (a ) b) S 1 {pid}\n"));
    }
    fake.write("/proc/4/cmdline", "bazel(work)\0");
    assert_eq!((look()[service("ssh")].clients, look()[service("bazel")].has_daemon), (0, true));
    fake.write("/proc/1/comm", "sh\n");
    fake.write("/proc/3/cmdline", "bazel\0build\0--remote_executor=grpcs://farm\0");
    assert_eq!((look()[service("ssh")].clients, look()[service("bazel")].has_daemon), (1, false));
}

#[test]
fn an_idle_build_with_a_connection_is_suspected() {
    let of = |seconds: u32, cpu_ms: u32, held: fn(u32) -> bool| {
        let mut watch = OffloadWatch::new(8);
        let cpu = |second: u32| u64::from(cpu_ms * 1000 / seconds * second);
        for second in 1..=seconds {
            if watch.is_connection_due(second * SECOND, cpu(second)) {
                watch.add_connection(second * SECOND, held(second), Duration::ZERO);
            }
        }
        watch.service(seconds * SECOND, cpu(seconds))
    };
    assert_eq!(of(60, 500, |_| true), Some(PartlyMeasured::OpenConnection.name()));
    assert_eq!(of(60, 700, |_| true), None, "more than 1 % of a core");
    assert_eq!(of(60, 0, |_| false), None, "nothing is held, as by sleep");
    assert_eq!(of(3600, 9000, |second| (1800..2100).contains(&second)), None, "a fetch between other things");
    assert_eq!(of(3600, 3_000_000, |_| true), None, "a compile beside a tunnel");
}

/// Processes from 7 on, each with these sockets open.
fn holding(fake: &FakeKernel, sockets: &[&[u64]]) -> bool {
    for (pid, inodes) in (7..).zip(sockets) {
        let folder = fake.kernel().path(format!("/proc/{pid}/fd"));
        let _absent = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        (3..).zip(*inodes).for_each(|(fd, inode)| {
            symlink(format!("socket:[{inode}]"), folder.join(fd.to_string())).unwrap();
        });
    }
    reach_outside(&fake.kernel().path("/proc"), &[7, 8])
}

#[test]
fn tcp_within_the_build_is_no_connection_outside() {
    let fake = FakeKernel::new();
    let line = |ends: &str, state: &str, inode: u64| {
        format!("   0: {ends} {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0 20\n")
    };
    let [server, client] = ["0100007F:1F90 0100007F:D2F0", "0100007F:D2F0 0100007F:1F90"];
    let other_form = "0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:D2F0";
    let head = "  sl  local_address rem_address   st\n";
    fake.write("/proc/7/net/tcp", &[head, &line(client, "01", 41), &line(server, "0A", 43)].concat());
    fake.write("/proc/7/net/tcp6", &[head, &line(other_form, "01", 42)].concat());
    assert!(holding(&fake, &[&[41], &[]]), "the server is not of the build");
    assert!(!holding(&fake, &[&[41], &[42]]));
    assert!(!holding(&fake, &[&[43], &[]]), "it listens");
    fake.write("/proc/7/net/tcp6", head);
    assert!(holding(&fake, &[&[41], &[]]), "another machine");
    let inherited = fake.kernel().path("/proc/self/fd");
    std::fs::create_dir_all(&inherited).unwrap();
    symlink("socket:[41]", inherited.join("0")).unwrap();
    assert!(!holding(&fake, &[&[41], &[]]), "the agent has it too");
}

#[test]
fn unix_sockets_count_when_a_daemon_holds_them() {
    let (fake, dir) = (FakeKernel::new(), tempfile::tempdir().unwrap());
    let inode = |socket: &dyn AsFd| rustix::fs::fstat(socket.as_fd()).unwrap().st_ino;
    let connected = |path: PathBuf| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let daemon = UnixListener::bind(&path).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        let end = daemon.accept().unwrap().0;
        (inode(&client), inode(&end), (daemon, client, end))
    };
    let (client, end, _open) = connected(dir.path().join("daemon.sock"));
    assert!(holding(&fake, &[&[client], &[]]));
    assert!(!holding(&fake, &[&[client], &[end]]), "the daemon is of the build");
    let (user_names, _, _open) = connected(dir.path().join("sss/nss"));
    assert!(!holding(&fake, &[&[user_names], &[]]));
    let (one, _other) = UnixDatagram::pair().unwrap();
    assert!(!holding(&fake, &[&[inode(&one)], &[]]), "as to the system's log");
    assert!(!holding(&fake, &[&[9_999_999_999], &[]]));
}

/// The table of the guide, from the lists and the sentences of the report.
fn table() -> String {
    let row = |what: &str, found: &str, said: &str| format!("| {what} | {found} | {said} |\n");
    let said = |service: &str| {
        measured::offloaded_note(&Summary { offloaded_to: service.into(), ..Summary::default() }).unwrap()
    };
    let names = |names: &[&str]| {
        names.iter().map(|name| format!("`{}`", name.replace('(', "(FOLDER)"))).collect::<Vec<_>>().join(", ")
    };
    let services = SERVICES.iter().map(|Service { name, clients, daemons }| {
        let daemons =
            if daemons.is_empty() { String::new() } else { format!("; not with {}", names(daemons)) };
        row(&format!("work of {name}"), &(names(clients) + &daemons), &said(name))
    });
    let others = [
        (
            "work of any other program",
            "under 1 % of a core over the whole time, and a connection for half of it",
            PartlyMeasured::OpenConnection,
        ),
        (
            "a part of the build",
            "its cgroup cannot be read, or other programs use it",
            PartlyMeasured::AnotherCgroup,
        ),
        ("what is the build's in a shared cgroup", "others came into it", PartlyMeasured::SharedCgroup),
        (
            "a daemon of a build that `attach` follows",
            "it left the process tree, and nothing shows whose it is",
            PartlyMeasured::LostDaemon,
        ),
    ];
    let others = others.map(|(what, found, partly)| row(what, found, &said(partly.name())));
    let by_processes = Summary {
        source: plimsoll_proto::v1::Source::ProcessTree.into(),
        need_peak_bytes: Some(1),
        ..Summary::default()
    };
    let note = measured::unseen_note(&by_processes).unwrap();
    let files = row("files in memory that no process maps", "no cgroup counts the build", note);
    let head = "| not measured | found by | the report says |\n|---|---|---|\n";
    head.to_owned() + &services.chain(others).collect::<String>() + &files
}

#[test]
fn the_guide_lists_all_that_is_not_measured() {
    let guide = include_str!("../../../../deploy/docs/agent.md");
    let from = guide.find("| not measured |").unwrap_or(0);
    let recorded: String =
        guide.get(from..).unwrap().split_inclusive('\n').take_while(|line| line.starts_with('|')).collect();
    plimsoll_proto::fixtures::assert_pinned(&table(), &recorded, "not-measured.md");
}
