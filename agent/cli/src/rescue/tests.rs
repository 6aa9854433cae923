//! Real processes that are stopped and go on, whatever ends.

use std::{
    os::unix::process::CommandExt as _,
    process::{Child, Command},
};

use plimsoll_measure::{kernel::Kernel, meter::Meter, processes::ProcessTable};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

/// The guardian, as a process of its own.
#[test]
#[ignore = "it is started by the guardian's tests, with a socket as its input"]
fn guardian_process() {
    guardian::serve();
}

struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("1000").process_group(0).spawn().unwrap())
    }

    fn id(&self) -> ProcessId {
        self.view().id
    }

    fn view(&self) -> plimsoll_measure::processes::ProcessView {
        ProcessTable::read("/proc".into(), &[self.0.id().cast_signed()])
            .processes
            .into_values()
            .next()
            .unwrap()
    }

    /// Waits until it is stopped, or runs.
    fn becomes_stopped(&self, stopped: bool) {
        for _look in 0..12_000 {
            if self.view().is_stopped() == stopped {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("waited in vain for stopped = {stopped}");
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_guardian_continues_what_its_agent_left() {
    let (kept, released) = (Sleeper::start(), Sleeper::start());
    let mut guardian = Guardian::start().unwrap();
    guardian.keep(&[kept.id(), released.id()]).unwrap();
    for sleeper in [&kept, &released] {
        send(sleeper.id(), Signal::STOP).unwrap();
        sleeper.becomes_stopped(true);
    }
    guardian.keep(&[kept.id(), ProcessId { pid: 1, started: 99 }]).unwrap();
    // the socket closes, as it does when the agent is killed
    drop(guardian);
    kept.becomes_stopped(false);
    assert!(released.view().is_stopped(), "it was stopped by another");
    send(released.id(), Signal::CONT).unwrap();
}

/// Lets this process open files, or no more.
fn may_open_files(may: bool) {
    let limit = getrlimit(Resource::Nofile);
    let current = if may { limit.maximum } else { Some(0) };
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
}

/// In a process of its own, because for a while it can open no file, and then cannot signal anything.
#[test]
#[ignore = "the next test starts it"]
fn continuing_without_open_files() {
    let (sleeper, spool) = (Sleeper::start(), tempfile::tempdir().unwrap());
    let meter = Meter::prepare(&Kernel::at(spool.path()), "01", None);
    let mut sampler = Sampler::new(meter, None, Instant::now(), Duration::from_secs(1));
    let mut rescuer = Rescuer::new(None, spool.path());
    rescuer.stopped.push(sleeper.id());
    for is_guardian in [false, true] {
        send(sleeper.id(), Signal::STOP).unwrap();
        sleeper.becomes_stopped(true);
        let mut paused = vec![sleeper.id()];
        may_open_files(false);
        if is_guardian {
            let opener = std::thread::spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                may_open_files(true);
            });
            guardian::continue_all(&mut paused);
            opener.join().unwrap();
        } else {
            rescuer.continue_all();
            may_open_files(true);
            assert!(sleeper.view().is_stopped());
            rescuer.pause(&mut sampler, PauseActs::default());
        }
        sleeper.becomes_stopped(false);
    }
}

#[test]
fn what_cannot_be_continued_is_tried_again() {
    let mut program = Command::new(std::env::current_exe().unwrap());
    let ran = program.args(["--exact", "rescue::tests::continuing_without_open_files", "--ignored"]).output();
    let ran = ran.unwrap();
    assert!(ran.status.success() && String::from_utf8_lossy(&ran.stdout).contains("1 passed"), "{ran:?}");
}

#[test]
fn lists_of_agents_that_are_gone_are_worked_off() {
    let (sleeper, spool) = (Sleeper::start(), tempfile::tempdir().unwrap());
    let own = PausedList::of_this_process(spool.path()).unwrap();
    own.probe().unwrap();
    own.replace(&[sleeper.id()]).unwrap();
    send(sleeper.id(), Signal::STOP).unwrap();
    sleeper.becomes_stopped(true);
    assert_eq!(paused_list::continue_left_behind(spool.path()), 0, "this agent lives");
    let space = paused_list::namespace().unwrap();
    for (name, text) in [
        // of agents that are gone
        (format!("paused-{space}-1-1"), "x y\n\n7\n-1 0\n99999999999999 1\n0 0\n".to_owned()),
        (format!("paused-{space}-2-1"), "\u{0}\u{1}".to_owned()),
        (format!("paused-{space}-1-99"), paused_list::to_text(&[sleeper.id()])),
        // no list, and one of another namespace
        (format!("paused-{space}-1-junk"), "x".to_owned()),
        ("paused-1-1-99".to_owned(), "1 1\n".to_owned()),
    ] {
        std::fs::write(spool.path().join(name), text).unwrap();
    }
    assert_eq!(paused_list::continue_left_behind(spool.path()), 1);
    sleeper.becomes_stopped(false);
    assert_eq!(
        std::fs::read_dir(spool.path()).unwrap().count(),
        3,
        "those of agents that are gone are not left"
    );
    own.replace(&[]).unwrap();
    assert_eq!(std::fs::read_dir(spool.path()).unwrap().count(), 2);
    assert_eq!(paused_list::continue_left_behind(&spool.path().join("absent")), 0);
}

#[test]
fn a_second_agent_may_not_pause() {
    let above = tempfile::tempdir().unwrap();
    let own = ["a", "b"].map(|name| above.path().join(name));
    for dir in &own {
        std::fs::create_dir(dir).unwrap();
    }
    let wrappers = own.each_ref().map(|dir| BuildLock::take(dir, true).unwrap());
    assert!(BuildLock::take(&own[0], true).unwrap_err().contains("another agent"));
    assert!(BuildLock::take(above.path(), false).is_err(), "one that follows them all");
    drop(wrappers);
    let _follower = BuildLock::take(above.path(), false).unwrap();
    assert!(BuildLock::take(&own[0], true).is_err());
}
