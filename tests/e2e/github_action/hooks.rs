//! The job hooks, as a runner starts them: below its process for the job, with variables and files that the job may have written.

use std::os::unix::fs::symlink;

use plimsoll_tests::assert_has;

use super::*;

/// Hooks beside an agent, and a program with the name of the runner's.
struct Host {
    dir: PathBuf,
    node: PathBuf,
}

impl Host {
    /// `None` where nothing runs hooks.
    fn of(fleet: &Fleet) -> Option<Self> {
        let node = node_of_home(fleet, &fleet.dir.path().join("home"))?;
        let dir = fleet.dir.path().join("opt");
        fs::create_dir(&dir).unwrap();
        for hook in ["job-started.js", "job-completed.js", "job.js"] {
            fs::copy(Path::new(FOLDER).join(hook), dir.join(hook)).unwrap();
        }
        symlink(&Programs::for_tests().agent, dir.join("plimsoll")).unwrap();
        symlink(found("bash").unwrap(), dir.join("Runner.Worker")).unwrap();
        Some(Self { dir, node })
    }

    /// A job between the hooks. `$started` and `$completed` run them.
    fn job(&self, fleet: &Fleet, name: &str, script: &str) -> Command {
        let hook = |name| format!("{} {}", self.node.join("node").display(), self.dir.join(name).display());
        let mut worker = Command::new(self.dir.join("Runner.Worker"));
        worker.args(["-c", &format!("{script}\ntrue")]).current_dir(fleet.dir.path()).env_clear();
        worker.env("started", hook("job-started.js")).env("completed", hook("job-completed.js"));
        for (variable, value) in [
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/nowhere"),
            ("PLIMSOLL_SERVER", &fleet.server.url()),
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_SERVER_URL", "https://github.com"),
            ("GITHUB_REPOSITORY", &format!("octo/{name}")),
            ("GITHUB_RUN_ID", "12"),
            ("GITHUB_RUN_ATTEMPT", "1"),
            ("GITHUB_JOB", "build"),
        ] {
            worker.env(variable, value);
        }
        worker
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_measure_a_job_without_yaml() {
    let Some(fleet) = Fleet::start() else { return };
    let Some(host) = Host::of(&fleet) else { return };
    let summary = fleet.dir.path().join("summary");
    fs::write(&summary, "").unwrap();
    let seen = fleet.dir.path().join("seen");
    let job = |name: &str, size: u64| {
        let hold = holding(size, &seen);
        let script = format!("$started; echo \"status $?\"; {hold}; $completed; echo \"status $?\"");
        let mut job = host.job(&fleet, name, &script);
        job.env("GITHUB_STEP_SUMMARY", &summary);
        thread::spawn(move || text(&job.output().unwrap()))
    };
    let jobs = [job("small", 1), job("large", 90)];
    saw_at_least(&fleet, 90, &seen).await;
    let jobs = jobs.map(|job| job.join().unwrap());
    for (printed, name) in jobs.iter().zip(["small", "large"]) {
        let delivered = format!("delivered as github:octo/{name}:12.1/build");
        assert_has(printed, ["plimsoll: measures this job", "::group::plimsoll", &delivered]);
        assert_eq!(printed.matches("status 0").count(), 2, "{printed}");
    }
    let need = |attempt: &Value| attempt["need_peak_bytes"].as_u64().unwrap() >> 20;
    let mut needs: Vec<_> = attempts(&fleet).iter().map(need).collect();
    needs.sort_unstable();
    assert!(needs.len() == 2 && needs[0] < 60 && needs[1] >= 90, "{needs:?}: {jobs:?}");
    let summary = fs::read_to_string(summary).unwrap();
    assert_eq!(summary.matches("### Plimsoll: ").count(), 2, "{summary}");
    assert_has(&summary, ["| need and request | needed ", "/attempts/github:octo/large:12.1/build)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_gets_no_secrets_of_a_job() {
    let Some(fleet) = Fleet::start() else { return };
    let Some(host) = Host::of(&fleet) else { return };
    let seen = fleet.dir.path().join("seen");
    fs::remove_file(host.dir.join("plimsoll")).unwrap();
    let agent = format!("#!/bin/sh\nenv >{0}.new; mv {0}.new {0}\n", seen.display());
    fs::write(host.dir.join("plimsoll"), agent).unwrap();
    fs::set_permissions(host.dir.join("plimsoll"), fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!("$started; while ! test -e {}; do sleep 0.1; done; $completed", seen.display());
    let mut job = host.job(&fleet, "secret", &script);
    for name in
        ["ACTIONS_RUNTIME_TOKEN", "GITHUB_TOKEN", "RUNNER_TOKEN", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD_X"]
    {
        job.env(name, "s3cret");
    }
    job.env("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of-the-job").output().unwrap();
    let seen = fs::read_to_string(seen).unwrap();
    let passed = ["GITHUB_JOB=build", "ACTIONS_ID_TOKEN_REQUEST_TOKEN=", "PLIMSOLL_TOKEN_AUDIENCE=plimsoll"];
    assert_has(&seen, passed);
    assert!(!seen.contains("s3cret"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_trust_nothing_that_a_job_writes() {
    let Some(fleet) = Fleet::start() else { return };
    let Some(host) = Host::of(&fleet) else { return };
    let temp = fleet.dir.path().join("_temp");
    let (evil, ran, victim) =
        (temp.join("bin"), fleet.dir.path().join("ran"), fleet.dir.path().join("victim"));
    fs::create_dir_all(&evil).unwrap();
    fs::write(&victim, "").unwrap();
    for name in ["plimsoll", "id", "stat", "dd", "sed", "cat", "getent", "setsid", "rm", "mkdir", "timeout"] {
        fs::write(evil.join(name), format!("#!/bin/sh\necho {name} >>{}\n", ran.display())).unwrap();
        fs::set_permissions(evil.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    symlink(&victim, temp.join("summary")).unwrap();
    let fifo = temp.join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for (nth, summary) in [temp.join("summary"), fifo, temp.join("none/x"), temp.clone()].iter().enumerate() {
        // what a job has appended to GITHUB_ENV and GITHUB_PATH, as the hook at its end sees it
        let lies = format!(
            "export PATH={0}:$PATH HOME={1} TMPDIR={1} XDG_STATE_HOME={1} RUNNER_TEMP={1} GITHUB_STEP_SUMMARY={2}",
            evil.display(),
            temp.display(),
            summary.display()
        );
        let script = format!("$started; {lies}; $completed; echo \"status $?\"");
        let printed = text(&host.job(&fleet, &format!("evil{nth}"), &script).output().unwrap());
        assert_has(&printed, ["delivered as", "the step summary cannot be written", "status 0"]);
    }
    assert!(!ran.try_exists().unwrap(), "{:?}", fs::read_to_string(ran));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "");
    let left: Vec<_> = fs::read_dir(&temp).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 3, "nothing is kept where jobs write: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_never_fail_a_job() {
    let Some(fleet) = Fleet::start() else { return };
    let Some(host) = Host::of(&fleet) else { return };
    let run = |name: &str, value: &str| {
        let mut job = host.job(&fleet, "odd", "$started; echo \"status $?\"; $completed; echo \"status $?\"");
        let printed = text(&job.env(name, value).output().unwrap());
        assert_eq!(printed.matches("status 0").count(), 2, "{printed}");
        printed
    };
    assert_eq!(run("PLIMSOLL_MEASURE", "off"), "status 0\nstatus 0\n");
    assert_has(&run("PLIMSOLL_SERVER", ""), ["PLIMSOLL_SERVER names no server"]);
    assert_has(&run("PLIMSOLL_SERVER", "http://127.0.0.1:1"), ["kept for the next run"]);
    fs::remove_file(host.dir.join("plimsoll")).unwrap();
    assert_has(&run("CI", "true"), ["plimsoll: there is no agent "]);
    fs::write(host.dir.join("plimsoll"), "no program").unwrap();
    fs::set_permissions(host.dir.join("plimsoll"), fs::Permissions::from_mode(0o755)).unwrap();
    run("CI", "true");
}
