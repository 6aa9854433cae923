//! The agent beside a command that does nothing, for ten seconds after its fast start.

use std::{fs, path::Path, process::Stdio, time::Duration};

use plimsoll_tests::{Agent, Programs, Server};

pub(crate) fn beside_nothing(programs: &Programs, server: &Server, dir: &Path) -> anyhow::Result<()> {
    let agent = Agent::new(programs, server.url(), &dir.join("spool"));
    let mut running = agent.command(&["run", "--", "sleep", "22"]).stderr(Stdio::null()).spawn()?;
    std::thread::sleep(Duration::from_secs(11));
    let before = on_cpu(running.id())?;
    std::thread::sleep(Duration::from_secs(10));
    let used = on_cpu(running.id())?.saturating_sub(before);
    let status = fs::read_to_string(format!("/proc/{}/status", running.id()))?;
    let memory =
        |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    println!(
        "agent: {:.2} ms of CPU a sample at 1 Hz; {}; {}",
        used.as_secs_f64() * 1000.0 / 10.0,
        memory("VmRSS"),
        memory("RssAnon")
    );
    running.wait()?;
    Ok(())
}

/// How long the threads of a process that are there have been on a CPU: the clock of `stat` ticks too seldom for an agent.
fn on_cpu(pid: u32) -> anyhow::Result<Duration> {
    let mut sum = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // time on a CPU, time of waiting for one, both in ns; slices (Documentation/scheduler/sched-stats.rst)
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        let nanos = text.split_whitespace().next().unwrap_or_default().parse()?;
        sum += Duration::from_nanos(nanos);
    }
    Ok(sum)
}
