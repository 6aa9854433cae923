//! Steps of the ledger of a server upstream: calls, answers, and what they change.

use crate::domain::{TicketId, UpstreamServer, UpstreamTicket};

/// A ticket here with its number in the order of opening.
pub type TicketHolder = (TicketId, u64);

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerStep {
    /// Close the ticket with this number.
    Close(u32),
    /// Take a ticket, after [`UpstreamLedger::intend`] is on disk.
    Take,
    /// Collect the ticket with this number.
    Collect(u32),
    /// Collect this number, to see whether it has been given out.
    Look(u32),
    /// Nothing until this moment, by the monotonic clock in milliseconds.
    Wait(u64),
}

/// What `collectTicket` answers.
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
}

/// A change that must be on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerWrite {
    /// The server's numbers.
    Server(UpstreamServer),
    /// A ticket upstream.
    Put(UpstreamTicket),
    /// A ticket upstream that is closed.
    Delete(UpstreamTicket),
}

/// News for a ticket here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerEvent {
    /// Its machine is there, with this output.
    Ready(TicketHolder, String),
    /// Its machine has failed.
    Failed(TicketHolder),
    /// Its machine is gone: it has ended upstream, or was forgotten there.
    Gone(TicketHolder),
    /// It needs another ticket upstream.
    Again(TicketHolder),
}

/// What an answer changes: the writes go to disk in one commit before the events count.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LedgerEffects {
    /// Changes to write.
    pub writes: Vec<LedgerWrite>,
    /// News.
    pub events: Vec<LedgerEvent>,
    /// Numbers that only another client can have taken.
    pub foreign: u32,
    /// Numbers of answers that were lost, found now.
    pub found: u32,
    /// The server has begun its numbers anew: it has forgotten all that was taken before.
    pub restarted: bool,
}

/// Tickets at a server upstream, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LedgerCounts {
    /// Without a machine yet.
    pub waiting: u32,
    /// With a machine.
    pub ready: u32,
    /// Not closed yet upstream, although nothing here needs them.
    pub closing: u32,
}
