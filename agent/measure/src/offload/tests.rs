//! Builds as they look from outside, on a kernel of text files.

use super::*;
use crate::fake_kernel::FakeKernel;

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
        assert!(watch.is_due(now));
        watch.add(now, cpu_usec, &found, Duration::ZERO);
    }
    watch.service()
}

#[test]
fn a_build_that_waits_for_a_client_is_done_elsewhere() {
    for (programs, service) in [
        (&["sh", "docker", "docker-buildx"][..], "docker"),
        (&["sh", "podman"], "podman"),
        (&["buildctl"], "buildkit"),
        (&["bazel"], "bazel"),
        (&["make", "distcc", "distcc", "distcc", "distcc"], "distcc"),
        (&["kubectl"], "kubectl"),
    ] {
        assert_eq!(watched(60, |_| (programs, 30)), Some(service));
    }
    assert_eq!(watched(60, |_| (&["make", "distcc", "distcc", "distcc", "distcc"], 800)), Some("distcc"));
}

#[test]
fn a_build_that_works_itself_is_not_whatever_runs_beside_it() {
    assert_eq!(watched(600, |second| (if second == 3 { &["docker"] } else { &["cc1plus"] }, 990)), None);
    assert_eq!(
        watched(600, |_| (&["kubectl", "cc1plus"], 990)),
        None,
        "a port that is forwarded all the time"
    );
    assert_eq!(watched(60, |_| (&["sleep"], 0)), None);
    assert_eq!(watched(60, |_| (&["make", "distcc", "distcc", "cc1plus", "cc1plus"], 2000)), None);
    assert_eq!(watched(60, |_| (&["distcc"; 64], 8000)), None, "all of it fell back to this machine");
    assert_eq!(watched(0, |_| (&["docker"], 0)), None);
}

#[test]
fn a_daemon_among_the_processes_of_the_build_is_measured_with_it() {
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
    assert_eq!(watch.service(), None);
}

#[test]
fn half_of_the_time_is_the_bound() {
    let until = |bound| {
        watched(100, move |second| {
            (if second <= bound { &["docker"] } else { &["cc1plus"] }, if second <= bound { 0 } else { 900 })
        })
    };
    assert_eq!([until(49), until(50), until(51)], [None, Some("docker"), Some("docker")]);
}

#[test]
fn a_program_under_another_name_is_known_by_its_file() {
    let fake = FakeKernel::new();
    fake.write("/proc/7/comm", "gcc\n");
    std::os::unix::fs::symlink("/usr/bin/distcc", fake.kernel().path("/proc/7/exe")).unwrap();
    let found = ServicePrograms::among_processes(&fake.kernel().path("/proc"), [7]);
    assert_eq!(found.0.iter().map(|presence| presence.clients).sum::<u32>(), 1);
}

#[test]
fn looks_rest_and_see_a_bounded_number_of_processes() {
    let fake = FakeKernel::new();
    (1..1000).for_each(|pid| fake.write(&format!("/proc/{pid}/comm"), "docker\n"));
    let found = ServicePrograms::among_processes(&fake.kernel().path("/proc"), 1..1000);
    assert_eq!(found.0[0].clients, 128);
    let mut watch = OffloadWatch::new(8);
    let second = Duration::from_secs(1);
    watch.add(second, 0, &found, Duration::from_millis(100));
    assert!(!watch.is_due(10 * second) && watch.is_due(11 * second));
}
