//! `OpenTicket`, `WatchTicket`, `CloseTicket`: convert, call, convert; and the stream of one who watches.

use std::time::Duration;

use plimsoll_proto::v1 as pb;
use tonic::{Code, Request, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::{
    convert,
    guarded::{admitted, caller},
    outbound::{Answers, Outbound},
    status,
    streams::{AtOnce, Streams},
};
use crate::{
    domain::Ticket,
    identity::Identity,
    placement::tickets::{End, Refused},
    ticketing::{Claims, Refusal, Ticketing, View, Watching},
};

/// Each keeps a connection's stream and some KiB; whoever finds no place asks again with `OpenTicket`.
pub(super) const WATCHERS: AtOnce = AtOnce { what: "watchers of tickets", most: 16_384 };

/// How often a watcher is told that its turn has come nearer.
const LOOK: Duration = Duration::from_secs(5);

/// What the three calls need.
#[derive(Debug, Clone)]
pub(super) struct TicketCalls {
    pub(super) ticketing: Ticketing,
    pub(super) claims: Claims,
    watchers: Streams,
}

impl TicketCalls {
    pub(super) fn new(claims: Claims, watchers: Streams) -> Self {
        Self { ticketing: claims.ticketing.clone(), claims, watchers }
    }

    pub(super) async fn open(
        &self,
        caller: &Identity,
        asked: pb::OpenTicketRequest,
    ) -> Result<pb::Ticket, Status> {
        let (id, asked) = convert::opening(asked).map_err(|fault| status::of_fault(&fault))?;
        let claim = self.claims.claim(caller, &id, asked).map_err(|refusal| of_refusal(&refusal))?;
        let view = self.ticketing.open(&id, claim).await.map_err(|refusal| of_refusal(&refusal))?;
        Ok(ticket(&view))
    }

    pub(super) async fn close(
        &self,
        caller: &Identity,
        asked: &pb::CloseTicketRequest,
    ) -> Result<pb::Ticket, Status> {
        let id = convert::ticket_id("ticket", &asked.ticket).map_err(|fault| status::of_fault(&fault))?;
        let view = match asked.session.as_str() {
            "" => self.ticketing.close(&id, &asked.owner, caller).await,
            session => self.ticketing.give_back(&id, session, caller).await,
        };
        Ok(ticket(&view.map_err(|refusal| of_refusal(&refusal))?))
    }

    pub(super) fn watch(
        &self,
        request: &Request<pb::WatchTicketRequest>,
    ) -> Result<Answers<pb::WatchTicketResponse>, Status> {
        let (asked, caller) = (request.get_ref(), caller(request));
        let id = convert::ticket_id("ticket", &asked.ticket).map_err(|fault| status::of_fault(&fault))?;
        let stream = self.watchers.take(admitted(request))?;
        let watching =
            self.ticketing.watch(&id, asked.hold, &caller).map_err(|refusal| of_refusal(&refusal))?;
        Ok(stream.answer(|outbound| Box::pin(follow(watching, outbound))))
    }
}

/// Tells one watcher what becomes of the ticket, until it has ended.
async fn follow(mut watching: Watching, outbound: &Outbound<pb::WatchTicketResponse>) -> Result<(), Status> {
    let mut last = None;
    loop {
        let view = watching.view().await;
        match view {
            Ok(view) => {
                let now = ticket(&view);
                if last.as_ref() != Some(&now) {
                    outbound.send(pb::WatchTicketResponse { ticket: Some(now.clone()) }).await?;
                    last = Some(now);
                }
                if matches!(view, View::Ended(..)) {
                    return Ok(());
                }
            }
            // what is not on the disk is not told: it may be by the next time
            Err(Refusal::Unwritable(_)) => {}
            Err(refusal) => return Err(of_refusal(&refusal)),
        }
        let _elapsed = tokio::time::timeout(LOOK, watching.changed()).await;
    }
}

/// The fitting code, with the field or with `RetryInfo`.
fn of_refusal(refusal: &Refusal) -> Status {
    let code = match refusal {
        Refusal::Fault(fault) => return status::of_fault(fault),
        Refusal::Forbidden(fault) => return status::forbidden(fault),
        Refusal::Refused(Refused::Full(_) | Refused::Crowded { .. } | Refused::Mixed(_)) => {
            Code::ResourceExhausted
        }
        Refusal::Refused(Refused::Taken(_)) => Code::AlreadyExists,
        Refusal::Refused(Refused::Unknown(_)) => Code::NotFound,
        Refusal::Refused(Refused::Never(_)) => Code::FailedPrecondition,
        Refusal::Unwritable(_) | Refusal::Stopping => Code::Unavailable,
    };
    match refusal.retry_after() {
        Some(after) => {
            Status::with_error_details(code, refusal.to_string(), ErrorDetails::with_retry_info(Some(after)))
        }
        None => Status::new(code, refusal.to_string()),
    }
}

fn ticket(view: &View) -> pb::Ticket {
    let Ticket { id, claim, opened_unix_ms, granted_unix_ms, attempt, .. } = view.ticket();
    let state = match view {
        View::Open(_) if granted_unix_ms.is_some() => pb::TicketState::Granted,
        View::Open(_) => pb::TicketState::Queued,
        View::Ended(End::Closed, _) => pb::TicketState::Closed,
        View::Ended(End::Expired, _) => pb::TicketState::Expired,
    };
    let (position, wait, waits_for) = match view {
        View::Open(told) => (told.position, told.wait.0, told.waits_for.clone()),
        View::Ended(..) => (0, 0, Vec::new()),
    };
    pb::Ticket {
        ticket: id.to_string(),
        state: state.into(),
        owner: claim.owner.clone(),
        pool: claim.pool.clone(),
        kind: claim.kind.clone(),
        position: u32::try_from(position).unwrap_or(u32::MAX),
        estimated_wait_ms: wait,
        waits_for,
        opened_unix_ms: *opened_unix_ms,
        granted_unix_ms: *granted_unix_ms,
        attempt: attempt.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_stream::StreamExt as _;
    use tokio_util::{sync::CancellationToken, task::TaskTracker};

    use super::*;
    use crate::{
        answers, clock::Clock, domain::History, grpc::guarded::tests::OneStream, identity::Role,
        learned::Learned, metrics::Metrics, placing::Placing, predict, store::Store,
    };

    #[tokio::test]
    async fn a_watcher_has_one_of_its_callers_places_and_ends_when_access_changes_for_him() {
        let metrics = Arc::new(Metrics::new());
        let placing = Placing::open(None, Arc::clone(&metrics)).unwrap();
        let (ticketing, keeper) = Ticketing::new(Store::memory(), placing.clone(), metrics, Clock);
        let claims = Claims {
            learned: Learned::new(History::new(10)),
            answers: Arc::new(answers::Answers::default()),
            predict: Arc::new(predict::Settings::default()),
            placing,
            ticketing,
        };
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(keeper.run(stopping.clone()));
        let calls = TicketCalls::new(claims, Streams::new(WATCHERS, tasks, stopping));
        let one = OneStream::new(Role::Caller);
        let key = Some(pb::Key { package: "zlib".into(), ..pb::Key::default() });
        let question = pb::OpenTicketRequest { ticket: "t".into(), key, ..pb::OpenTicketRequest::default() };
        calls.open(&caller(&one.ask(())), question).await.unwrap();
        let watch = || calls.watch(&one.ask(pb::WatchTicketRequest { ticket: "t".into(), hold: false }));
        let mut answers = watch().unwrap();
        assert_eq!(answers.next().await.unwrap().unwrap().ticket.unwrap().ticket, "t");
        assert_eq!(watch().map(drop).unwrap_err().code(), Code::ResourceExhausted);
        one.change();
        assert_eq!(answers.next().await.unwrap().unwrap_err().code(), Code::Unavailable);
    }
}
