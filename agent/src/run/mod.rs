//! Runs a command and measures it.

mod command;
mod line;
mod signals;

use std::{ffi::OsString, io::Write, time::Duration};

use plimsoll_proto::v1::{Exit, Hello, Key, Resources};
use tokio::time::Instant;
use ulid::Ulid;

use self::{command::Running, line::Line, signals::Signals};
use crate::{
    clock,
    delivery::{self, Delivery, Report},
    kernel::Kernel,
    meter::Meter,
    sampler::{Measured, Sampler},
};

/// What to run, and how to measure it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The command and its arguments; never empty.
    pub command: Vec<OsString>,
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
    /// Memory limit to set on the build's own cgroup, bytes.
    pub limit_memory: Option<u64>,
    /// Time between two samples once the build has run for some seconds.
    pub interval: Duration,
    /// Where samples go.
    pub delivery: delivery::Settings,
    /// How long to wait at the end for the server's acknowledgement.
    pub patience: Duration,
    /// Print no line at the end.
    pub quiet: bool,
}

/// Runs the command to its end. Returns the exit code for this process: the command's own, 128 + n if signal n ended it,
/// 127 if it was not found, 126 if it could not be executed.
///
/// Must be called within a tokio runtime with I/O and time, before the process has other threads (see [`signals`]), and once in a
/// process: it waits for all children that the process has.
pub async fn run(settings: Settings) -> u8 {
    run_on(&Kernel::running(), settings).await
}

async fn run_on(kernel: &Kernel, settings: Settings) -> u8 {
    let signals = Signals::block();
    let ended = command::listen();
    let session = Ulid::new().to_string();
    let mut meter = Meter::prepare(kernel, &session, settings.limit_memory);
    let (before, started) = meter.inside(|| {
        let start = (Instant::now(), clock::unix_ms());
        command::start(&settings.command, signals.before()).map(|pid| (pid, start))
    });
    let (pid, (start, started_unix_ms)) = match started {
        Ok(started) => started,
        Err(error) => {
            let name = settings.command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
            say(&format!("plimsoll: cannot run '{name}': {}", error.desc()));
            meter.close().await;
            return command::exit_code_of(error);
        }
    };
    if let Some(why) = meter.no_limit() {
        say(&format!("plimsoll: the build runs without the memory limit: {why}"));
    }
    let hello = hello(&settings, session, &meter, started_unix_ms);
    let build = Build {
        running: Running::new(pid, ended),
        signals,
        delivery: Delivery::start(&settings.delivery, hello.clone()),
        sampler: Sampler::new(meter, before, start, settings.interval),
    };
    build.watch(&settings, &hello, start).await
}

/// What is known of the attempt at its start.
fn hello(settings: &Settings, session: String, meter: &Meter, started_unix_ms: u64) -> Hello {
    let limits = meter.limits();
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

/// A command that runs and is measured.
struct Build {
    running: Running,
    signals: Signals,
    delivery: Delivery,
    sampler: Sampler,
}

impl Build {
    /// Samples until the command has ended, then closes the attempt. Returns the exit code.
    async fn watch(mut self, settings: &Settings, hello: &Hello, start: Instant) -> u8 {
        let exit = self.until_end().await;
        let wall = start.elapsed();
        let Measured { last, totals, phases: _, curve: _, meter } = self.sampler.finish();
        // the last sample is taken after the end; the attempt does not end before it
        let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        let wall_ms = wall_ms.max(last.map_or(0, |sample| sample.elapsed_ms));
        if let Some(sample) = last {
            self.delivery.push(sample);
        }
        meter.close().await;
        let seen = Some(exit).filter(|exit| exit.code.is_some() || exit.signal.is_some());
        // those that ended the build; the next one means the agent
        self.signals.forget();
        let report = tokio::select! {
            report = self.delivery.finish(wall_ms, seen, totals, settings.patience) => report,
            arrived = self.signals.next() => Report {
                problem: Some(format!("interrupted by {}", arrived.signal)),
                ..Report::default()
            },
        };
        if !settings.quiet {
            let line = Line {
                name: line::name(&settings.key, &settings.command),
                exit,
                wall,
                totals: &totals,
                resources: &hello.resources.unwrap_or_default(),
                attempt: &hello.attempt,
                report: &report,
                measures_only: settings.delivery.server.is_none(),
            };
            say(&line.to_string());
        }
        command::exit_code(exit)
    }

    async fn until_end(&mut self) -> Exit {
        loop {
            tokio::select! {
                biased;
                exit = self.running.end() => return exit,
                arrived = self.signals.next() => {
                    if arrived.sent {
                        self.running.signal(arrived.signal);
                    }
                }
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

/// Writes a line to stderr, in one piece. Nobody may be there to read it, which is no reason to fail.
fn say(line: &str) {
    if let Err(error) = std::io::stderr().write_all(format!("{line}\n").as_bytes()) {
        tracing::debug!(%error, "nobody reads stderr");
    }
}

#[cfg(test)]
mod tests;
