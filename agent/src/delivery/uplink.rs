//! The way of one attempt to the server: conversations, and the waits between them.

use std::time::Duration;

use tokio::{select, time::sleep};

use super::{
    backlog::Backlog,
    backoff::Backoff,
    conversation::{Ended, converse},
    route::Route,
    shared::Shared,
    trouble::{Kind, Trouble},
};

/// Whose attempt is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// That of this run: as long as it takes, until the run itself gives up.
    Own,
    /// One of an earlier run: this many troubles in a row, then the next run may try.
    Orphan { tries: u32 },
}

/// What became of the attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// Everything is on the server's disk; the file is gone.
    Delivered,
    /// The server will never take it; the file is set aside or gone. In words.
    Refused(String),
    /// Not from us; the file stays for whoever may deliver it. In words.
    Left(String),
    /// Not now. In words.
    GaveUp(String),
}

/// Delivers an attempt: talks, and after each trouble waits and talks again.
pub(super) async fn deliver(route: &Route, shared: &Shared, patience: Patience) -> Ending {
    let mut backoff = Backoff::new(&shared.with(|backlog| backlog.hello().session.clone()));
    let mut finish_was_sent = patience != Patience::Own;
    let mut steps_lost = 0;
    let mut troubles = 0;
    loop {
        let last_try = shared.ended.is_cancelled();
        let before = shared.with(|backlog| backlog.acknowledged());
        let trouble = match converse(route, shared, &mut finish_was_sent).await {
            Ended::Sealed => return sealed(shared),
            Ended::ClosedBefore => return closed_before(shared),
            Ended::Trouble(trouble) => trouble,
        };
        tracing::debug!(?trouble, "delivery interrupted");
        let text = in_words(route, &trouble);
        if shared.with(|backlog| backlog.acknowledged()) > before {
            backoff.reset();
            (steps_lost, troubles) = (0, 0);
        }
        troubles += 1;
        match (trouble.kind, patience) {
            (Kind::Refused, _) | (Kind::Held, Patience::Orphan { .. }) => return refused(shared, text),
            (Kind::OutOfStep, _) if steps_lost > 0 => return refused(shared, text),
            (Kind::OutOfStep, _) => {
                steps_lost += 1;
                continue;
            }
            (Kind::Forbidden, Patience::Orphan { .. }) => return Ending::Left(text),
            (_, Patience::Orphan { tries }) if troubles >= tries => return Ending::GaveUp(text),
            // what was never there, or serves nobody like us: waiting longer would only make the job longer
            (Kind::Unreachable, Patience::Own) if last_try && shared.welcomed.borrow().is_none() => {
                return Ending::GaveUp(text);
            }
            // the other run has no reason to end soon
            (Kind::Held, Patience::Own) if last_try => {
                return Ending::GaveUp(format!(
                    "this attempt's id is taken by another run, give --attempt; {text}"
                ));
            }
            (Kind::Denied, Patience::Orphan { .. }) => return Ending::GaveUp(text),
            (Kind::Denied | Kind::Forbidden, Patience::Own) if last_try => return Ending::GaveUp(text),
            _ => shared.set_problem(Some(text)),
        }
        let denied = matches!(trouble.kind, Kind::Denied | Kind::Forbidden);
        wait(shared, if denied { backoff.longest() } else { backoff.next(trouble.after) }).await;
        if !last_try && shared.ended.is_cancelled() {
            backoff.reset();
        }
    }
}

/// Waits, but not beyond the end of the build.
async fn wait(shared: &Shared, time: Duration) {
    let ended = shared.ended.is_cancelled();
    select! {
        () = sleep(time) => {}
        () = shared.ended.cancelled(), if !ended => {}
    }
}

fn sealed(shared: &Shared) -> Ending {
    shared.with(|backlog| backlog.spool().map(|spool| spool.remove()));
    Ending::Delivered
}

fn closed_before(shared: &Shared) -> Ending {
    shared.with(Backlog::discard_file);
    let text = "the attempt is already closed on the server; every command needs an --attempt of its own";
    Ending::Refused(text.to_owned())
}

fn refused(shared: &Shared, text: String) -> Ending {
    shared.with(|backlog| backlog.spool().map(|spool| spool.set_aside(&text)));
    Ending::Refused(text)
}

fn in_words(route: &Route, trouble: &Trouble) -> String {
    let server = route.server();
    match trouble.kind {
        Kind::Unreachable => format!("no server at {server} ({})", trouble.text),
        _ => format!("{server}: {}", trouble.text),
    }
}
