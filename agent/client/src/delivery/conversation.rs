//! One stream with the server, from Hello to its end, for one attempt.
//!
//! The agent sends Hello; the server answers with Welcome, which names the number of the next sample. The agent then sends batches, at most
//! [`IN_FLIGHT`] of them without an acknowledgement, and Finish once all are acknowledged. If the stream ends earlier, the next
//! conversation begins after the last sample on the server's disk.

use std::{collections::VecDeque, time::Duration};

use plimsoll_proto::{
    shown,
    v1::{
        Ack, AgentMessage, ServerMessage, Welcome, agent_message, collector_client::CollectorClient,
        server_message::Message as Answer,
    },
};
use tokio::{
    select,
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::{
    backlog::StreamCursor, problem::DeliveryProblem, route::ServerRoute, shared_backlog::SharedBacklog,
};
use crate::token::with_token;

/// Most batches without an acknowledgement. One is on its way while the server writes another to disk; more would only fill queues.
const IN_FLIGHT: usize = 4;
/// How long samples are collected before they are sent as one batch: a little less than the usual time between two samples, so that each is
/// sent when it is taken, without waking up once more.
const GATHER_TIME: Duration = Duration::from_millis(900);
/// Number of samples from which a batch is sent at once.
const LARGE_BATCH: u64 = 1000;
/// Time limit for the connection and the Welcome together.
const OPEN_PATIENCE: Duration = Duration::from_secs(10);
/// How long an acknowledgement may take before the stream is closed. The limit is long, because reconnecting does not make a slow disk
/// faster.
const ACK_PATIENCE: Duration = Duration::from_mins(1);

/// How a conversation with the server ended.
#[derive(Debug)]
pub(super) enum ConversationEnd {
    /// The attempt is sealed, and everything that was sent is on the server's disk.
    Sealed,
    /// The attempt was already ended before this agent sent its end, so the server does not want the remaining samples.
    ClosedBefore,
    /// The conversation failed.
    Trouble(DeliveryProblem),
}

/// Sends the attempt's samples until the attempt is sealed, or the conversation fails.
pub(super) async fn converse(
    route: &ServerRoute,
    shared: &SharedBacklog,
    finish_was_sent: &mut bool,
) -> ConversationEnd {
    let (messages, receiver) = mpsc::channel(IN_FLIGHT + 2);
    let hello = shared.with(|backlog| backlog.hello().clone());
    let mut talk = OpenStream::new(shared, messages);
    if let Err(trouble) = talk.send(agent_message::Message::Hello(hello)) {
        return ConversationEnd::Trouble(trouble);
    }
    let opened = match timeout(OPEN_PATIENCE, open_stream(route, receiver)).await {
        Ok(opened) => opened,
        Err(elapsed) => {
            tracing::debug!(%elapsed, "no welcome");
            Err(DeliveryProblem::no_answer(OPEN_PATIENCE))
        }
    };
    let (welcome, mut answers) = match opened {
        Ok(opened) => opened,
        Err(trouble) => {
            route.doubt();
            return ConversationEnd::Trouble(trouble);
        }
    };
    if shared.with(|backlog| backlog.hello().attempt != welcome.attempt) {
        return ConversationEnd::Trouble(DeliveryProblem::wrong_attempt(&welcome.attempt));
    }
    if !welcome.runs_as.is_empty() {
        shared.with(|backlog| backlog.run_as(&welcome.runs_as));
    }
    shared.set_problem(None);
    let is_first = shared.welcomed.send_if_modified(|welcomed| {
        let first = welcomed.is_none();
        welcomed.get_or_insert_with(|| route.clone());
        first
    });
    // an attempt of an earlier run has no ticket any more, and its end counts as sent, so it does not get this warning
    if is_first && !*finish_was_sent && !welcome.no_place.is_empty() {
        let ticket = shared.with(|backlog| backlog.hello().ticket.clone());
        tracing::warn!(
            "ticket {ticket} holds no place for this build: {}",
            shown::escaped_line(&welcome.no_place)
        );
    }
    if welcome.sealed {
        return if *finish_was_sent { ConversationEnd::Sealed } else { ConversationEnd::ClosedBefore };
    }
    talk.cursor = shared.with(|backlog| backlog.begin(welcome.acknowledged));
    talk.waiting_since = None;
    let ended = talk.run(&mut answers).await;
    *finish_was_sent |= talk.finish_sent;
    ended
}

async fn open_stream(
    route: &ServerRoute,
    receiver: mpsc::Receiver<AgentMessage>,
) -> Result<(Welcome, Streaming<ServerMessage>), DeliveryProblem> {
    let channel = route.connect().await.map_err(DeliveryProblem::no_server)?;
    let mut client = CollectorClient::new(channel);
    let messages = with_token(route.token(), ReceiverStream::new(receiver)).await;
    let messages = messages.map_err(DeliveryProblem::unreadable_token)?;
    let answer = client.stream(messages).await;
    let mut answers =
        answer.map_err(|status| DeliveryProblem::from_first_status(&status, &route.server()))?.into_inner();
    loop {
        match answers.message().await {
            Ok(Some(ServerMessage { message: Some(Answer::Welcome(welcome)) })) => {
                return Ok((welcome, answers));
            }
            Ok(Some(_)) => {}
            Ok(None) => return Err(DeliveryProblem::closed(None)),
            Err(status) => return Err(DeliveryProblem::from_first_status(&status, &route.server())),
        }
    }
}

/// The state of one stream after its Welcome message.
struct OpenStream<'a> {
    shared: &'a SharedBacklog,
    messages: mpsc::Sender<AgentMessage>,
    cursor: StreamCursor,
    /// Last sequence number of each batch without an acknowledgement.
    in_flight: VecDeque<u64>,
    last_sent: Option<Instant>,
    /// The time since which an acknowledgement is expected; `None` if none is.
    waiting_since: Option<Instant>,
    finish_sent: bool,
    reconnect_after: Option<Duration>,
}

impl<'a> OpenStream<'a> {
    fn new(shared: &'a SharedBacklog, messages: mpsc::Sender<AgentMessage>) -> Self {
        Self {
            shared,
            messages,
            cursor: StreamCursor::default(),
            in_flight: VecDeque::new(),
            last_sent: None,
            waiting_since: None,
            finish_sent: false,
            reconnect_after: None,
        }
    }

    async fn run(&mut self, answers: &mut Streaming<ServerMessage>) -> ConversationEnd {
        loop {
            let look_again = match self.send_due_batches() {
                Ok(look_again) => look_again,
                Err(trouble) => return ConversationEnd::Trouble(trouble),
            };
            let give_up = self.waiting_since.map(|since| since + ACK_PATIENCE);
            select! {
                answer = answers.message() => {
                    if let Some(ended) = self.handle_answer(answer) {
                        return ended;
                    }
                }
                () = self.shared.wake.notified() => {}
                () = at(look_again) => {}
                () = at(give_up) => return ConversationEnd::Trouble(DeliveryProblem::no_answer(ACK_PATIENCE)),
            }
        }
    }

    /// Sends as many batches as may be unacknowledged. Returns the time at which to check again if nothing happens until then.
    fn send_due_batches(&mut self) -> Result<Option<Instant>, DeliveryProblem> {
        if self.finish_sent || self.reconnect_after.is_some() {
            return Ok(None);
        }
        while self.in_flight.len() < IN_FLIGHT {
            let cursor = &self.cursor;
            let (waiting, ended) = self.shared.with(|backlog| (backlog.waiting(cursor), backlog.ended()));
            let gathered =
                self.last_sent.map(|sent| sent + GATHER_TIME).filter(|until| *until > Instant::now());
            if let Some(until) = gathered.filter(|_| !ended && waiting < LARGE_BATCH) {
                return Ok((waiting > 0).then_some(until));
            }
            let cursor = &mut self.cursor;
            let Some(batch) = self.shared.with(|backlog| backlog.next_batch(cursor)) else {
                break;
            };
            self.in_flight.push_back(self.cursor.sent);
            self.last_sent = Some(Instant::now());
            self.send(agent_message::Message::Batch(batch))?;
        }
        if self.in_flight.is_empty()
            && let Some(finish) = self.shared.with(|backlog| backlog.finish_after(self.cursor.sent))
        {
            self.finish_sent = true;
            self.send(agent_message::Message::Finish(finish))?;
        }
        Ok(None)
    }

    fn send(&mut self, message: agent_message::Message) -> Result<(), DeliveryProblem> {
        self.waiting_since.get_or_insert_with(Instant::now);
        // the channel has room for every message without an acknowledgement, so an error means that it is closed
        self.messages.try_send(AgentMessage { message: Some(message) }).map_err(|error| {
            tracing::debug!(%error, "stream takes no message");
            DeliveryProblem::closed(self.reconnect_after)
        })
    }

    fn handle_answer(&mut self, answer: Result<Option<ServerMessage>, Status>) -> Option<ConversationEnd> {
        match answer {
            Ok(Some(ServerMessage { message: Some(Answer::Ack(ack)) })) => self.handle_ack(&ack),
            Ok(Some(ServerMessage { message: Some(Answer::Advice(advice)) })) => {
                tracing::debug!(text = advice.text, reconnect_after_ms = advice.reconnect_after_ms, "advice");
                self.reconnect_after = advice.reconnect_after_ms.map(Duration::from_millis);
                self.leave_if_asked()
            }
            Ok(Some(_)) => None,
            Ok(None) => Some(ConversationEnd::Trouble(DeliveryProblem::closed(self.reconnect_after))),
            Err(status) => Some(ConversationEnd::Trouble(
                DeliveryProblem::from_status(&status).with_wait(self.reconnect_after),
            )),
        }
    }

    fn handle_ack(&mut self, ack: &Ack) -> Option<ConversationEnd> {
        if let Err(trouble) = self.check_attempt(&ack.attempt) {
            return Some(ConversationEnd::Trouble(trouble));
        }
        self.shared.with(|backlog| backlog.acknowledge(ack.acknowledged));
        while self.in_flight.front().is_some_and(|last| *last <= ack.acknowledged) {
            self.in_flight.pop_front();
        }
        let owed = self.finish_sent || !self.in_flight.is_empty();
        self.waiting_since = owed.then(Instant::now);
        if ack.sealed { Some(ConversationEnd::Sealed) } else { self.leave_if_asked() }
    }

    /// Fails if the server answered about another attempt, because that acknowledges nothing of this one.
    fn check_attempt(&self, answered: &str) -> Result<(), DeliveryProblem> {
        let is_own = self.shared.with(|backlog| backlog.runs_as() == answered);
        if is_own { Ok(()) } else { Err(DeliveryProblem::wrong_attempt(answered)) }
    }

    /// Ends the stream if the server announced that it will stop, and no acknowledgement is expected.
    fn leave_if_asked(&self) -> Option<ConversationEnd> {
        let owed = self.finish_sent || !self.in_flight.is_empty();
        let after = self.reconnect_after.filter(|_| !owed)?;
        Some(ConversationEnd::Trouble(DeliveryProblem::closed(Some(after))))
    }
}

/// Waits until `moment`; for ever if it is `None`.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
