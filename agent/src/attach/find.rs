//! Waits for a build to appear. A look costs some milliseconds at most on a busy machine, and the pause after it is so long that
//! looking takes no more than a hundredth of a core.

use std::{fmt::Display, path::Path, time::Duration};

use tokio::time::{Instant, sleep};

use super::{
    STATUS_NOTHING, STATUS_USAGE, containers, pods, process::Process, site::Site, target::Target, way,
};
use crate::{
    cgroup::{
        Groups,
        foreign::{Layout, Occupancy, identity, occupancy},
    },
    meter::{Meter, Reading},
};

/// The shortest and the longest pause between two looks.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// A pause is so many times as long as the look before it.
const IDLE: u32 = 100;

/// A container is set up within this time; until then its cgroup may be out of sight.
const SETTLED: Duration = Duration::from_secs(2);

/// A build that was found, and how it is measured.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) meter: Meter,
    pub(super) groups: Option<Groups>,
    /// The process that the build began with, if it can be seen.
    pub(super) main: Option<Process>,
    /// The counters are those of this build alone, since it began.
    pub(super) since_birth: bool,
    /// What others did in the group before.
    pub(super) earlier: Option<Earlier>,
    /// What is followed, through what.
    pub(super) way: String,
    /// Why better ways were not taken.
    pub(super) worse: Vec<String>,
}

/// Why nothing is followed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u8,
    pub(super) problem: String,
}

impl Refusal {
    /// There is nothing to measure.
    pub(super) fn nothing(why: impl Display) -> Self {
        Self { status: STATUS_NOTHING, problem: format!("nothing was measured: {why}") }
    }

    pub(super) fn usage(problem: String) -> Self {
        Self { status: STATUS_USAGE, problem }
    }
}

/// The counters of a group before the build was in it, and which group that was.
#[derive(Debug)]
pub(super) struct Earlier {
    pub(super) reading: Reading,
    group: Option<u64>,
}

/// Why there is nothing to follow yet.
#[derive(Debug)]
pub(super) struct Missing {
    why: String,
    /// There is a group, and nothing runs in it.
    empty: Option<Earlier>,
}

impl From<String> for Missing {
    fn from(why: String) -> Self {
        Self { why, empty: None }
    }
}

/// What one look has shown.
pub(super) type Look = Result<Result<Found, Missing>, Refusal>;

/// Looks again and again until the build is there.
pub(super) async fn wait_for(site: &Site, target: &Target, wait: Duration) -> Result<Found, Refusal> {
    let (start, mut earlier) = (Instant::now(), None);
    loop {
        let before = Instant::now();
        let missing = match look(site, target)? {
            Ok(found) => return Ok(Found { earlier: same_group(earlier, &found), ..found }),
            Err(missing) => missing,
        };
        earlier = missing.empty;
        let why = missing.why;
        let rest = wait.saturating_sub(start.elapsed());
        if rest.is_zero() {
            let waited = humantime::format_duration(wait);
            return Err(Refusal::nothing(format!("{why} (waited {waited}; --wait sets how long)")));
        }
        tracing::debug!(why, "the build is not there yet");
        let pause = (before.elapsed() * IDLE).clamp(PAUSES.0, PAUSES.1);
        sleep(pause.min(rest)).await;
    }
}

/// What was counted earlier counts only in the same group: one that was made anew has counted nothing.
fn same_group(earlier: Option<Earlier>, found: &Found) -> Option<Earlier> {
    let now = found.groups.as_ref().and_then(|groups| identity(&groups.memory));
    earlier.filter(|earlier| now.is_some() && earlier.group == now)
}

fn look(site: &Site, target: &Target) -> Look {
    match target {
        Target::Process(pid) => match Process::read(&site.proc, *pid) {
            Some(main) => by_process(site, main, None),
            // a number says nothing about a process that does not exist yet
            None => Err(Refusal::nothing(format!("there is no process {pid}, or it has ended"))),
        },
        Target::Container(id) => containers::by_id(site, id),
        Target::Named(name) => containers::by_name(site, name),
        Target::Group(path) => by_group(site, path),
        Target::Pod(uid, choice) => pods::by_pod(site, uid, choice),
    }
}

pub(super) fn by_process(site: &Site, main: Process, container: Option<&str>) -> Look {
    let (pid, proc, age) = (main.pid, site.proc.clone(), main.age(site));
    match way::to_process(site, main, container) {
        // while a container is being set up, its first process still sees the host's mounts
        Ok(found) if container.is_some() && found.groups.is_none() && age < SETTLED => {
            Ok(Err(format!("process {pid} has just started: {}", found.worse.join("; ")).into()))
        }
        Ok(found) => Ok(Ok(found)),
        // for a container there may be another process in a moment
        Err(_why) if container.is_some() && Process::read(&proc, pid).is_none() => {
            Ok(Err(format!("process {pid} ended at once").into()))
        }
        Err(why) => Err(Refusal::nothing(format!("process {pid}: {why}"))),
    }
}

fn by_group(site: &Site, path: &Path) -> Look {
    let layout = site.searched().map_err(|error| Refusal::nothing(error.to_string()))?;
    by_folder(site, &layout, path, Vec::new())
}

/// Follows the group of a folder once something runs in it.
pub(super) fn by_folder(site: &Site, layout: &Layout, path: &Path, worse: Vec<String>) -> Look {
    let found = layout.groups_at(path).map_err(|error| Refusal::nothing(error.to_string()))?;
    let Some(groups) = found else { return Ok(Err(format!("there is no cgroup {}", path.display()).into())) };
    match occupancy(&groups.memory) {
        Ok(Occupancy::Busy) => way::to_group(site, groups, worse).map(Ok).map_err(Refusal::nothing),
        Ok(Occupancy::Empty | Occupancy::Gone) => {
            let why = format!("nothing runs in the cgroup {}", path.display());
            let meter = Meter::follow(&site.kernel, Some(&groups), None).ok().flatten();
            let reading = meter.and_then(|mut meter| meter.read());
            let group = identity(&groups.memory);
            Ok(Err(Missing { why, empty: reading.map(|reading| Earlier { reading, group }) }))
        }
        Err(error) => Err(Refusal::nothing(error.to_string())),
    }
}
