//! Steps of the ledger of a server upstream: calls, answers, and what they change.

use crate::domain::{TicketId, UpstreamServer, UpstreamTicket};

/// A ticket here, with its number in the order of opening: it has, or needs, a ticket upstream.
pub type TicketHolder = (TicketId, u64);

/// What the worker of an upstream does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerStep {
    /// Close the ticket with this number.
    Close(u32),
    /// Take a ticket, after `UpstreamLedger::intend` is on disk.
    Take,
    /// Collect the ticket with this number.
    Collect(u32),
    /// Collect this number, to see whether it has been given out.
    Look(u32),
    /// Nothing until this moment, by the monotonic clock in milliseconds.
    Wait(u64),
}

/// The state of a ticket, as `collectTicket` reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectAnswer {
    /// There is no such ticket.
    Unknown,
    /// The ticket has ended.
    Closed,
    /// The machine has failed, or there will be none.
    Failed,
    /// There is no machine yet.
    Waits,
    /// The machine is there, with this output.
    Ready(String),
    /// The machine is there, and its output cannot be kept: it is too long, or no text.
    Unfit,
}

/// A change that must be on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerWrite {
    /// The record of the server's numbers.
    Server(UpstreamServer),
    /// The record of a ticket upstream is stored.
    Put(UpstreamTicket),
    /// The record of a ticket upstream is removed, because the ticket is closed.
    Delete(UpstreamTicket),
}

/// An event that changes a ticket here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerEvent {
    /// The ticket's machine is ready, with this output.
    Ready(TicketHolder, String),
    /// The ticket's machine has failed.
    Failed(TicketHolder),
    /// The ticket's machine is gone: its ticket has ended upstream, or was forgotten there.
    Gone(TicketHolder),
    /// The ticket needs another ticket upstream.
    Again(TicketHolder),
}

/// What an answer changes: the writes go to disk in one commit before the events count.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LedgerEffects {
    /// Changes to write to disk.
    pub writes: Vec<LedgerWrite>,
    /// Events for tickets here.
    pub events: Vec<LedgerEvent>,
    /// How many numbers were found that only another client can have taken.
    pub foreign: u32,
    /// How many lost numbers were found.
    pub found: u32,
    /// Whether the server has begun its numbers anew, and so has forgotten all tickets from before.
    pub restarted: bool,
}

/// Number of tickets at an upstream server, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LedgerCounts {
    /// Tickets without a machine yet.
    pub waiting: u32,
    /// Tickets with a machine.
    pub ready: u32,
    /// Tickets that are not closed upstream yet, although no ticket here needs them.
    pub closing: u32,
}
