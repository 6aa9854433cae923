//! What the lock guards: the tickets, what of them is not on the disk yet, who waits for a change, and how the last ones ended.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use plimsoll_core::{
    domain::{Attempt, AttemptId, Millis, PoolSlot, SessionId, Ticket, TicketClaim, TicketId, TicketNumbers},
    placement::{
        Placement,
        tickets::{ClockReading, LimitKey, TicketChange, TicketEnd, TicketRefusal, TicketStatus, Tickets},
    },
};
use tokio::sync::watch;

use super::Refusal;
use crate::runtime::{
    audit::AUDIT,
    metrics::{Kind, Metrics},
};

/// Ended tickets that are remembered, so that a late caller learns how they ended, and opens none of them anew.
const REMEMBERED: usize = 4096;

/// What is shown of a ticket.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum View {
    /// It is open.
    Open(Box<TicketStatus>),
    /// It has ended.
    Ended(TicketEnd, Box<Ticket>),
}

impl View {
    /// The ticket as it is, or was.
    pub(crate) fn ticket(&self) -> &Ticket {
        match self {
            Self::Open(status) => &status.ticket,
            Self::Ended(_, ticket) => ticket,
        }
    }
}

/// An open attempt without the place of a ticket.
#[derive(Debug)]
struct UnticketedAttempt {
    pool: String,
    /// Its agent is heard of, and it may: it takes a place.
    counts: bool,
}

/// The state behind the lock.
#[derive(Debug)]
pub(super) struct TicketState {
    pub(super) tickets: Tickets,
    /// The file of pools that is in force here.
    pub(super) placement: Option<Arc<Placement>>,
    /// Given out as ids of tickets.
    pub(super) numbers: TicketNumbers,
    /// Tickets whose record on the disk is not as they are.
    dirty: HashSet<TicketId>,
    /// Counts the changes.
    changes: u64,
    bells: HashMap<TicketId, watch::Sender<()>>,
    ended: HashMap<TicketId, (TicketEnd, Ticket)>,
    ended_in_order: VecDeque<TicketId>,
    /// Open attempts that run in a pool without the place of a ticket: as many as attempts are open at most.
    beside: HashMap<AttemptId, UnticketedAttempt>,
    /// Jobs of which one of those takes a place for all.
    seated: HashSet<String>,
    /// Tickets whose attempt has ended and may be followed by another one in their place, each with the agent that may give it back.
    left: HashMap<TicketId, SessionId>,
    metrics: Arc<Metrics>,
}

impl TicketState {
    pub(super) fn new(tickets: Tickets, metrics: Arc<Metrics>) -> Self {
        Self {
            tickets,
            placement: None,
            numbers: TicketNumbers::default(),
            dirty: HashSet::new(),
            changes: 0,
            bells: HashMap::new(),
            ended: HashMap::new(),
            ended_in_order: VecDeque::new(),
            beside: HashMap::new(),
            seated: HashSet::new(),
            left: HashMap::new(),
            metrics,
        }
    }

    /// The number of the last change.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Where a ticket stands.
    pub(super) fn view(&self, id: &TicketId, now: ClockReading) -> Result<View, Refusal> {
        if let Some(status) = self.tickets.status(id, now) {
            return Ok(View::Open(Box::new(status)));
        }
        let ended = self.ended.get(id).map(|(end, ticket)| View::Ended(*end, Box::new(ticket.clone())));
        ended.ok_or_else(|| TicketRefusal::Unknown(id.clone()).into())
    }

    /// How the ticket ended that was opened with this id and the same question; `None` if there was none, or it is another question.
    pub(super) fn ended_as(&self, id: &TicketId, claim: &TicketClaim) -> Option<View> {
        let (end, ticket) = self.ended.get(id)?;
        ticket.claim.is_same(claim).then(|| View::Ended(*end, Box::new(ticket.clone())))
    }

    /// Whether the id is that of a job whose own ticket has ended, and another caller claims it: the job still learns how its ticket ended.
    pub(super) fn was_its_jobs(&self, id: &TicketId, claim: &TicketClaim) -> bool {
        self.ended.get(id).is_some_and(|(_, ticket)| ticket.claim.proven && !claim.proven)
    }

    /// Ends the ticket with the id of a job whose own caller has come, unless that one opened it; its place goes to who is next.
    pub(super) fn take_over(&mut self, id: &TicketId, claim: &TicketClaim, now: ClockReading) {
        let yields = |ticket: &&Ticket| ticket.claim.yields_to(claim);
        let Some(project) = self.tickets.get(id).filter(yields).map(|ticket| ticket.claim.project.clone())
        else {
            return;
        };
        let Ok(changes) = self.tickets.close(id, now) else { return };
        self.note(changes, now);
        self.metrics.taken_over.get_or_create(&Kind::of("ticket")).inc();
        tracing::warn!(
            target: AUDIT,
            ticket = %id,
            project = claim.project,
            dropped_project = project,
            "ended another caller's ticket with a job's id: the job opened its own"
        );
    }

    /// A ticket is new.
    pub(super) fn opened(&mut self, id: &TicketId) {
        self.changed(id, "opened");
        if let Some((_, ticket)) = self.ended.remove(id) {
            self.ended_in_order.retain(|ended| *ended != ticket.id);
        }
    }

    /// Notes what has changed: for the disk, for those who wait for it, and for the metrics.
    pub(super) fn note(&mut self, changes: Vec<TicketChange>, now: ClockReading) {
        for change in changes {
            match change {
                TicketChange::Granted(id) => self.granted(&id, now),
                TicketChange::Ended(ticket, end) => self.remember(*ticket, end),
            }
        }
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let held = self.tickets.held(&LimitKey::All) as usize;
        self.metrics.tickets.get_or_create(&Kind::of("granted")).set(number(held));
        self.metrics.tickets.get_or_create(&Kind::of("queued")).set(number(self.tickets.len() - held));
        self.metrics.tickets_max.set(number(self.tickets.terms().most_open));
    }

    /// An attempt is open: if it names a ticket of its project that holds a place, it runs there; else it runs beside the tickets of
    /// its pool. True if a ticket has changed.
    pub(super) fn begin(&mut self, attempt: &Attempt) -> bool {
        let Some(id) = &attempt.opening.ticket else {
            self.occupy(attempt);
            return false;
        };
        let is_of_it = self.tickets.get(id).is_some_and(|ticket| ticket.claim.project == attempt.key.project);
        let begun = is_of_it && self.tickets.begin(id, &attempt.id);
        if begun {
            self.left.remove(id);
            self.changed(id, "attended");
        } else if self.tickets.get(id).is_none_or(|ticket| ticket.attempt.as_ref() != Some(&attempt.id)) {
            self.metrics.ticket_changes.get_or_create(&Kind::of("missed")).inc();
            tracing::debug!(attempt = %attempt.id, ticket = %id, "the attempt's ticket holds no place for it");
            self.occupy(attempt);
        }
        begun
    }

    /// Why a ticket holds no place for an attempt of a project, in words; `None` if it does. Nothing is said of other projects' tickets.
    pub(super) fn no_place(&self, id: &TicketId, attempt: &AttemptId, project: &str) -> Option<String> {
        let is_of_it = |ticket: &&Ticket| ticket.claim.project == project;
        let Some(ticket) = self.tickets.get(id).filter(is_of_it) else {
            let ended = self.ended.get(id).filter(|(_, ticket)| is_of_it(&ticket));
            return Some(match ended {
                Some((TicketEnd::Closed, _)) => "it has been closed".to_owned(),
                Some((TicketEnd::Expired, _)) => {
                    "it has expired: neither its build nor a client was heard from in time".to_owned()
                }
                None => format!("project {project:?} has no open ticket with this id"),
            });
        };
        match &ticket.attempt {
            Some(there) if there == attempt => None,
            Some(there) => Some(format!("attempt {there} runs in its place")),
            None if ticket.granted_unix_ms.is_none() => {
                Some("it waits in line and has no place yet".to_owned())
            }
            None => Some("the attempt began before the ticket had a place".to_owned()),
        }
    }

    /// An attempt has ended: so has its ticket, or the place that it took without one. What is granted by that is noted.
    pub(super) fn end(&mut self, attempt: &Attempt, now: ClockReading) {
        let mut changes = Vec::new();
        if let Some(UnticketedAttempt { pool, counts: true }) = self.beside.remove(&attempt.id) {
            changes.extend(self.free_slot(attempt, &pool, now));
        }
        if let Some(id) = &attempt.opening.ticket {
            changes.extend(self.tickets.end(id, &attempt.id, now));
        }
        self.note(changes, now);
    }

    /// An attempt has ended, and another try follows in its place.
    pub(super) fn vacate_for_retry(&mut self, attempt: &Attempt, now: ClockReading) {
        let id =
            attempt.opening.ticket.as_ref().filter(|id| self.tickets.vacate_for_retry(id, &attempt.id, now));
        match id.cloned() {
            Some(id) => {
                self.changed(&id, "kept");
                self.left.insert(id, attempt.session.clone());
            }
            None => self.end(attempt, now),
        }
    }

    /// Whether the last attempt in a ticket's place was of this session, and none has followed yet.
    pub(super) fn was_left_by(&self, id: &TicketId, session: &str) -> bool {
        self.left.get(id).is_some_and(|left| left.as_str() == session)
    }

    /// An agent is silent for so long that what its attempt takes is given to others, or is heard of again.
    pub(super) fn hear(&mut self, attempt: &Attempt, is_silent: bool, now: ClockReading) {
        let Some(beside) = self.beside.get_mut(&attempt.id) else {
            if is_silent {
                self.end(attempt, now);
                // if it is heard of again, its ticket has ended
                let beside = UnticketedAttempt { pool: attempt.opening.pool.clone(), counts: false };
                self.beside.insert(attempt.id.clone(), beside);
            }
            return;
        };
        if beside.counts != is_silent {
            return;
        }
        let pool = beside.pool.clone();
        let counts = if is_silent {
            let changes = self.free_slot(attempt, &pool, now);
            self.note(changes, now);
            false
        } else {
            self.take_slot(attempt)
        };
        if let Some(beside) = self.beside.get_mut(&attempt.id) {
            beside.counts = counts;
        }
    }

    fn occupy(&mut self, attempt: &Attempt) {
        let pool = &attempt.opening.pool;
        if !pool.is_empty() && !self.beside.contains_key(&attempt.id) {
            let counts = self.take_slot(attempt);
            self.beside.insert(attempt.id.clone(), UnticketedAttempt { pool: pool.clone(), counts });
        }
    }

    /// Takes a place in the attempt's pool, if it may have one there; true if it does.
    fn take_slot(&mut self, attempt: &Attempt) -> bool {
        let is_free = match attempt.unticketed_slot() {
            None => false,
            Some(PoolSlot::Own) => true,
            Some(PoolSlot::OfJob(job)) => self.seated.insert(job),
        };
        if is_free {
            self.tickets.occupy(&attempt.opening.pool);
        }
        is_free
    }

    /// Gives the place back that an attempt took.
    fn free_slot(&mut self, attempt: &Attempt, pool: &str, now: ClockReading) -> Vec<TicketChange> {
        if let Some(PoolSlot::OfJob(job)) = attempt.unticketed_slot() {
            self.seated.remove(&job);
        }
        self.tickets.vacate(pool, now)
    }

    /// Wakes watchers when a ticket changes.
    pub(super) fn bell(&mut self, id: &TicketId) -> watch::Receiver<()> {
        self.bells.entry(id.clone()).or_default().subscribe()
    }

    /// Whether nothing is left of any ticket but how it ended.
    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        let is_unused = self.beside.is_empty() && self.seated.is_empty() && self.left.is_empty();
        is_unused && self.tickets.is_empty() && self.bells.is_empty() && self.dirty.is_empty()
    }

    /// Takes a bell away that has no watcher.
    pub(super) fn drop_watcher(&mut self, id: &TicketId) {
        if self.bells.get(id).is_some_and(|bell| bell.receiver_count() == 0) {
            self.bells.remove(id);
        }
    }

    /// What is to be written: ends first, so that no place is held twice on the disk in between.
    pub(super) fn take_dirty(&mut self) -> Vec<(TicketId, Option<Ticket>)> {
        let dirty = std::mem::take(&mut self.dirty);
        let mut dirty: Vec<(TicketId, Option<Ticket>)> =
            dirty.into_iter().map(|id| (id.clone(), self.tickets.get(&id).cloned())).collect();
        dirty.sort_unstable_by_key(|(_, ticket)| ticket.is_some());
        dirty
    }

    /// What could not be written.
    pub(super) fn put_back(&mut self, dirty: impl IntoIterator<Item = TicketId>) {
        self.dirty.extend(dirty);
    }

    /// What a number was given out for can never be granted.
    pub(super) fn refused(&mut self, number: u64, refusal: &Refusal) {
        self.changes += 1;
        self.count("refused");
        tracing::info!(ticket = number, %refusal, "refused a ticket for good: its client gets it as one that has ended");
    }

    fn count(&self, kind: &'static str) {
        self.metrics.ticket_changes.get_or_create(&Kind::of(kind)).inc();
    }

    pub(super) fn changed(&mut self, id: &TicketId, kind: &'static str) {
        self.changes += 1;
        self.dirty.insert(id.clone());
        self.count(kind);
        if let Some(bell) = self.bells.get(id) {
            bell.send_replace(());
        }
    }

    fn granted(&mut self, id: &TicketId, now: ClockReading) {
        self.changed(id, "granted");
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
        self.left.remove(&id);
        self.changed(&id, kind);
        self.ended.insert(id.clone(), (end, ticket));
        self.ended_in_order.push_back(id);
        if self.ended_in_order.len() > REMEMBERED
            && let Some(oldest) = self.ended_in_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }
}
