//! Detects the end of a build in two ways. Kernel events (a pidfd, or the events of a v2 group) come at once.
//! Polling every [`POLL_INTERVAL`] covers everything that has no events. Speed matters: a container runtime
//! removes a container's group some ten milliseconds after the container has ended, and with the group its last
//! counters.

use std::{
    future::pending,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};

use plimsoll_measure::cgroup::{
    Cgroup, CgroupVersion, Cgroups,
    foreign::{Occupancy, identity, occupancy},
};
use rustix::{
    fs::inotify,
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::{
    io::unix::AsyncFd,
    select,
    time::{Instant, sleep_until},
};

use super::{
    exit_file::{ExitFile, SeenEnd},
    exit_status::exit_status,
    host_view::HostView,
    process::Process,
};
use crate::wake_timer::watch;

/// Interval at which the end of a build is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// What is watched to detect the end of one build.
#[derive(Debug)]
pub(super) struct EndWatch {
    proc: PathBuf,
    /// The build has ended when this process has ended.
    main: Option<Process>,
    /// The build has ended when no process runs in this group any more; with the group's identity.
    group: Option<(Cgroup, Option<u64>)>,
    /// The build has ended when this file exists, even if processes still run.
    file: Option<ExitFile>,
    /// Pidfd of the process, to read its exit status.
    process_fd: Option<OwnedFd>,
    /// Becomes readable when the build may have ended.
    end_event: Option<AsyncFd<OwnedFd>>,
    next_poll: Instant,
}

impl EndWatch {
    /// Watches the process `main`, or without it the group of `groups`.
    pub(super) fn new(
        site: &HostView,
        main: Option<Process>,
        groups: Option<Cgroups>,
        file: Option<ExitFile>,
    ) -> Self {
        let group = groups.map(|groups| groups.memory).map(|group| {
            let identity = identity(&group);
            (group, identity)
        });
        let process = main
            .as_ref()
            .filter(|_main| site.shows_real_processes())
            .map(|main| open_pidfd(main, &site.proc));
        let descriptor = match (&process, &group) {
            (Some(Ok(process)), _group) => process.try_clone(),
            (None, Some((group, _identity))) if group.version == CgroupVersion::V2 => open_events(group),
            _other => Err(io::ErrorKind::Unsupported.into()),
        };
        let event = descriptor.and_then(watch);
        if let Err(error) = &event {
            tracing::debug!(%error, "the end of the build is polled for");
        }
        let (event, process) = (event.ok(), process.and_then(Result::ok));
        Self {
            proc: site.proc.clone(),
            main,
            group,
            file,
            process_fd: process,
            end_event: event,
            next_poll: Instant::now(),
        }
    }

    /// Waits for the end of the build, and returns it. The future may be dropped and the method called again.
    pub(super) async fn ended(&mut self) -> SeenEnd {
        loop {
            if let Some(end) = self.end_if_seen() {
                return end;
            }
            select! {
                () = kernel_event(&mut self.end_event) => {}
                () = sleep_until(self.next_poll) => self.next_poll = Instant::now() + POLL_INTERVAL,
            }
        }
    }

    /// The end of the build, if it has ended.
    fn end_if_seen(&self) -> Option<SeenEnd> {
        let reported = self.file.as_ref().and_then(ExitFile::read);
        reported.or_else(|| self.gone_reason().map(|how| SeenEnd { seen_how: how, exit: None }))
    }

    /// Adds the exit status from the kernel to the end, if the exit file had none. Waits at most a second; the
    /// future must not be dropped before it is done.
    pub(super) async fn with_status(&self, end: SeenEnd) -> SeenEnd {
        let exit = match (&self.process_fd, end.exit) {
            (Some(process), None) if self.has_ended() => exit_status(process).await,
            (_process, exit) => exit,
        };
        SeenEnd { exit, ..end }
    }

    fn has_ended(&self) -> bool {
        self.main.as_ref().is_some_and(|main| !main.is_running(&self.proc))
    }

    fn gone_reason(&self) -> Option<&'static str> {
        if self.main.is_some() {
            return self.has_ended().then_some("its process ended");
        }
        let (group, made) = self.group.as_ref()?;
        if identity(group) != *made {
            return Some("its cgroup was removed");
        }
        match occupancy(group) {
            Ok(Occupancy::Busy) => None,
            Ok(Occupancy::Empty) => Some("its cgroup is empty"),
            Ok(Occupancy::Gone) => Some("its cgroup was removed"),
            Err(error) => {
                tracing::debug!(%error, "cannot see whether the build runs");
                None
            }
        }
    }
}

fn open_pidfd(main: &Process, proc: &Path) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(main.pid).ok_or(io::ErrorKind::InvalidInput)?;
    let descriptor = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
    // check again: the process may have ended and another one may have got its id
    if main.is_running(proc) { Ok(descriptor) } else { Err(io::ErrorKind::NotFound.into()) }
}

fn open_events(group: &Cgroup) -> io::Result<OwnedFd> {
    let descriptor = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&descriptor, group.dir.join("cgroup.events"), inotify::WatchFlags::MODIFY)?;
    Ok(descriptor)
}

/// Waits for a kernel event. A pidfd stays readable after its process has ended, so it is used only once.
async fn kernel_event(event: &mut Option<AsyncFd<OwnedFd>>) {
    let Some(descriptor) = event else { return pending().await };
    let mut buffer = [0; 4096];
    let again = match descriptor.readable().await {
        Ok(mut ready) => {
            let drained = rustix::io::read(descriptor.get_ref(), &mut buffer).is_ok();
            ready.clear_ready();
            drained
        }
        Err(_closed) => false,
    };
    if !again {
        *event = None;
    }
}
