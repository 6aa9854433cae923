//! Follows a build that somebody else has started: beside it in its pod, or on its machine.
//!
//! [`find`] waits until the build is there and chooses the best way to see it, [`watch`] notices its end, and in between it is
//! sampled and delivered as any other. The agent has no part in the build: it enters none of its groups, sends it no signal,
//! and does not learn its exit status. It leaves by itself when the build has ended, so that a Job can complete.
//!
//! | status | means |
//! |---|---|
//! | 0 | the build was followed to its end, or until the agent was told to stop |
//! | 2 | the question cannot be answered: wrong usage, or more than one container fits |
//! | 4 | nothing was measured: the build never appeared, or nothing may be read of it |

mod containers;
mod find;
mod line;
mod pods;
mod process;
mod site;
mod stop;
mod target;
mod watch;
mod way;

use std::{io::Write as _, path::PathBuf, time::Duration};

use plimsoll_proto::v1::{Hello, Key, Resources};
use tokio::time::Instant;
use ulid::Ulid;

use self::{find::Found, line::Line, site::Site, stop::Stop, watch::Watch};
use crate::{
    clock,
    delivery::{self, Delivery, Report},
    kernel::Kernel,
    meter::{Meter, Reading},
    sampler::{Measured, Sampler},
};

pub use process::command_line;
pub use target::{Choice, Target};

/// Nothing was measured.
const STATUS_NOTHING: u8 = 4;
/// The question is wrong.
const STATUS_USAGE: u8 = 2;

/// What to follow, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which build.
    pub target: Target,
    /// The host's `/sys/fs/cgroup`, where it is mounted for the agent.
    pub host_cgroup: Option<PathBuf>,
    /// The host's `/proc`, where it is mounted for the agent.
    pub host_proc: Option<PathBuf>,
    /// How long to wait for the build to appear.
    pub wait: Duration,
    /// The build of a group ends with its first process, and not only when the group is empty.
    pub until_exit: bool,
    /// Id of the attempt; `None` makes a ULID.
    pub attempt: Option<String>,
    /// What is built.
    pub key: Key,
    /// 1 for the first execution.
    pub number: u32,
    /// Id of the attempt that this one retries; may be empty.
    pub retries: String,
    /// What was asked for, from the environment or the command line.
    pub asked: Resources,
    /// Time between two samples once the build has run for some seconds.
    pub interval: Duration,
    /// Where samples go.
    pub delivery: delivery::Settings,
    /// How long to wait at the end for the server's acknowledgement.
    pub patience: Duration,
    /// Print no line but for errors.
    pub quiet: bool,
}

/// Finds the build, follows it to its end, and returns the exit status for this process.
///
/// Must be called within a tokio runtime with I/O and time.
pub async fn attach(settings: Settings) -> u8 {
    attach_on(&Kernel::running(), settings).await
}

async fn attach_on(kernel: &Kernel, settings: Settings) -> u8 {
    let mut stop = Stop::listen();
    let site = Site::new(kernel, settings.host_proc.as_deref(), settings.host_cgroup.as_deref());
    let found = tokio::select! {
        found = find::wait_for(&site, &settings.target, settings.wait) => found,
        signal = stop.next() => Err(find::Refusal::nothing(format!("{signal} came before the build did"))),
    };
    match found.and_then(|found| Build::begin(&site, &settings, found)) {
        Ok(build) => {
            build.follow(&settings, &mut stop).await;
            0
        }
        Err(refusal) => {
            say(&format!("plimsoll: {}", refusal.problem));
            refusal.status
        }
    }
}

/// A build that is being followed.
struct Build {
    watch: Watch,
    sampler: Sampler,
    delivery: Delivery,
    hello: Hello,
    start: Instant,
}

impl Build {
    fn begin(site: &Site, settings: &Settings, found: Found) -> Result<Self, find::Refusal> {
        let Found { mut meter, groups, main, since_birth, earlier, way, worse } = found;
        let age = main.as_ref().map(|main| main.age(site)).unwrap_or_default();
        let now = Instant::now();
        // the two clocks go back by the same time, or not at all
        let (start, age) = now.checked_sub(age).map_or((now, Duration::ZERO), |start| (start, age));
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let hello = hello(settings, &meter, clock::unix_ms().saturating_sub(age_ms));
        let Some(now_read) = meter.read() else {
            return Err(find::Refusal::nothing(format!("{way} was found, but cannot be read")));
        };
        let (before, counted) = match earlier {
            Some(earlier) => (earlier.reading, "when nothing ran in it"),
            None if since_birth => (before_birth(&now_read), "its beginning"),
            None => (now_read, "now"),
        };
        if !settings.quiet {
            let line = [vec![format!("plimsoll: follows {way}, counting from {counted}")], worse].concat();
            say(&line.join("; "));
        }
        let by_main = groups.is_none() || settings.until_exit || settings.target.is_process();
        let watch = Watch::new(site, main.filter(|_main| by_main), groups);
        let sampler = Sampler::new(meter, Some(before), start, settings.interval);
        let delivery = Delivery::start(&settings.delivery, hello.clone());
        Ok(Self { watch, sampler, delivery, hello, start })
    }

    /// Samples until the build has ended or the agent is told to stop, then closes the attempt.
    async fn follow(mut self, settings: &Settings, stop: &mut Stop) {
        let end = self.until_end(stop).await;
        let wall = self.start.elapsed();
        let Measured { last, totals, meter, .. } = self.sampler.finish();
        let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        // the last sample is taken after the end; the attempt does not end before it
        let wall_ms = wall_ms.max(last.map_or(0, |sample| sample.elapsed_ms));
        if let Some(sample) = last {
            self.delivery.push(sample);
        }
        meter.close().await;
        let report = tokio::select! {
            report = self.delivery.finish(wall_ms, None, totals, settings.patience) => report,
            signal = stop.next() => Report { problem: Some(format!("interrupted by {signal}")), ..Report::default() },
        };
        if !settings.quiet {
            let line = Line {
                name: &settings.key.package,
                end: &end,
                wall,
                totals: &totals,
                resources: &self.hello.resources.unwrap_or_default(),
                attempt: &self.hello.attempt,
                report: &report,
                measures_only: settings.delivery.server.is_none(),
            };
            say(&line.to_string());
        }
    }

    async fn until_end(&mut self, stop: &mut Stop) -> String {
        loop {
            tokio::select! {
                biased;
                end = self.watch.ended() => return end.to_owned(),
                signal = stop.next() => return format!("the agent got {signal}"),
                () = tokio::time::sleep_until(self.sampler.due()) => {
                    if let Some(sample) = self.sampler.tick() {
                        self.delivery.push(sample);
                    }
                    if let Some(notice) = self.sampler.take_notice() {
                        say(&format!("plimsoll: {notice}"));
                    }
                }
            }
        }
    }
}

/// The counters of a group before it was made: nothing, but for those of the groups above, which have others in them too.
fn before_birth(now: &Reading) -> Reading {
    Reading {
        reclaim_failures: now.failures_above,
        failures_above: now.failures_above,
        limit_hits_above: now.limit_hits_above,
        ..Reading::default()
    }
}

/// What is known of the attempt at its start.
fn hello(settings: &Settings, meter: &Meter, started_unix_ms: u64) -> Hello {
    let (limits, session) = (meter.limits(), Ulid::new().to_string());
    let resources = Resources {
        memory_limit_bytes: limits.memory.or(settings.asked.memory_limit_bytes),
        cpu_limit_cores: limits.cpu.or(settings.asked.cpu_limit_cores),
        ..settings.asked
    };
    Hello {
        attempt: settings.attempt.clone().unwrap_or_else(|| session.clone()),
        session,
        key: Some(settings.key.clone()),
        number: settings.number,
        retries: settings.retries.clone(),
        source: meter.source().into(),
        resources: Some(resources),
        started_unix_ms,
    }
}

/// Writes a line to stderr, in one piece. Nobody may be there to read it, which is no reason to fail.
fn say(line: &str) {
    if let Err(error) = std::io::stderr().write_all(format!("{line}\n").as_bytes()) {
        tracing::debug!(%error, "nobody reads stderr");
    }
}

#[cfg(test)]
mod tests;
