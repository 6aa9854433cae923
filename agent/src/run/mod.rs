//! Runs a command and measures it.

mod command;
mod protection;
mod signals;

use std::{ffi::OsString, time::Duration};

use nix::sys::signal::Signal;
use plimsoll_proto::v1::Exit;
use tokio::time::{Instant, timeout};
use ulid::Ulid;

use self::{
    command::Running,
    protection::protect_from_kills,
    signals::{Arrived, Signals},
};
use crate::{
    attempt::{self, Attempt, Ended, say},
    clock,
    kernel::Kernel,
    meter::Meter,
    output::{Change, Kinds, Output},
    report::{self, End},
    sampler::Sampler,
};

/// How long the output is waited for once a signal has asked the job to end: one signal must be enough.
const LAST_OUTPUT: Duration = Duration::from_secs(2);

/// What to run, and how to measure it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The command and its arguments; never empty.
    pub command: Vec<OsString>,
    /// What is measured, and where that goes.
    pub attempt: attempt::Settings,
    /// Memory limit to set on the build's own cgroup, bytes.
    pub limit_memory: Option<u64>,
    /// Marks in the output that begin phases; `None` leaves the streams as they are.
    pub marks: Option<Kinds>,
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
        if let Some(output) = &mut output {
            output.take_terminal();
        }
        let start = (Instant::now(), clock::unix_ms());
        command::start(&settings.command, signals.before(), output.as_ref()).map(|pid| (pid, start))
    });
    let (pid, (start, started_unix_ms)) = match started {
        Ok(started) => started,
        Err(error) => {
            // the real terminal is what it was before anything is said on it
            drop(output);
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
    protect_from_kills(kernel);
    let hello = attempt::hello(&settings.attempt, session, &meter, started_unix_ms);
    let sampler = Sampler::new(meter, before, start, settings.attempt.interval);
    let attempt = Attempt::begin(&settings.attempt, hello, sampler, start);
    let running = Running::new(pid, ended);
    let build = Build { running, signals, output, attempt, told_to_end: false };
    let name = report::name(&settings.attempt.key, &settings.command);
    Box::pin(build.watch(name)).await
}

/// A command that runs and is measured.
struct Build<'a> {
    running: Running,
    signals: Signals,
    output: Option<Output>,
    attempt: Attempt<'a>,
    /// A signal was passed on that asks the job to end.
    told_to_end: bool,
}

impl Build<'_> {
    /// Samples until the command has ended, then closes the attempt and reports. Returns the exit code.
    async fn watch(mut self, name: String) -> u8 {
        let exit = self.until_end().await;
        let wall = self.attempt.start.elapsed();
        // those that ended the build; the next one means the agent
        self.signals.forget();
        let interrupted = self.drain().await.map(|signal| signal.to_string());
        let ended = Ended { name, end: End::Exited(exit), wall, interrupted };
        let signals = self.signals;
        self.attempt.close(ended, async || signals.next_but_size().await.signal.to_string()).await;
        command::exit_code(exit)
    }

    async fn until_end(&mut self) -> Exit {
        loop {
            tokio::select! {
                biased;
                exit = self.running.end() => return exit,
                arrived = self.signals.next() => self.pass_on(arrived),
                change = next_change(self.output.as_ref()) => self.enter(change),
                () = tokio::time::sleep_until(self.attempt.sampler.due()) => self.attempt.tick(),
            }
        }
    }

    fn enter(&mut self, change: Change) {
        match change {
            Change::Begin(name) => self.attempt.sampler.begin_phase(&name),
            Change::End => self.attempt.sampler.end_phase(),
        }
    }

    fn pass_on(&mut self, arrived: Arrived) {
        let Arrived { signal, .. } = arrived;
        self.told_to_end |= arrived.asks_to_end();
        match self.output.as_ref().filter(|output| output.own_session()) {
            Some(output) if signal == Signal::SIGWINCH => output.resized(),
            // in a session of its own, the build gets neither what the agent's terminal nor what its group gets
            Some(output) => {
                let to_build = output.key(signal, self.running.pid());
                if !to_build && arrived.reaches_only_the_agent() {
                    self.running.signal(signal);
                }
            }
            None if arrived.reaches_only_the_agent() => self.running.signal(signal),
            None => {}
        }
    }

    /// Writes on what the command left in its streams, and takes the last phases. A signal meanwhile means that nobody wants to
    /// wait for a reader that does not read.
    async fn drain(&mut self) -> Option<Signal> {
        let mut output = self.output.take()?;
        let patience = if self.told_to_end { LAST_OUTPUT } else { Duration::MAX };
        let interrupted = tokio::select! {
            _late = timeout(patience, output.drain()) => None,
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

#[cfg(test)]
mod tests;
