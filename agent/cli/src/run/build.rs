//! One try of a build: starts the command, measures it until it ends, and closes the attempt.

use std::{cell::Cell, ffi::OsString, time::Duration};

use nix::errno::Errno;
use plimsoll_measure::{clock, kernel::Kernel, meter::Meter, sampler::Sampler};
use plimsoll_proto::v1::Exit;
use rustix::process::Signal;
use tokio::time::{Instant, timeout};
use ulid::Ulid;

use super::{
    command::{self, ChildProcess},
    end_requests::EndRequests,
    protection::Protection,
    signals::{ReceivedSignal, SignalReach, Signals, WITHOUT_EFFECT, stop_this_process},
    unmeasured::{exit_code_of, run_instead},
};
use crate::{
    attempt::{self, Attempt, BuildEnd, ClosedAttempt, write_line},
    job_summary::{self, MeasurementEnd},
    key::Secrets,
    output::{Output, PhaseChange, PhaseMarks},
};

/// How long the agent waits for the rest of the output after a signal has asked the job to end: a second signal
/// must not be needed.
const LAST_OUTPUT: Duration = Duration::from_secs(2);

/// A try: one execution of the command.
#[derive(Debug)]
pub(super) struct CommandTry<'a> {
    pub(super) attempt: &'a attempt::Settings,
    pub(super) command: Vec<OsString>,
    /// Environment variables of the build that replace the agent's own.
    pub(super) variables: Vec<(OsString, OsString)>,
    pub(super) limit_memory: Option<u64>,
    pub(super) limit_memory_most: Option<u64>,
    pub(super) marks: Option<&'a PhaseMarks>,
    pub(super) secrets: &'a Secrets,
    /// Whether the agent will act on the verdict.
    pub(super) wants_verdict: bool,
    /// Whether a retry may follow in this run. The ticket then keeps its slot after a failure.
    pub(super) more_may_follow: bool,
}

/// How a try ended.
#[derive(Debug)]
pub(super) struct TryResult {
    pub(super) exit: Exit,
    /// Whether a signal ended the build, or interrupted the wait for the log's reader or the server.
    pub(super) asked_to_end: bool,
    pub(super) closed: ClosedAttempt,
    /// The session that can return the ticket's slot, if the slot is kept for a retry.
    pub(super) ticket_session: Option<String>,
}

impl CommandTry<'_> {
    /// Runs the command until it ends, and closes the attempt. The error is the exit code for a command that
    /// could not be started.
    pub(super) async fn run(
        &self,
        kernel: &Kernel,
        signals: &Signals,
        protection: &mut Protection,
    ) -> Result<TryResult, u8> {
        let ended = command::listen();
        let mut output = self.marks.and_then(Output::prepare);
        let session = Ulid::new().to_string();
        signals.end_witness();
        let mut meter = Meter::prepare(kernel, &session, self.limit_memory);
        signals.start_witness();
        let (before, started) = meter.run_inside(|| {
            if let Some(output) = &mut output {
                output.take_terminal();
            }
            let start = (Instant::now(), clock::unix_ms());
            command::start(&self.command, &self.variables, signals.original_mask(), output.as_ref())
                .map(|pid| (pid, start))
        });
        let (pid, (start, started_unix_ms)) = match started {
            Ok(started) => started,
            Err(error) => {
                // restore the real terminal before anything is printed
                drop(output);
                meter.close().await;
                return Err(self.without_start(error, signals));
            }
        };
        if let Some(output) = &mut output {
            output.started();
        }
        if let Some(why) = meter.no_limit() {
            write_line(&format!("plimsoll: the build runs without the memory limit: {why}"));
        }
        protection.protect();
        let hello = attempt::hello(self.attempt, session.clone(), &meter, started_unix_ms);
        let sampler =
            Sampler::new(meter, before, start, self.attempt.interval).with_limit_most(self.limit_memory_most);
        let attempt = Attempt::begin(self.attempt, hello, sampler, start, Some(pid.as_raw()));
        let running = ChildProcess::new(pid, ended);
        let place = (self.more_may_follow && !self.attempt.ticket.is_empty()).then_some(session);
        let secrets = self.secrets;
        let build = RunningBuild {
            child: running,
            signals,
            output,
            attempt,
            secrets,
            ticket_session: place,
            requests: EndRequests::default(),
            asked_to_end: false,
            asked_to_stop: None,
        };
        let name = secrets.mask_text(&job_summary::name(&self.attempt.key, &self.command));
        Ok(Box::pin(build.watch(name, self.wants_verdict)).await)
    }

    /// Reports why the command did not start, or runs it in place of the agent if there may be no process for it.
    fn without_start(&self, error: Errno, signals: &Signals) -> u8 {
        let no_process = matches!(error, Errno::EAGAIN | Errno::ENOMEM | Errno::EPERM | Errno::ENOSYS);
        if no_process && signals.unblock().is_ok() {
            return run_instead(&self.command, &format!("no process for it: {}", error.desc()));
        }
        let name = self.command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
        write_line(&format!("plimsoll: cannot run '{name}': {}", error.desc()));
        exit_code_of(error)
    }
}

/// A build that runs: its command, its attempt, and its output.
struct RunningBuild<'a> {
    child: ChildProcess,
    signals: &'a Signals,
    output: Option<Output>,
    attempt: Attempt<'a>,
    secrets: &'a Secrets,
    /// The session that can return the ticket's slot, if a retry may follow in this run.
    ticket_session: Option<String>,
    /// The signals that reached the build.
    requests: EndRequests,
    /// Whether the build ended because of one of them.
    asked_to_end: bool,
    /// The last signal that stops a process by default, until the build was stopped by it or continued.
    asked_to_stop: Option<Signal>,
}

impl RunningBuild<'_> {
    /// Takes samples until the command has ended, then closes the attempt and writes the report.
    async fn watch(mut self, name: String, wants_verdict: bool) -> TryResult {
        let exit = self.until_end().await;
        // before the end of the output: a paused process in the background may hold it open
        self.attempt.release(None);
        let wall = self.attempt.start.elapsed();
        // signals that arrived before the end were for the build; the next one interrupts the agent
        while let Some(arrived) = self.signals.take_interrupt() {
            self.requests.note(arrived.signal, Instant::now());
        }
        self.asked_to_end = self.requests.have_ended(exit, Instant::now());
        let (interrupted, log_tail) = self.drain().await;
        let wants_verdict = wants_verdict && !self.asked_to_end;
        let asked = Cell::new(self.asked_to_end || interrupted.is_some());
        let place = self.ticket_session.take().filter(|_| exit.code != Some(0) && !asked.get());
        let (end, keeps_ticket) = (MeasurementEnd::Exited(exit), place.is_some());
        let ended = BuildEnd { name, end, wall, interrupted, log_tail, wants_verdict, keeps_ticket };
        let signals = self.signals;
        let interruption = async || {
            let signal = signals.next_interrupt().await.to_string();
            asked.set(true);
            signal
        };
        let closed = Box::pin(self.attempt.close(ended, interruption)).await;
        let keeps_ticket = place.filter(|_| closed.delivered);
        TryResult { exit, asked_to_end: asked.get(), closed, ticket_session: keeps_ticket }
    }

    async fn until_end(&mut self) -> Exit {
        loop {
            tokio::select! {
                biased;
                change = self.child.change() => match change {
                    Some(exit) => return exit,
                    None => self.stop_with_build(),
                },
                arrived = self.signals.next() => {
                    self.forward_signal(arrived);
                    self.stop_with_build();
                }
                change = next_change(self.output.as_ref()) => self.apply_phase(change),
                () = self.attempt.due() => self.attempt.tick(),
            }
        }
    }

    fn apply_phase(&mut self, change: PhaseChange) {
        match change {
            PhaseChange::Begin(name) => self.attempt.sampler.begin_phase(&name),
            PhaseChange::End => self.attempt.sampler.end_phase(),
        }
    }

    fn forward_signal(&mut self, arrived: ReceivedSignal) {
        let ReceivedSignal { signal, reach } = arrived;
        if reach == SignalReach::Own {
            return;
        }
        if !WITHOUT_EFFECT.contains(&signal) && ![Signal::USR1, Signal::USR2].contains(&signal) {
            // a job that is only stopped may go on, and then be paused again
            self.attempt.release((!arrived.stops()).then_some("the job got a signal"));
        }
        if !self.signals.is_ignored_by(self.child.pid(), signal) {
            self.requests.note(signal, Instant::now());
        }
        match self.output.as_ref().filter(|output| output.own_session()) {
            Some(output) if signal == Signal::WINCH => output.copy_size(),
            // in a new session, the build gets no signals from the agent's terminal or process group
            Some(output) if reach == SignalReach::Group && output.key(signal, self.child.pid()) => {}
            None if reach == SignalReach::Group => {}
            _ => self.child.signal(signal),
        }
        if arrived.stops() || signal == Signal::CONT {
            self.asked_to_stop = Some(signal).filter(|_| arrived.stops());
        }
    }

    /// Stops the agent if the build was stopped by a signal that the agent has got too, so that its parent sees the
    /// job stop. Returns when the agent is continued.
    fn stop_with_build(&mut self) {
        if self.asked_to_stop.is_none() {
            return;
        }
        // to stop takes away a SIGCONT that has arrived and was not read; one that comes in the next microseconds is lost
        while let Some(arrived) = self.signals.take() {
            self.forward_signal(arrived);
        }
        if let Some(signal) = self.asked_to_stop.filter(|_| self.child.is_stopped()) {
            self.asked_to_stop = None;
            self.attempt.release(None);
            stop_this_process(signal);
        }
    }

    /// Forwards the rest of the output, applies the last changes of phase, and reads the end of the log. A
    /// signal during this interrupts it, so that the user need not wait for a reader that is blocked.
    async fn drain(&mut self) -> (Option<String>, Vec<u8>) {
        let Some(mut output) = self.output.take() else { return (None, Vec::new()) };
        let patience = if self.asked_to_end { LAST_OUTPUT } else { Duration::MAX };
        let interrupted = tokio::select! {
            _late = timeout(patience, output.drain()) => None,
            arrived = self.signals.next_interrupt() => Some(arrived.to_string()),
        };
        while let Some(change) = output.take_change() {
            self.apply_phase(change);
        }
        let log_tail = output.take_log(self.secrets);
        output.close();
        (interrupted, log_tail)
    }
}

/// The next change of phase; waits forever if the output is not read.
async fn next_change(output: Option<&Output>) -> PhaseChange {
    match output {
        Some(output) => output.next_change().await,
        None => std::future::pending().await,
    }
}
