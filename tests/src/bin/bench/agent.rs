//! The agent beside a command that does nothing, for ten seconds after its fast start.

use std::{fs, path::Path, process::Stdio, time::Duration};

use plimsoll_tests::{Agent, Programs, Server, figures::Usage};

pub(crate) fn beside_nothing(programs: &Programs, server: &Server, dir: &Path) -> anyhow::Result<()> {
    let agent = Agent::new(programs, server.url(), &dir.join("spool"));
    let mut running = agent.command(&["run", "--", "sleep", "22"]).stderr(Stdio::null()).spawn()?;
    std::thread::sleep(Duration::from_secs(11));
    let before = Usage::of(running.id())?;
    std::thread::sleep(Duration::from_secs(10));
    let used_us = (Usage::of(running.id())?.cpu_ms - before.cpu_ms) * 1000;
    let status = fs::read_to_string(format!("/proc/{}/status", running.id()))?;
    let memory =
        |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    println!(
        "agent: about {} us of CPU a sample at 1 Hz; {}; {}",
        used_us / 10,
        memory("VmRSS"),
        memory("RssAnon")
    );
    running.wait()?;
    Ok(())
}
