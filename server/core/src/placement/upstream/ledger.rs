//! The tickets that were taken at one server upstream: which call comes next, and what its answer changes. Pure: calls and writes are the
//! caller's, one at a time.
//!
//! The server gives out increasing numbers, has no list of tickets, and knows no owners. So a number that did not arrive here can be found
//! only if nothing else takes tickets there: it lies above the last number known before, and it is no other ticket's. The server's record
//! says how many such numbers there may be. It is on disk before each call of `takeTicket`.
//!
//! | a crash of either side | on disk | afterwards |
//! |---|---|---|
//! | before a take is intended | nothing | another take |
//! | after that, before its answer is on disk, with or without the call | one more take is unanswered | the numbers that follow the last one are looked at until all are found, and each is closed |
//! | after the answer is on disk | the ticket | goes on |
//! | before the machine's output is on disk | the ticket | it is collected again |
//! | after that, before the ticket's client gets it | the ticket with its output | the client gets it |
//! | while the ticket is closed upstream | the ticket; its holder has ended | it is closed again; an unknown one counts as closed |
//!
//! If more numbers are gone than takes are unanswered, another client took some: then nothing is closed. A take that no number explains
//! for ten minutes never got one.
//!
//! `looks` has the search for numbers, `closing` what becomes of tickets that are to be closed.

mod closing;
mod looks;

use std::collections::BTreeMap;

use looks::LastNumberSearch;

use super::steps::{
    CollectAnswer, LedgerCounts, LedgerEffects, LedgerEvent, LedgerStep, LedgerWrite, TicketHolder,
};
use crate::domain::{UpstreamServer, UpstreamTicket};

/// Interval between requests for a machine that is being started, milliseconds. The stock client of Resalloc uses the same interval.
const POLL_EVERY_MS: u64 = 3_000;
/// Interval between requests for a machine that is in use, milliseconds: the machine may have failed.
const CHECK_EVERY_MS: u64 = 60_000;
/// The first pause after a failure, and before lost numbers are searched, milliseconds. It doubles up to [`MAX_PAUSE_MS`].
const FIRST_PAUSE_MS: u64 = 1_000;
/// The longest of these pauses, milliseconds.
const MAX_PAUSE_MS: u64 = 60_000;
/// No ticket is taken while so many takes are unanswered. So one search looks at this number of tickets and one more.
const MAX_UNANSWERED_TAKES: u32 = 64;
/// No ticket is taken while the server does not close so many.
const MAX_CLOSING: usize = 64;
/// The largest number: clients read it as a signed integer of 32 bits.
const HIGHEST_NUMBER: u32 = i32::MAX as u32;

#[derive(Debug)]
struct LedgerTicket {
    record: UpstreamTicket,
    /// Whether the ticket here is still open.
    is_held: bool,
    /// When the next call about this ticket is due, by the monotonic clock.
    due_ms: u64,
    /// Since when the server has answered that it does not know this ticket, which is to be closed.
    unknown_since_ms: Option<u64>,
    /// Since when calls that close this ticket get no answer.
    silent_since_ms: Option<u64>,
}

impl LedgerTicket {
    fn new(record: UpstreamTicket) -> Self {
        Self {
            is_held: record.holder.is_some(),
            record,
            due_ms: 0,
            unknown_since_ms: None,
            silent_since_ms: None,
        }
    }
}

/// A pause that doubles with each failure.
#[derive(Debug, Clone, Copy, Default)]
struct Pause {
    failures: u32,
    until_ms: u64,
}

impl Pause {
    fn extend(&mut self, now_ms: u64) {
        let time =
            FIRST_PAUSE_MS.saturating_mul(1 << self.failures.min(MAX_PAUSE_MS.ilog2())).min(MAX_PAUSE_MS);
        self.failures = self.failures.saturating_add(1);
        self.until_ms = now_ms.saturating_add(time);
    }
}

/// The tickets at one upstream server, and what to do with them next.
#[derive(Debug)]
pub struct UpstreamLedger {
    server: UpstreamServer,
    tickets: BTreeMap<u32, LedgerTicket>,
    /// The pause after a call without a usable answer; no call is made until it is over.
    away: Pause,
    take: Pause,
    look: Pause,
    /// How many numbers above the last one were checked since the last pause of `look`, the highest first.
    looked: u32,
    /// Since when no number was found, and no answer was lost.
    quiet_since_ms: Option<u64>,
    /// The search for the last number at the first contact.
    search: LastNumberSearch,
}

impl UpstreamLedger {
    /// The tickets as they are on disk. The caller then names the holders that have ended.
    pub fn new(mut server: UpstreamServer, tickets: impl IntoIterator<Item = UpstreamTicket>) -> Self {
        let tickets = tickets.into_iter().map(|record| (record.number, LedgerTicket::new(record)));
        let tickets: BTreeMap<u32, LedgerTicket> = tickets.collect();
        // a crash came between two commits of one answer; an unknown last number is searched, since others may have taken some
        if let (Some(last), Some((highest, _))) = (&mut server.last, tickets.last_key_value()) {
            *last = (*last).max(*highest);
        }
        let [away, take, look] = <[Pause; 3]>::default();
        Self {
            server,
            tickets,
            away,
            take,
            look,
            looked: 0,
            quiet_since_ms: None,
            search: LastNumberSearch::default(),
        }
    }

    /// Sets whether other clients take tickets there too. Once they do not, the last number is searched: the numbers up to it may be
    /// theirs.
    pub fn set_shared(&mut self, shared: bool) -> Vec<LedgerWrite> {
        if self.server.shared == shared {
            return Vec::new();
        }
        self.server.shared = shared;
        if !shared {
            (self.server.last, self.server.unanswered, self.search) = (None, 0, LastNumberSearch::default());
        }
        vec![LedgerWrite::Server(self.server.clone())]
    }

    /// Calls of `takeTicket` that may have got a number which did not arrive, unless other clients take tickets too.
    pub fn unanswered(&self) -> u32 {
        if self.server.shared { 0 } else { self.server.unanswered }
    }

    /// The output of this ticket's machine, if other clients take tickets too: after the server has begun its numbers anew, one of them may
    /// have a ticket with this number.
    pub fn output_of_shared(&self, number: u32) -> Option<&str> {
        let entry = self.tickets.get(&number).filter(|_| self.server.shared)?;
        entry.record.output.as_deref()
    }

    /// Whether all tickets that were taken are closed, and no lost number is searched.
    pub fn is_done(&self) -> bool {
        self.tickets.is_empty() && self.unanswered() == 0
    }

    /// All records of tickets.
    pub fn tickets(&self) -> impl Iterator<Item = &UpstreamTicket> {
        self.tickets.values().map(|entry| &entry.record)
    }

    /// Number of tickets by state.
    pub fn counts(&self) -> LedgerCounts {
        let mut counts = LedgerCounts::default();
        for entry in self.tickets.values() {
            let of = match (entry.is_held, &entry.record.output) {
                (false, _) => &mut counts.closing,
                (true, None) => &mut counts.waiting,
                (true, Some(_)) => &mut counts.ready,
            };
            *of += 1;
        }
        counts
    }

    /// Notes that a ticket here has ended, which is on disk: its ticket upstream must be closed.
    pub fn release(&mut self, holder: &TicketHolder) {
        for entry in self.tickets.values_mut().filter(|entry| entry.record.holder.as_ref() == Some(holder)) {
            (entry.is_held, entry.due_ms) = (false, 0);
        }
    }

    /// What to do next. `wants`: a ticket here needs a ticket upstream.
    pub fn next(&self, wants: bool, now_ms: u64) -> LedgerStep {
        if self.away.until_ms > now_ms {
            return LedgerStep::Wait(self.away.until_ms);
        }
        let due = |is_held: bool| {
            let of = self.tickets.iter().filter(move |(_, entry)| entry.is_held == is_held);
            of.map(|(number, entry)| (entry.due_ms, *number)).min()
        };
        let (to_close, to_collect) = (due(false), due(true));
        if let Some((_, number)) = to_close.filter(|(due_ms, _)| *due_ms <= now_ms) {
            return LedgerStep::Close(number);
        }
        let closing = self.tickets.values().filter(|entry| !entry.is_held).count();
        let wants = wants && closing < MAX_CLOSING && self.unanswered() < MAX_UNANSWERED_TAKES;
        if wants && self.take.until_ms <= now_ms {
            return self.searched().map_or(LedgerStep::Take, LedgerStep::Look);
        }
        let lost = self.server.last.filter(|_| self.unanswered() > 0);
        if let Some(last) = lost.filter(|_| self.look.until_ms <= now_ms) {
            let left = self.server.unanswered.saturating_sub(self.looked);
            return LedgerStep::Look((last + 1).saturating_add(left).min(HIGHEST_NUMBER));
        }
        if let Some((_, number)) = to_collect.filter(|(due_ms, _)| *due_ms <= now_ms) {
            return LedgerStep::Collect(number);
        }
        let times = [to_close, to_collect].into_iter().flatten().map(|(due_ms, _)| due_ms);
        let times = times.chain(wants.then_some(self.take.until_ms)).chain(lost.map(|_| self.look.until_ms));
        LedgerStep::Wait(times.min().unwrap_or_else(|| now_ms.saturating_add(MAX_PAUSE_MS)))
    }

    /// Before each take: this must be on disk first.
    pub fn intend(&mut self) -> LedgerWrite {
        self.server.unanswered = self.server.unanswered.saturating_add(1);
        (self.look, self.looked) = (Pause::default(), 0);
        LedgerWrite::Server(self.server.clone())
    }

    /// Records that a call of `takeTicket` got this number for a ticket here.
    pub fn taken(&mut self, number: u32, holder: TicketHolder) -> LedgerEffects {
        self.away = Pause::default();
        self.server.unanswered = self.server.unanswered.saturating_sub(1);
        let mut effects = LedgerEffects::default();
        if self.server.last.is_some_and(|last| number <= last) {
            self.forget_all(&mut effects);
            self.server.last = Some(0);
        }
        if let Some(last) = self.server.last.filter(|_| !self.server.shared) {
            let between = last + 1..number;
            if between.len() <= self.server.unanswered as usize {
                between.for_each(|lost| self.found(lost, &mut effects));
            } else {
                effects.foreign = number - last - 1;
            }
        }
        if effects.foreign > 0 || effects.restarted {
            self.server.unanswered = 0;
        }
        self.server.last = Some(number);
        let record = UpstreamTicket { holder: Some(holder), ..self.record(number) };
        self.add(record, &mut effects);
        effects
    }

    /// Records that a call of `takeTicket` got no number. `is_sent`: the call may have got one upstream.
    pub fn not_taken(&mut self, is_sent: bool, now_ms: u64) {
        if is_sent {
            self.quiet_since_ms = None;
        } else {
            self.server.unanswered = self.server.unanswered.saturating_sub(1);
        }
        self.take.extend(now_ms);
    }

    /// Records that the server answered this step with a fault.
    pub fn fault(&mut self, step: LedgerStep, now_ms: u64) {
        (self.away, self.quiet_since_ms) = (Pause::default(), None);
        if step != LedgerStep::Take {
            self.postpone(step, now_ms);
        }
    }

    /// Records that the server could not be used.
    pub fn unreachable(&mut self, now_ms: u64) {
        self.away.extend(now_ms);
        // the ten minutes of a lost answer count only while the server answers
        self.quiet_since_ms = None;
    }

    /// Records that the server gave no usable answer to this step. The reason may be this step alone, so other steps go first afterwards.
    pub fn no_answer(&mut self, step: LedgerStep, now_ms: u64) {
        self.unreachable(now_ms);
        self.postpone(step, self.away.until_ms);
    }

    fn postpone(&mut self, step: LedgerStep, from_ms: u64) {
        let later_ms = from_ms.saturating_add(MAX_PAUSE_MS);
        match step {
            LedgerStep::Close(number) | LedgerStep::Collect(number) => {
                if let Some(entry) = self.tickets.get_mut(&number) {
                    entry.due_ms = later_ms;
                }
            }
            LedgerStep::Look(_) if self.server.last.is_some() => self.look.until_ms = later_ms,
            LedgerStep::Look(_) => self.take.extend(from_ms),
            // each take that fails has its pause already
            LedgerStep::Take => self.take.until_ms = from_ms.saturating_add(FIRST_PAUSE_MS),
            LedgerStep::Wait(_) => {}
        }
    }

    /// Records the state of the ticket with this number.
    pub fn collected(&mut self, number: u32, answer: CollectAnswer, now_ms: u64) -> LedgerEffects {
        self.away = Pause::default();
        let mut effects = LedgerEffects::default();
        let Some(entry) = self.tickets.get_mut(&number).filter(|entry| entry.is_held) else { return effects };
        let Some(holder) = entry.record.holder.clone() else { return effects };
        let is_out = entry.record.output.is_some();
        entry.due_ms = now_ms.saturating_add(if is_out { CHECK_EVERY_MS } else { POLL_EVERY_MS });
        match answer {
            CollectAnswer::Waits => {}
            // the server's numbers began anew, and this one is another client's ticket
            CollectAnswer::Ready(output) if is_out && entry.record.output.as_ref() != Some(&output) => {
                effects = self.closed(number);
                effects.events.push(LedgerEvent::Gone(holder));
            }
            CollectAnswer::Ready(_) | CollectAnswer::Unfit if is_out => {}
            CollectAnswer::Ready(output) => {
                entry.record.output = Some(output.clone());
                entry.due_ms = now_ms.saturating_add(CHECK_EVERY_MS);
                self.take = Pause::default();
                effects.writes.push(LedgerWrite::Put(entry.record.clone()));
                effects.events.push(LedgerEvent::Ready(holder, output));
            }
            CollectAnswer::Failed if entry.record.failed => {}
            CollectAnswer::Failed if is_out => {
                entry.record.failed = true;
                effects.writes.push(LedgerWrite::Put(entry.record.clone()));
                effects.events.push(LedgerEvent::Failed(holder));
            }
            // its end here closes it
            CollectAnswer::Closed | CollectAnswer::Unknown if is_out => {
                effects.events.push(LedgerEvent::Gone(holder));
            }
            CollectAnswer::Failed | CollectAnswer::Unfit => {
                entry.record.holder = None;
                (entry.is_held, entry.due_ms) = (false, 0);
                effects.writes.push(LedgerWrite::Put(entry.record.clone()));
                effects.events.push(LedgerEvent::Again(holder));
                self.take.extend(now_ms);
            }
            CollectAnswer::Closed | CollectAnswer::Unknown => {
                effects = self.closed(number);
                effects.events.push(LedgerEvent::Again(holder));
                self.take.extend(now_ms);
            }
        }
        effects
    }

    /// Forgets all tickets, because the server has begun its numbers anew: the same numbers may now belong to others, and must not be
    /// closed.
    fn forget_all(&mut self, effects: &mut LedgerEffects) {
        effects.restarted = true;
        for (_, LedgerTicket { record, is_held, .. }) in std::mem::take(&mut self.tickets) {
            let event = if record.output.is_some() { LedgerEvent::Gone } else { LedgerEvent::Again };
            effects.events.extend(record.holder.clone().filter(|_| is_held).map(event));
            effects.writes.push(LedgerWrite::Delete(record));
        }
    }

    fn add(&mut self, record: UpstreamTicket, effects: &mut LedgerEffects) {
        // in this order: they may be more than fit into one commit
        effects.writes.push(LedgerWrite::Put(record.clone()));
        effects.writes.push(LedgerWrite::Server(self.server.clone()));
        self.tickets.insert(record.number, LedgerTicket::new(record));
    }

    fn record(&self, number: u32) -> UpstreamTicket {
        let address = self.server.address.clone();
        UpstreamTicket { address, number, holder: None, output: None, failed: false }
    }
}
