//! The agent beside the runner of a workflow, whose later steps are not trusted.

use super::*;

#[tokio::test]
async fn a_runners_cgroup_needs_a_memory_limit() {
    let fake = FakeKernel::v2("/runner");
    let dir = "/sys/fs/cgroup/runner";
    group(&fake, dir, &format!("10\n20\n{}\n", std::process::id()));
    process(&fake, 10, 1000, "/runner", "x");
    process(&fake, 20, 3000, "/runner", "x");
    // the runner's worker is started by what listens for jobs
    let stat = std::fs::read_to_string(fake.kernel().path("/proc/20/stat")).unwrap();
    fake.write("/proc/20/stat", &stat.replacen("S 1 ", "S 10 ", 1));
    fake.write("/proc/10/status", "RssAnon:\t90000 kB\n");
    let look = async |is_of_runner| {
        let site = HostView { is_of_runner, ..HostView::new(&fake.kernel(), None, None) };
        find::wait_for(&site, &Target::Process(20), NOW).await.unwrap()
    };
    let found = look(true).await;
    assert!(found.groups.is_none() && !found.since_birth);
    assert!(found.failed_ways[0].contains("has no memory limit"), "{:?}", found.failed_ways);
    fake.write(&format!("{dir}/memory.max"), "300000000\n");
    let found = look(true).await;
    assert!(found.groups.is_some() && !found.since_birth, "{:?}", found.failed_ways);
    assert!(look(false).await.groups.is_none(), "any other build has no runner in it");
    group(&fake, dir, &format!("10\n20\n50\n{}\n", std::process::id()));
    process(&fake, 50, 500, "/runner", "x");
    fake.write("/proc/50/status", "RssAnon:\t90000 kB\n");
    let found = look(true).await;
    assert!(found.groups.is_none(), "it is of another job: {}", found.how_followed);
}

#[test]
fn steps_cannot_read_the_agents_memory() {
    hide_from_job();
    assert_eq!(nix::sys::prctl::get_dumpable(), Ok(false));
}
