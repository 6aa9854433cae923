//! Runs a command with its retries, and determines the exit code. Each try is an attempt of its own on the
//! server.

use std::time::Duration;

use plimsoll_client::{delivery, questions::Client};
use plimsoll_measure::kernel::Kernel;
use plimsoll_proto::{WireEnum as _, figures, job, shown::clean, v1::CloseTicketRequest};
use rustix::stdio::stdin;
use tokio::time::timeout;

use super::{
    Settings,
    build::{CommandTry, TryResult},
    command::exit_code,
    end_requests::is_end_by_request,
    input::StandardInput,
    make_jobs::BuildJobs,
    protection::Protection,
    retry_decision::{NextStep, RetryConditions, next_step},
    run_ids::{self, RunNumber},
    signals::{ReceivedSignal, Signals},
    unmeasured::run_instead,
};
use crate::{attempt::write_line, job_summary::Style};

/// How long the end of the job may wait until the server has got the ticket's slot back.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_secs(5);

/// A run: a command and its retries.
pub(super) struct RetryLoop<'a> {
    kernel: &'a Kernel,
    settings: Settings,
    signals: Signals,
    protection: Protection,
    jobs: BuildJobs,
    input: StandardInput,
    /// Number of retries so far.
    retried: u32,
    /// Id of the first try's attempt.
    first_id: String,
    /// The session that can return the ticket's slot, while the slot is kept for a retry.
    ticket_session: Option<String>,
}

/// What the next try changes.
struct NextTry {
    /// Number of build jobs; `None`: unchanged.
    jobs: Option<u32>,
    /// How long to wait before the next try.
    wait: Duration,
}

impl<'a> RetryLoop<'a> {
    /// Prepares a run. Blocks the signals that are forwarded to the build.
    /// Errors: the exit code of the command, if it ought to run without the agent and cannot.
    pub(super) fn new(kernel: &'a Kernel, mut settings: Settings) -> Result<Self, u8> {
        let known = settings.attempt.key.hints.and_then(|hints| hints.build_jobs);
        let jobs = if settings.acting.retries > 0 {
            BuildJobs::of(&settings.command, known, &settings.acting.make_flags)
        } else {
            // without retries `{jobs}` is ordinary text
            BuildJobs::as_it_is(&settings.command)
        };
        if let Some(jobs) = jobs.current() {
            settings.attempt.key.hints.get_or_insert_default().build_jobs = Some(jobs);
        }
        let signals = Signals::block().map_err(|error| {
            run_instead(&jobs.command(), &format!("signals cannot be passed on: {error}"))
        })?;
        let protection = Protection::new(kernel);
        let input = StandardInput::examine(stdin());
        Ok(Self {
            kernel,
            settings,
            signals,
            protection,
            jobs,
            input,
            retried: 0,
            first_id: String::new(),
            ticket_session: None,
        })
    }

    /// Runs the command until it succeeds or is not retried any more. Returns the exit code.
    pub(super) async fn run(mut self) -> u8 {
        let claim = self.take_id().await;
        let code = self.try_until_done().await;
        self.give_back().await;
        if let Some(claim) = claim {
            run_ids::remove_old_claims(claim).await;
        }
        code
    }

    async fn try_until_done(&mut self) -> u8 {
        loop {
            let tried = match self.attempt_once().await {
                Ok(tried) => tried,
                Err(code) => return code,
            };
            self.ticket_session.clone_from(&tried.ticket_session);
            if tried.exit.code == Some(0) || !self.settings.acting.wants_verdict() {
                return exit_code(tried.exit);
            }
            let Some(NextTry { jobs, wait }) = self.decide(&tried) else {
                return self.final_exit_code(&tried);
            };
            if let Some(signal) = self.wait(wait).await {
                self.print_note(&format!("does not try again: {signal} came while it waited"));
                return exit_code(tried.exit);
            }
            if let Err(error) = self.input.rewind(stdin()) {
                self.print_note(&format!(
                    "does not try again: its standard input cannot be wound back: {error}"
                ));
                return self.final_exit_code(&tried);
            }
            if let Err(error) = self.protection.unprotect() {
                self.print_note(&format!(
                    "does not try again: the kernel would not kill it for memory: {error}"
                ));
                return self.final_exit_code(&tried);
            }
            self.prepare_next(&tried, jobs);
        }
    }

    /// Chooses the attempt's id for this run, because a CI job may run several commands. Returns the file that
    /// reserves the id, for the cleanup after the build.
    async fn take_id(&mut self) -> Option<RunNumber> {
        let Settings { attempt, acting, .. } = &mut self.settings;
        let id = attempt.id.as_mut().filter(|_| acting.shares_id && attempt.delivery.server.is_some())?;
        let claim;
        (*id, claim) = run_ids::own_id(&attempt.delivery.spool_dir, id).await;
        claim
    }

    async fn attempt_once(&mut self) -> Result<TryResult, u8> {
        let Settings { attempt, limit_memory, limit_memory_most, marks, secrets, acting, .. } =
            &self.settings;
        let one = CommandTry {
            attempt,
            command: self.jobs.command(),
            variables: self.jobs.variables(),
            limit_memory: *limit_memory,
            limit_memory_most: *limit_memory_most,
            marks: marks.as_ref(),
            secrets,
            wants_verdict: acting.wants_verdict(),
            more_may_follow: self.retried < acting.retries,
        };
        one.run(self.kernel, &self.signals, &mut self.protection).await
    }

    /// Returns the ticket's slot that was kept for a retry. If that fails, the server takes it back after its
    /// time limit.
    async fn give_back(&mut self) {
        let Some(session) = self.ticket_session.take() else { return };
        let delivery::Settings { server: Some(server), trust, .. } = &self.settings.attempt.delivery else {
            return;
        };
        let ticket = self.settings.attempt.ticket.clone();
        let close = async {
            let question = CloseTicketRequest { ticket: ticket.clone(), owner: String::new(), session };
            Client::connect(server, trust).await?.close_ticket(question).await
        };
        let given = tokio::select! {
            given = timeout(GIVE_BACK_TIMEOUT, close) => given,
            _arrived = self.signals.next_interrupt() => return,
        };
        let problem = match given {
            Ok(Ok(())) => return,
            Ok(Err(failure)) => failure.to_string(),
            Err(_late) => format!("the server took longer than {GIVE_BACK_TIMEOUT:?}"),
        };
        self.print_note(&format!(
            "ticket {ticket} holds its place for some minutes more: {}",
            clean(&problem)
        ));
    }

    /// Decides whether the command is run again; `None` if not.
    fn decide(&self, tried: &TryResult) -> Option<NextTry> {
        let acting = &self.settings.acting;
        if acting.retries == 0 || ended_on_purpose(tried) {
            return None;
        }
        let verdict = tried.closed.verdict.as_ref()?;
        let place = RetryConditions {
            jobs: self.jobs.current(),
            unchangeable: self.jobs.unchangeable(),
            memory_limit: tried.closed.resources.memory_limit_bytes,
            larger_elsewhere: acting.exit_codes.of(plimsoll_proto::v1::Action::Bigger).is_some(),
        };
        match next_step(verdict, &place) {
            NextStep::Stop(why) => {
                self.print_note(&format!("does not try again here: {why}"));
                None
            }
            NextStep::Again { .. } if self.retried >= acting.retries => {
                let allowed = figures::counted_as(acting.retries.into(), "retry is", "retries are");
                self.print_note(&format!("does not try again: {allowed} allowed, and none is left"));
                None
            }
            NextStep::Again { jobs, wait, why } => {
                if let Some(gone) = self.input.why_not_again(stdin()) {
                    self.print_note(&format!("does not try again here: {gone}"));
                    return None;
                }
                let number = self.retried.saturating_add(1);
                let with = jobs.map(|jobs| format!(" with -j{jobs}")).unwrap_or_default();
                let after = if wait.is_zero() { String::new() } else { format!(" after {wait:.1?}") };
                self.print_note(&format!(
                    "tries again here ({number} of {}){with}{after}: {why}",
                    acting.retries
                ));
                Some(NextTry { jobs, wait })
            }
        }
    }

    /// Prepares the next try as a retry of the failed attempt.
    fn prepare_next(&mut self, tried: &TryResult, jobs: Option<u32>) {
        if let Some(jobs) = jobs {
            self.jobs.set(jobs);
        }
        if self.retried == 0 {
            self.first_id.clone_from(&tried.closed.attempt);
        }
        self.retried = self.retried.saturating_add(1);
        let attempt = &mut self.settings.attempt;
        let suffix = format!("/{}", self.retried.saturating_add(1));
        attempt.id = Some(job::with_suffix(&self.first_id, &suffix));
        attempt.number = attempt.number.saturating_add(1);
        attempt.retries.clone_from(&tried.closed.attempt);
        // record only a number that the command certainly uses: a wrong one would distort the history
        attempt.key.hints.get_or_insert_default().build_jobs = self.jobs.certain_number();
    }

    /// Waits before a retry. Returns a signal that has arrived by then: it means that the user wants no retry.
    async fn wait(&self, wait: Duration) -> Option<ReceivedSignal> {
        if let Some(arrived) = self.signals.take_interrupt() {
            return Some(arrived);
        }
        tokio::select! {
            biased;
            arrived = self.signals.next_interrupt() => Some(arrived),
            () = tokio::time::sleep(wait) => None,
        }
    }

    /// The exit code of a run that failed and is not retried any more.
    fn final_exit_code(&self, tried: &TryResult) -> u8 {
        let (own, codes) = (exit_code(tried.exit), &self.settings.acting.exit_codes);
        if ended_on_purpose(tried) {
            self.print_note(&format!("exit code {own} stays: the job got a signal to end"));
            return own;
        }
        let Some(verdict) = &tried.closed.verdict else {
            let why = tried.closed.problem.as_deref().unwrap_or("the server was not asked");
            self.print_note(&format!("exit code {own} stays: no verdict: {}", clean(why)));
            return own;
        };
        let word = verdict.action().word().replace('_', " ");
        match codes.of(verdict.action()) {
            Some(code) => {
                let reason = clean(&verdict.reason);
                self.print_note(&format!(
                    "exit code {code} in place of {own}: the verdict is {word}: {reason}"
                ));
                code
            }
            None if codes.is_empty() => own,
            None => {
                self.print_note(&format!("exit code {own} stays: no code is set for the verdict {word}"));
                own
            }
        }
    }

    fn print_note(&self, text: &str) {
        if self.settings.attempt.report.style != Style::None {
            write_line(&format!("plimsoll: {text}"));
        }
    }
}

/// Whether a signal ended the build, so that it did not fail by itself.
fn ended_on_purpose(tried: &TryResult) -> bool {
    tried.asked_to_end || !tried.closed.ended_by_rescue && is_end_by_request(tried.exit)
}
