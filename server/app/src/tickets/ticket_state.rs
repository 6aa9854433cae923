//! The state behind the lock: tickets, unwritten changes, watchers, and the results of the last ended tickets.

mod attempts;

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use attempts::UnticketedAttempt;
use plimsoll_core::{
    domain::{AttemptId, Millis, SessionId, Ticket, TicketClaim, TicketId, TicketNumbers},
    placement::{
        Placement,
        hosts::Hosts,
        tickets::{ClockReading, LimitKey, TicketChange, TicketEnd, TicketRefusal, TicketStatus, Tickets},
    },
};
use tokio::sync::watch;

use super::upstream_queues::UpstreamQueues;
use crate::{
    access::{Refusal, Reply, identity::Identity},
    runtime::{
        audit::AUDIT,
        metrics::{KindLabel, Metrics},
    },
};

/// Most ended tickets that are kept, so that a late caller gets the result of its ticket and does not open the ticket again.
const MAX_ENDED_TICKETS: usize = 4096;

/// The state of a ticket as callers see it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum View {
    /// The ticket is open.
    Open(Box<TicketStatus>),
    /// The ticket has ended.
    Ended(TicketEnd, Box<Ticket>),
}

impl View {
    /// The ticket, in its current or last state.
    pub(crate) fn ticket(&self) -> &Ticket {
        match self {
            Self::Open(status) => &status.ticket,
            Self::Ended(_, ticket) => ticket,
        }
    }

    /// Whether the ticket waits until it can be used.
    pub(crate) fn waits(&self) -> bool {
        matches!(self, Self::Open(status) if !status.ticket.is_ready())
    }
}

/// The tickets and all that belongs to them, behind one lock.
#[derive(Debug)]
pub(super) struct TicketState {
    pub(super) tickets: Tickets,
    /// The content of the pools file that was last applied.
    pub(super) placement: Option<Arc<Placement>>,
    /// The hosts that tickets hold, and those that are kept or failed.
    pub(super) hosts: Hosts,
    /// Tickets that have a slot and still need a host, in the order of opening.
    pub(super) hostless: BTreeSet<(u64, TicketId)>,
    /// Tickets that wait for their slot in a pool with hosts, by pool and sandbox, in the order of opening.
    pub(super) sandboxed: HashMap<(String, String), BTreeSet<(u64, TicketId)>>,
    /// Tickets that want machines of servers upstream, or have some.
    pub(super) upstreams: UpstreamQueues,
    /// Whether the lists of hosts must be applied again: a list has changed, or a host that is no longer listed was returned.
    pub(super) is_list_new: bool,
    /// The last number that was given out as the id of a ticket.
    pub(super) numbers: TicketNumbers,
    /// Tickets whose record on disk is outdated.
    dirty: HashSet<TicketId>,
    /// Number of changes so far; the number of a change is the value after it.
    changes: u64,
    change_senders: HashMap<TicketId, watch::Sender<()>>,
    ended: HashMap<TicketId, (TicketEnd, Ticket)>,
    ended_in_order: VecDeque<TicketId>,
    /// Open attempts in a pool without a ticket's slot; at most as many as open attempts.
    unticketed: HashMap<AttemptId, UnticketedAttempt>,
    /// Jobs with a shared slot that is in use.
    jobs_with_shared_slot: HashSet<String>,
    /// Tickets that are kept for a retry of their last attempt, with the session that may give the slot back.
    kept_for_retry: HashMap<TicketId, SessionId>,
    pub(super) metrics: Arc<Metrics>,
}

impl TicketState {
    pub(super) fn new(tickets: Tickets, metrics: Arc<Metrics>) -> Self {
        Self {
            tickets,
            placement: None,
            hosts: Hosts::default(),
            hostless: BTreeSet::new(),
            sandboxed: HashMap::new(),
            upstreams: UpstreamQueues::default(),
            is_list_new: true,
            numbers: TicketNumbers::default(),
            dirty: HashSet::new(),
            changes: 0,
            change_senders: HashMap::new(),
            ended: HashMap::new(),
            ended_in_order: VecDeque::new(),
            unticketed: HashMap::new(),
            jobs_with_shared_slot: HashSet::new(),
            kept_for_retry: HashMap::new(),
            metrics,
        }
    }

    /// The number of the last change.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// The status of a ticket.
    pub(super) fn view(&self, id: &TicketId, now: ClockReading) -> Reply<View> {
        if let Some(mut status) = self.tickets.status(id, now) {
            self.name_upstream(&mut status);
            return Ok(View::Open(Box::new(status)));
        }
        let ended = self.ended.get(id).map(|(end, ticket)| View::Ended(*end, Box::new(ticket.clone())));
        ended.ok_or_else(|| TicketRefusal::Unknown(id.clone()).into())
    }

    /// The result of an ended ticket with this id; `None` if no such ticket is remembered, or its request differs from `claim`.
    pub(super) fn ended_as(&self, id: &TicketId, claim: &TicketClaim) -> Option<View> {
        let (end, ticket) = self.ended.get(id)?;
        ticket.claim.is_same(claim).then(|| View::Ended(*end, Box::new(ticket.clone())))
    }

    /// Whether the job's own ticket with this id has ended and `claim` is another caller's. The id then stays with the job, which may still
    /// ask for the result.
    pub(super) fn was_its_jobs(&self, id: &TicketId, claim: &TicketClaim) -> bool {
        self.ended.get(id).is_some_and(|(_, ticket)| ticket.claim.proven && !claim.proven)
    }

    /// Ends a ticket with a job's id that another caller opened, because the job itself now opens one. The next waiting ticket gets the
    /// slot.
    pub(super) fn take_over(&mut self, id: &TicketId, claim: &TicketClaim, now: ClockReading) {
        let yields = |ticket: &&Ticket| ticket.claim.yields_to(claim);
        let Some(project) = self.tickets.get(id).filter(yields).map(|ticket| ticket.claim.project.clone())
        else {
            return;
        };
        let Ok(changes) = self.tickets.close(id, now) else { return };
        self.note(changes, now);
        self.metrics.taken_over.get_or_create(&KindLabel::of("ticket")).inc();
        tracing::warn!(
            target: AUDIT,
            ticket = %id,
            project = claim.project,
            dropped_project = project,
            "ended another caller's ticket with a job's id: the job opened its own"
        );
    }

    /// Records a new ticket: it must be written, may want a host, and replaces the result of an ended ticket with the same id.
    pub(super) fn opened(&mut self, id: &TicketId, now: ClockReading) {
        self.changed(id, "opened");
        if let Some(ticket) = self.tickets.get(id).cloned() {
            self.want_host(&ticket, now);
        }
        if let Some((_, ticket)) = self.ended.remove(id) {
            self.ended_in_order.retain(|ended| *ended != ticket.id);
        }
    }

    /// Records changes: for the disk, for watchers, and for metrics.
    pub(super) fn note(&mut self, changes: Vec<TicketChange>, now: ClockReading) {
        for change in changes {
            match change {
                TicketChange::Granted(id) => self.granted(&id, now),
                TicketChange::Ended(ticket, end) => {
                    self.free_host(&ticket, now);
                    self.remember(*ticket, end);
                }
            }
        }
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let held = self.tickets.held(&LimitKey::All) as usize;
        self.metrics.tickets.get_or_create(&KindLabel::of("granted")).set(number(held));
        self.metrics.tickets.get_or_create(&KindLabel::of("queued")).set(number(self.tickets.len() - held));
        self.metrics.tickets_max.set(number(self.tickets.terms().most_open));
    }

    /// A receiver that is notified when a ticket changes.
    pub(super) fn change_receiver(&mut self, id: &TicketId) -> watch::Receiver<()> {
        self.change_senders.entry(id.clone()).or_default().subscribe()
    }

    /// Whether nothing but results of ended tickets is left.
    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        let is_unused = self.unticketed.is_empty()
            && self.jobs_with_shared_slot.is_empty()
            && self.kept_for_retry.is_empty();
        is_unused && self.tickets.is_empty() && self.change_senders.is_empty() && self.dirty.is_empty()
    }

    /// Removes the notifier of a ticket without watchers.
    pub(super) fn drop_watcher(&mut self, id: &TicketId) {
        if self.change_senders.get(id).is_some_and(|change_receiver| change_receiver.receiver_count() == 0) {
            self.change_senders.remove(id);
        }
    }

    /// The changes to write: ends first and tickets with hosts last, so that no slot and no host is held twice on disk in between.
    pub(super) fn take_dirty(&mut self) -> Vec<(TicketId, Option<Ticket>)> {
        let dirty = std::mem::take(&mut self.dirty);
        let mut dirty: Vec<(TicketId, Option<Ticket>)> =
            dirty.into_iter().map(|id| (id.clone(), self.tickets.get(&id).cloned())).collect();
        dirty.sort_unstable_by_key(|(_, ticket)| ticket.as_ref().map(|ticket| ticket.host.is_some()));
        dirty
    }

    /// Marks tickets as unwritten again after a failed write.
    pub(super) fn put_back(&mut self, dirty: impl IntoIterator<Item = TicketId>) {
        self.dirty.extend(dirty);
    }

    /// Counts and logs a request that can never be granted; `number` was given out for it.
    pub(super) fn refused(&mut self, number: u64, refusal: &Refusal) {
        self.changes += 1;
        self.count("refused");
        tracing::info!(ticket = number, %refusal, "refused a ticket for good: its client gets it as one that has ended");
    }

    fn count(&self, kind: &'static str) {
        self.metrics.ticket_changes.get_or_create(&KindLabel::of(kind)).inc();
    }

    pub(super) fn changed(&mut self, id: &TicketId, kind: &'static str) {
        self.changes += 1;
        self.dirty.insert(id.clone());
        self.count(kind);
        if let Some(change_receiver) = self.change_senders.get(id) {
            change_receiver.send_replace(());
        }
    }

    /// Notes when the token ends with which a job asked for its ticket.
    pub(super) fn renew(&mut self, id: &TicketId, caller: &Identity) {
        let is_its = self.tickets.get(id).is_some_and(|ticket| ticket.claim.by == caller.stored_name());
        if is_its && self.tickets.renew(id, caller.job_token_ends_unix_ms()) {
            self.changed(id, "renewed");
        }
    }

    fn granted(&mut self, id: &TicketId, now: ClockReading) {
        self.changed(id, "granted");
        if let Some(ticket) = self.tickets.get(id).cloned() {
            self.want_host(&ticket, now);
        }
        let opened = self.tickets.get(id).map_or(now.unix_ms, |ticket| ticket.opened_unix_ms);
        let waited = Millis(now.unix_ms.saturating_sub(opened));
        self.metrics.ticket_wait_seconds.observe(waited.as_f64() / 1000.0);
    }

    fn remember(&mut self, ticket: Ticket, end: TicketEnd) {
        let id = ticket.id.clone();
        let kind = match end {
            TicketEnd::Closed => "closed",
            TicketEnd::Expired => "expired",
        };
        self.kept_for_retry.remove(&id);
        self.changed(&id, kind);
        self.ended.insert(id.clone(), (end, ticket));
        self.ended_in_order.push_back(id);
        if self.ended_in_order.len() > MAX_ENDED_TICKETS
            && let Some(oldest) = self.ended_in_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }
}
