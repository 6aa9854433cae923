//! Runs a command and measures it.

mod command;
mod signals;

use std::{ffi::OsString, io::Write, time::Duration};

use nix::sys::signal::Signal;
use plimsoll_proto::v1::{Exit, Finish, Hello, Key, Resources};
use tokio::time::{Instant, timeout_at};
use ulid::Ulid;

use self::{
    command::Running,
    signals::{Arrived, Signals},
};
use crate::{
    clock,
    delivery::{self, Delivery, Report},
    kernel::Kernel,
    meter::Meter,
    output::{Change, Kinds, Output},
    report::{self, Advice, Facts},
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
    /// Marks in the output that begin phases; `None` leaves the streams as they are.
    pub marks: Option<Kinds>,
    /// What is said at the end.
    pub report: report::Settings,
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
    let mut output = settings.marks.as_ref().and_then(Output::prepare);
    let session = Ulid::new().to_string();
    let mut meter = Meter::prepare(kernel, &session, settings.limit_memory);
    let (before, started) = meter.inside(|| {
        let start = (Instant::now(), clock::unix_ms());
        command::start(&settings.command, signals.before(), output.as_ref()).map(|pid| (pid, start))
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
    if let Some(output) = &mut output {
        output.started();
    }
    if let Some(why) = meter.no_limit() {
        say(&format!("plimsoll: the build runs without the memory limit: {why}"));
    }
    let hello = hello(&settings, session, &meter, started_unix_ms);
    let build = Build {
        running: Running::new(pid, ended),
        signals,
        output,
        delivery: Delivery::start(&settings.delivery, hello.clone()),
        sampler: Sampler::new(meter, before, start, settings.interval),
    };
    Box::pin(build.watch(settings, hello, start)).await
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
    output: Option<Output>,
    delivery: Delivery,
    sampler: Sampler,
}

impl Build {
    /// Samples until the command has ended, then closes the attempt and reports. Returns the exit code.
    async fn watch(mut self, settings: Settings, hello: Hello, start: Instant) -> u8 {
        let exit = self.until_end().await;
        let wall = start.elapsed();
        // those that ended the build; the next one means the agent
        self.signals.forget();
        let interrupted = self.drain().await;
        let Measured { last, totals, phases, curve, meter } = self.sampler.finish();
        // the last sample is taken after the end; the attempt does not end before it
        let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        let wall_ms = wall_ms.max(last.map_or(0, |sample| sample.elapsed_ms));
        if let Some(sample) = last {
            self.delivery.push(sample);
        }
        meter.close().await;
        let seen = Some(exit).filter(|exit| exit.code.is_some() || exit.signal.is_some());
        let finish =
            Finish { wall_ms, exit: seen, totals: Some(totals), phases: phases.clone(), ..Finish::default() };
        let closing = Closing { settings: &settings, hello: &hello, failed: exit.code != Some(0) };
        let (delivery, advice) = match interrupted {
            Some(signal) => (interruption(signal), Advice::default()),
            None => closing.deliver(self.delivery, &self.signals, finish).await,
        };
        let facts = Facts {
            name: report::name(&settings.key, &settings.command),
            exit,
            wall,
            totals,
            resources: hello.resources.unwrap_or_default(),
            phases,
            curve,
            attempt: hello.attempt.clone(),
            delivery,
            measures_only: settings.delivery.server.is_none(),
            advice,
        };
        publish(&facts, &settings.report);
        command::exit_code(exit)
    }

    async fn until_end(&mut self) -> Exit {
        loop {
            tokio::select! {
                biased;
                exit = self.running.end() => return exit,
                arrived = self.signals.next() => self.pass_on(arrived),
                change = next_change(self.output.as_ref()) => self.enter(change),
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

    fn enter(&mut self, change: Change) {
        match change {
            Change::Begin(name) => self.sampler.begin_phase(&name),
            Change::End => self.sampler.end_phase(),
        }
    }

    fn pass_on(&mut self, Arrived { signal, sent }: Arrived) {
        let terminal = self.output.as_ref().filter(|output| output.own_session());
        match terminal {
            Some(output) if signal == Signal::SIGWINCH => output.resized(),
            // from the kernel, for the terminal that the build does not see
            Some(output) if !sent => output.key(signal),
            _ if signal == Signal::SIGWINCH || !sent => {}
            _ => self.running.signal(signal),
        }
    }

    /// Writes on what the command left in its streams, and takes the last phases. A signal meanwhile means that nobody wants to
    /// wait for a reader that does not read.
    async fn drain(&mut self) -> Option<Signal> {
        let mut output = self.output.take()?;
        let interrupted = tokio::select! {
            () = output.drain() => None,
            arrived = self.signals.next_but_size() => Some(arrived.signal),
        };
        while let Some(change) = output.take_change() {
            self.enter(change);
        }
        output.close();
        interrupted
    }
}

/// Never, if the output is not read.
async fn next_change(output: Option<&Output>) -> Change {
    match output {
        Some(output) => output.next_change().await,
        None => std::future::pending().await,
    }
}

/// What there is to know for the end of an attempt.
struct Closing<'a> {
    settings: &'a Settings,
    hello: &'a Hello,
    failed: bool,
}

impl Closing<'_> {
    /// Closes the attempt on the server, and asks for advice in what is left of the patience.
    async fn deliver(&self, delivery: Delivery, signals: &Signals, finish: Finish) -> (Report, Advice) {
        let patience = self.settings.patience;
        let deadline = Instant::now() + patience;
        let report = tokio::select! {
            report = delivery.finish_with(finish, patience) => report,
            arrived = signals.next_but_size() => interruption(arrived.signal),
        };
        if self.settings.delivery.server.is_none()
            || !report.delivered
            || !self.settings.report.wants_advice()
        {
            return (report, Advice::default());
        }
        let problem = |text: &str| Advice { problem: Some(text.to_owned()), ..Advice::default() };
        let (key, attempt) = (self.settings.key.clone(), self.hello.attempt.clone());
        let advice = tokio::select! {
            answered = timeout_at(deadline, report::ask(&self.settings.delivery, key, attempt, self.failed)) => {
                answered.unwrap_or_else(|_late| problem("it took too long to answer"))
            }
            _arrived = signals.next_but_size() => problem("interrupted"),
        };
        (report, advice)
    }
}

fn interruption(signal: Signal) -> Report {
    Report { problem: Some(format!("interrupted by {signal}")), ..Report::default() }
}

/// Says it all. What cannot be written is a line in the log and no more.
fn publish(facts: &Facts, settings: &report::Settings) {
    if let Some(path) = &settings.file
        && let Err(error) = report::write_file(facts, path)
    {
        say(&format!("plimsoll: cannot write the report to {}: {error}", path.display()));
    }
    if let Some(text) = report::render(facts, settings) {
        say(&text);
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
