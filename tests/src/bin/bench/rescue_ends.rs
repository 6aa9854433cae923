//! How long a build takes to end when it is asked to: while a compiler of it is paused, beside the same build without pauses. In pairs, so
//! that noise hits both.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::Path,
    process::Stdio,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::ensure;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use plimsoll_tests::{Agent, Programs, figures::median};

use crate::rescue::load;

const PAIRS: usize = 10;
/// How long a build runs before it is asked to end.
const RUNS_FOR: Duration = Duration::from_secs(1);
/// Patience with each step of a build.
const PATIENCE: Duration = Duration::from_mins(1);

/// Prints the table.
pub(crate) fn in_pairs(programs: &Programs, dir: &Path) -> anyhow::Result<()> {
    let agent = Agent::new(programs, "none", &dir.join("spool"));
    let makefile = dir.join("Makefile");
    fs::write(&makefile, format!("all: a b\na b:\n\t{} keep 30 busy 60000\n", load()?.display()))?;
    println!(
        "\n{:<44} {:>9} {:>9} {:>11}",
        "time until all of a build has ended", "paused", "without", "difference"
    );
    // a runner signals the agent, a terminal all processes of the job
    for (name, signal, to_all) in
        [("SIGTERM to the agent", Signal::SIGTERM, false), ("Ctrl-C", Signal::SIGINT, true)]
    {
        let (mut paused, mut without, mut differences) = (Vec::new(), Vec::new(), Vec::new());
        for _pair in 0..PAIRS {
            let end = |pauses| end_seconds(&agent, &makefile, pauses, (signal, to_all));
            let (with_pause, plain) = (end(true)?, end(false)?);
            paused.push(with_pause);
            without.push(plain);
            differences.push(with_pause - plain);
        }
        let [paused, without, difference] =
            [&mut paused, &mut without, &mut differences].map(|values| median(values));
        println!("{name:<44} {paused:>7.3} s {without:>7.3} s {difference:>+9.3} s");
    }
    Ok(())
}

/// Seconds from the signal to the end of all processes of a build of two compilers.
fn end_seconds(
    agent: &Agent,
    makefile: &Path,
    pauses: bool,
    (signal, to_all): (Signal, bool),
) -> anyhow::Result<f64> {
    let rescue = if pauses { "--rescue pause --rescue-programs load" } else { "" };
    let options = format!("run --limit-memory 100MiB {rescue} -- make -s -j2 -f");
    let mut command = agent.command(&options.split_whitespace().collect::<Vec<_>>());
    command.arg(makefile).process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = command.spawn()?;
    let group = running.id().cast_signed();
    let is_paused = |states: &[char]| !pauses || states.contains(&'T');
    wait_until(group, |states| states.len() == 2 && is_paused(states))?;
    sleep(RUNS_FOR);
    ensure!(is_paused(&compilers(group)?), "it is not paused any more");
    let begin = Instant::now();
    kill(Pid::from_raw(if to_all { -group } else { group }), signal)?;
    running.wait()?;
    wait_until(group, <[char]>::is_empty)?;
    Ok(begin.elapsed().as_secs_f64())
}

fn wait_until(group: i32, is_so: impl Fn(&[char]) -> bool) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !is_so(&compilers(group)?) {
        ensure!(begin.elapsed() < PATIENCE, "the build does not get there: {:?}", compilers(group)?);
        sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// The states of the running compilers of a process group.
fn compilers(group: i32) -> anyhow::Result<Vec<char>> {
    let mut states = Vec::new();
    for process in fs::read_dir("/proc")? {
        let stat = fs::read_to_string(process?.path().join("stat")).unwrap_or_default();
        let Some((_, fields)) = stat.split_once(" (load) ") else { continue };
        let fields: Vec<&str> = fields.split(' ').collect();
        let is_of_group = fields.get(2) == Some(&group.to_string().as_str());
        let state = fields.first().and_then(|state| state.chars().next());
        states.extend(state.filter(|state| is_of_group && *state != 'Z'));
    }
    Ok(states)
}
