//! Delivers one attempt to the server, in one or more conversations with waits between them.

use std::time::Duration;

use tokio::{select, time::sleep};

use super::{
    backlog::Backlog,
    backoff::Backoff,
    conversation::{ConversationEnd, converse},
    problem::{DeliveryProblem, ProblemKind},
    route::ServerRoute,
    shared_backlog::SharedBacklog,
};
use crate::reasons::no_server;

/// How long the delivery of an attempt is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryPolicy {
    /// For the attempt of this run: delivery is retried until the run's time limit for it ends.
    Own,
    /// For an attempt of an earlier run: until this many failures in a row; a later run then tries again.
    Orphan { tries: u32 },
}

/// The result of the delivery of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DeliveryOutcome {
    /// Everything is on the server's disk, and the spool file is deleted.
    Delivered,
    /// The server will never accept the attempt, so the file was set aside or deleted. The text says why.
    Refused(String),
    /// This agent may not deliver the attempt, so the file stays for an agent that may. The text says why.
    Left(String),
    /// The attempt was not delivered now; a later run may try. The text says why.
    GaveUp(String),
}

/// Delivers an attempt: opens a conversation, and after each failure waits and opens another.
pub(super) async fn deliver(
    route: &ServerRoute,
    shared: &SharedBacklog,
    patience: RetryPolicy,
) -> DeliveryOutcome {
    let mut backoff = Backoff::new(&shared.with(|backlog| backlog.hello().session.clone()));
    let mut finish_was_sent = patience != RetryPolicy::Own;
    let mut steps_lost = 0;
    let mut troubles = 0;
    loop {
        let last_try = shared.ended.is_cancelled();
        let before = shared.with(|backlog| backlog.acknowledged());
        let trouble = match converse(route, shared, &mut finish_was_sent).await {
            ConversationEnd::Sealed => return sealed_outcome(shared),
            ConversationEnd::ClosedBefore => return already_closed_outcome(shared),
            ConversationEnd::Trouble(trouble) => trouble,
        };
        tracing::debug!(?trouble, "delivery interrupted");
        let text = problem_words(route, &trouble);
        if shared.with(|backlog| backlog.acknowledged()) > before {
            backoff.reset();
            (steps_lost, troubles) = (0, 0);
        }
        troubles += 1;
        match (trouble.kind, patience) {
            (ProblemKind::Refused, _) | (ProblemKind::Held, RetryPolicy::Orphan { .. }) => {
                return refused_outcome(shared, text);
            }
            (ProblemKind::OutOfStep, _) if steps_lost > 0 => return refused_outcome(shared, text),
            (ProblemKind::OutOfStep, _) => {
                steps_lost += 1;
                continue;
            }
            (ProblemKind::Forbidden, RetryPolicy::Orphan { .. }) => return DeliveryOutcome::Left(text),
            (_, RetryPolicy::Orphan { tries }) if troubles >= tries => return DeliveryOutcome::GaveUp(text),
            // the server was never reachable, or does not accept this agent: waiting longer would only prolong the job
            (ProblemKind::Unreachable, RetryPolicy::Own)
                if last_try && shared.welcomed.borrow().is_none() =>
            {
                return DeliveryOutcome::GaveUp(text);
            }
            // the run that currently delivers the attempt has no reason to end soon
            (ProblemKind::Held, RetryPolicy::Own) if last_try => {
                return DeliveryOutcome::GaveUp(format!(
                    "this attempt's id is taken by another run, give --attempt; {text}"
                ));
            }
            (ProblemKind::Denied, RetryPolicy::Orphan { .. }) => return DeliveryOutcome::GaveUp(text),
            (ProblemKind::Denied | ProblemKind::Forbidden, RetryPolicy::Own) if last_try => {
                return DeliveryOutcome::GaveUp(text);
            }
            _ => shared.set_problem(Some(text)),
        }
        let time = match trouble.kind {
            ProblemKind::Denied | ProblemKind::Forbidden => backoff.longest_wait(),
            ProblemKind::Takeover => backoff.next_in_takeover(),
            _ => backoff.next(trouble.after),
        };
        wait_or_end(shared, time, last_try).await;
        if !last_try && shared.ended.is_cancelled() {
            backoff.reset();
        }
    }
}

/// Waits for `time`, but not beyond the end of the build: after it, one try more is made at once, unless this was it.
async fn wait_or_end(shared: &SharedBacklog, time: Duration, last_try: bool) {
    select! {
        () = sleep(time) => {}
        () = shared.ended.cancelled(), if !last_try => {}
    }
}

fn sealed_outcome(shared: &SharedBacklog) -> DeliveryOutcome {
    shared.with(|backlog| backlog.spool().map(|spool| spool.remove()));
    DeliveryOutcome::Delivered
}

fn already_closed_outcome(shared: &SharedBacklog) -> DeliveryOutcome {
    shared.with(Backlog::discard_file);
    let text = "the attempt is already closed on the server; every command needs an --attempt of its own";
    DeliveryOutcome::Refused(text.to_owned())
}

fn refused_outcome(shared: &SharedBacklog, text: String) -> DeliveryOutcome {
    shared.with(|backlog| backlog.spool().map(|spool| spool.set_aside(&text)));
    DeliveryOutcome::Refused(text)
}

fn problem_words(route: &ServerRoute, trouble: &DeliveryProblem) -> String {
    let server = &route.server();
    match trouble.kind {
        ProblemKind::Unreachable | ProblemKind::Takeover => no_server(server, &trouble.text),
        _ => format!("{server}: {}", trouble.text),
    }
}
