//! Follows a build that is already running, in its pod or on its machine.
//!
//! [`find`] waits for the build, [`measuring`] chooses how to measure it, [`watch`] detects its end. Sampling and delivery are as for
//! any other build. The agent does not interfere with the build: it does not enter its cgroups, and sends it no signal unless `--rescue` lets it. It gets the exit
//! status only from a file that the build's shell writes ([`exit_file`]) or from the kernel ([`exit_status`]). The agent ends when the
//! build ends, so that a Kubernetes Job can complete.
//!
//! | status | meaning |
//! |---|---|
//! | 0 | the build was followed to its end, or until a signal stopped the agent |
//! | 2 | wrong usage, or more than one container matches |
//! | 4 | nothing was measured: the build never appeared, or cannot be read |

mod containers;
mod exit_file;
mod exit_status;
mod find;
mod found;
mod host_view;
mod kubernetes;
mod measuring;
mod pods;
mod process;
mod stop;
mod target;
mod watch;

use std::{path::PathBuf, time::Duration};

use plimsoll_measure::{clock, kernel::Kernel, reading::Reading, sampler::Sampler};
use tokio::time::Instant;
use ulid::Ulid;

use self::{
    exit_file::ExitFile,
    found::{AttachRefusal, FoundBuild},
    host_view::HostView,
    stop::StopSignals,
    watch::EndWatch,
};
use crate::{
    attempt::{self, Attempt, BuildEnd, write_line},
    job_summary::{self, MeasurementEnd, Style},
};

pub use process::command_line;
pub use target::{ContainerChoice, Target};

/// Exit status of the agent if nothing was measured.
const STATUS_NOTHING: u8 = 4;
/// Exit status of the agent if the command line is wrong, or several containers match.
const STATUS_USAGE: u8 = 2;

/// Settings of `attach`: which build to follow, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The build to follow.
    pub target: Target,
    /// The host's `/sys/fs/cgroup`, if it is mounted for the agent.
    pub host_cgroup: Option<PathBuf>,
    /// The host's `/proc`, if it is mounted for the agent.
    pub host_proc: Option<PathBuf>,
    /// How long to wait for the build to appear.
    pub wait: Duration,
    /// With a cgroup as target: whether the build ends with the group's first process, and not only when the
    /// group is empty.
    pub until_exit: bool,
    /// Whether the build may be measured by a cgroup that the agent itself is in.
    pub own_cgroup: bool,
    /// Whether the process is a CI runner's, and the build is the job that it runs from now on.
    pub runner: bool,
    /// The build has ended when this file exists; its first line is the exit status.
    pub exit_file: Option<PathBuf>,
    /// Which attempt the build is, and where its samples are sent.
    pub attempt: attempt::Settings,
}

/// Lets no other program of this user read the agent's memory and environment, where its token may be. A job's steps are such programs.
fn hide_from_job() {
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::debug!(%error, "the steps of the job can read the agent's memory");
    }
}

/// Finds the build, follows it to its end, and returns the exit status for this process.
///
/// Must be called within a tokio runtime with I/O and time.
pub async fn attach(settings: Settings) -> u8 {
    if settings.runner {
        hide_from_job();
    }
    attach_on(&Kernel::running(), settings).await
}

async fn attach_on(kernel: &Kernel, settings: Settings) -> u8 {
    let mut stop = StopSignals::listen();
    let site = HostView::new(kernel, settings.host_proc.as_deref(), settings.host_cgroup.as_deref());
    let site = HostView { accepts_own_group: settings.own_cgroup, is_of_runner: settings.runner, ..site };
    let found = tokio::select! {
        found = find::wait_for(&site, &settings.target, settings.wait) => found,
        signal = stop.next() => Err(AttachRefusal::nothing_to_measure(format!("{signal} came before the build did"))),
    };
    match found.and_then(|found| FollowedBuild::begin(&site, &settings, found)) {
        Ok(build) => {
            Box::pin(build.follow(job_summary::name(&settings.attempt.key, &[]), &mut stop)).await;
            0
        }
        Err(refusal) => {
            write_line(&format!("plimsoll: {}", refusal.problem));
            refusal.status
        }
    }
}

/// A build that is being followed.
struct FollowedBuild<'a> {
    watch: EndWatch,
    attempt: Attempt<'a>,
}

impl<'a> FollowedBuild<'a> {
    fn begin(site: &HostView, settings: &'a Settings, found: FoundBuild) -> Result<Self, AttachRefusal> {
        let FoundBuild {
            mut meter,
            groups,
            main,
            since_birth,
            earlier,
            how_followed: way,
            failed_ways: mut worse,
        } = found;
        // the log of the job gets one reason; the others go to the debug log
        for more in worse.drain(1.min(worse.len())..) {
            tracing::debug!(more, "why there is no better way");
        }
        let main_age = main.as_ref().map(|main| main.age((site.boot_clock)())).unwrap_or_default();
        // a runner may run for days before its job
        let age = if settings.runner { Duration::ZERO } else { main_age };
        let now = Instant::now();
        // if the start cannot be moved back by the age, the age is 0, so that both clocks agree
        let (start, age) = now.checked_sub(age).map_or((now, Duration::ZERO), |start| (start, age));
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let started = clock::unix_ms().saturating_sub(age_ms);
        let hello = attempt::hello(&settings.attempt, Ulid::new().to_string(), &meter, started);
        let Some(now_read) = meter.read() else {
            return Err(AttachRefusal::nothing_to_measure(format!("{way} was found, but cannot be read")));
        };
        let (before, counted) = match earlier {
            Some(earlier) => (earlier.reading, "when nothing ran in it"),
            None if since_birth => (before_birth(&now_read), "its beginning"),
            None => (now_read, "now"),
        };
        if settings.attempt.report.style != Style::None {
            let line = [vec![format!("plimsoll: follows {way}, counting from {counted}")], worse].concat();
            write_line(&line.join("; "));
        }
        let by_main = groups.is_none() || settings.until_exit || settings.target.is_process();
        let file = settings.exit_file.as_deref().map(ExitFile::at);
        // a runner outlives its job
        let may_signal = !settings.runner && site.shows_real_processes();
        let top = main.as_ref().filter(|_main| may_signal).map(|main| main.pid);
        let watch = EndWatch::new(site, main.filter(|_main| by_main), groups, file);
        let sampler = Sampler::new(meter, Some(before), start, settings.attempt.interval);
        Ok(Self { watch, attempt: Attempt::begin(&settings.attempt, hello, sampler, start, top) })
    }

    /// Takes samples until the build has ended or the agent gets a signal to stop, then closes the attempt.
    async fn follow(mut self, name: String, stop: &mut StopSignals) {
        let end = self.until_end(stop).await;
        let wall = self.attempt.start.elapsed();
        let ended = BuildEnd { name, end, wall, ..BuildEnd::default() };
        Box::pin(self.attempt.close(ended, async || stop.next().await.to_owned())).await;
    }

    async fn until_end(&mut self, stop: &mut StopSignals) -> MeasurementEnd {
        loop {
            tokio::select! {
                biased;
                end = self.watch.ended() => {
                    let end = self.watch.with_status(end).await;
                    return end.exit.map_or(MeasurementEnd::Ended(end.seen_how), MeasurementEnd::Exited);
                }
                signal = stop.next() => return MeasurementEnd::Followed(format!("the agent got {signal}")),
                () = self.attempt.due() => self.attempt.tick(),
            }
        }
    }
}

/// Counters of a group when it was created: zeros, except for the counters of its parent groups, which include
/// other groups.
fn before_birth(now: &Reading) -> Reading {
    Reading {
        reclaim_failures: now.failures_above,
        failures_above: now.failures_above,
        limit_hits_above: now.limit_hits_above,
        ..Reading::default()
    }
}

#[cfg(test)]
mod tests;
