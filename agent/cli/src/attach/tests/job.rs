//! The agent that a job starts beside itself: in the same container, and with a file that says how the job ended.

use super::*;

#[tokio::test]
async fn a_fresh_job_may_share_the_agents_cgroup() {
    let fake = sidecar();
    group(&fake, "/sys/fs/cgroup/jobs", "");
    let own = std::process::id();
    group(&fake, "/sys/fs/cgroup/jobs/7", &format!("20\n{own}\n"));
    let look = |used_kib: u64| {
        fake.write("/proc/20/status", &format!("RssAnon: {used_kib} kB\nRssShmem: 0 kB\n"));
        let site = HostView { accepts_own_group: true, ..HostView::new(&fake.kernel(), None, None) };
        async move { find::wait_for(&site, &Target::Group("jobs/7".into()), NOW).await }
    };
    let found = look(16 << 10).await.unwrap();
    assert!(found.groups.is_some(), "{}", found.how_followed);
    let refusal = look((16 << 10) + 1).await.unwrap_err();
    assert!(refusal.problem.contains("more than the agent and a job that begins"), "{refusal:?}");
}

#[tokio::test(start_paused = true)]
async fn an_exit_file_ends_the_build() {
    let fake = sidecar();
    let site = HostView::new(&fake.kernel(), None, None);
    let (_dir, path) = plimsoll_support::temporary::file_name("exit");
    let mut watch = EndWatch::new(&site, Process::read(&site.proc, 20), None, Some(ExitFile::at(&path)));
    assert!(tokio::time::timeout(Duration::from_secs(9), watch.ended()).await.is_err());
    std::fs::write(&path, "3\n").unwrap();
    let end = tokio::time::timeout(Duration::from_mins(1), watch.ended()).await.unwrap();
    assert_eq!((end.seen_how, end.exit.unwrap().code), ("its exit file is there", Some(3)));
}
