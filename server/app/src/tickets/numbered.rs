//! Tickets with numbers as their ids, for clients that name no id of their own: the client of Resalloc. Such a client repeats a call if it
//! does not see the answer, so that a ticket may be opened twice: one that its client does not collect by its number expires.
//!
//! A number is given out once, also over restarts. What could never be granted has a number and no ticket: to its client it is a ticket that
//! has ended, because this client repeats a call that fails for ever.

use plimsoll_core::{
    domain::{TicketClaim, TicketId, TicketNumbers},
    placement::tickets::ClockReading,
};
use plimsoll_store::{self as store, Store, StoreError};

use super::{TicketRegistry, TicketState, View, may_touch};
use crate::access::{Refusal, Reply, identity::Identity};

/// The largest number: clients read it as a signed integer of 32 bits.
const MAX_TICKET_NUMBER: u64 = i32::MAX as u64;

/// The last number to assume if the last one that was given out cannot be read. Half of all numbers is above it; the numbers that were
/// given out are below it.
const NUMBERS_AFTER_DAMAGE: TicketNumbers = TicketNumbers { last: MAX_TICKET_NUMBER / 2 };

/// A ticket as the caller that asks for its number may see it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NumberedTicket {
    /// The ticket is open, or it is known how it ended.
    Known(View),
    /// The ticket has ended and its result is forgotten, or the request could never have been granted.
    Gone,
    /// No ticket has this number, or the caller may not see it.
    Unknown,
}

/// Reads the last number that was given out as the id of a ticket.
pub(super) async fn read(store: &Store) -> Result<TicketNumbers, StoreError> {
    match store::read_ticket_numbers(store).await {
        Err(StoreError::Damaged { key, reason }) => {
            tracing::error!(%key, reason, "skipped the numbers of tickets, which are damaged; later tickets have much higher ones");
            Ok(NUMBERS_AFTER_DAMAGE)
        }
        read => read,
    }
}

/// The id of a ticket with this number.
fn id_of(number: u64) -> Reply<TicketId> {
    TicketId::parse(&format!("resalloc/{number}"))
        .map_err(|why| plimsoll_core::domain::FieldViolation::new("ticket", why).into())
}

impl TicketRegistry {
    /// Opens a ticket with a number as its id. A request that is refused for good gets a number too, and counts as a ticket that has ended.
    /// The number is on disk before it is returned.
    /// Errors: the same question may be answered later.
    pub(crate) async fn open_numbered(&self, claim: Reply<TicketClaim>) -> Reply<u64> {
        let opened = self.0.decide(|state, now| {
            let number = state.free_number(now)?;
            let opened = claim.and_then(|claim| state.open_numbered(number, claim, now));
            match opened {
                Err(refusal) if refusal.retry_after().is_some() => return Err(refusal),
                Err(refusal) => state.refused(number, &refusal),
                Ok(()) => {}
            }
            state.numbers.last = number;
            Ok(number)
        });
        self.0.kept(opened).await
    }

    /// The state of a ticket, which is on disk before it is returned. After the first call, the client counts as knowing the ticket's
    /// number.
    /// Errors: the store cannot write.
    pub(crate) async fn collect(&self, number: u64, caller: &Identity) -> Reply<NumberedTicket> {
        let collected = self.0.decide(|state, now| {
            let id = id_of(number)?;
            let found = state.numbered(number, caller, now)?;
            if let NumberedTicket::Known(View::Open(_)) = found {
                return state.collect(&id, caller, now).map(NumberedTicket::Known);
            }
            Ok(found)
        });
        self.0.kept(collected).await
    }

    /// Like [`Self::collect`], but waits until the ticket has its slot or has ended. A waiting ticket stays open while this call lasts.
    /// Errors: the same as [`Self::collect`].
    pub(crate) async fn collect_granted(&self, number: u64, caller: &Identity) -> Reply<NumberedTicket> {
        // collect() below answers for what may not be watched, and for what has ended meanwhile
        if let Ok(mut watching) = self.watch(&id_of(number)?, false, caller)
            && let Err(refusal) = watching.until_granted().await
            && refusal.retry_after().is_some()
        {
            return Err(refusal);
        }
        self.collect(number, caller).await
    }

    /// Whether a ticket still waits for its slot. The question keeps it open as long as a wait that ends now would.
    /// Errors: the same as [`Self::collect`].
    pub(crate) async fn still_waits(&self, number: u64, caller: &Identity) -> Reply<bool> {
        // collect() answers for what may not be watched, and for what has ended meanwhile
        let Ok(watching) = self.watch(&id_of(number)?, false, caller) else { return Ok(false) };
        match watching.view().await {
            Ok(view) => Ok(view.waits()),
            Err(refusal) if refusal.retry_after().is_some() => Err(refusal),
            Err(_) => Ok(false),
        }
    }

    /// Ends a ticket, if there is one that the caller may touch.
    /// Errors: the store cannot write.
    pub(crate) async fn close_numbered(&self, number: u64, caller: &Identity) -> Reply<()> {
        let closed = self.0.decide(|state, now| {
            if let NumberedTicket::Known(View::Open(_)) = state.numbered(number, caller, now)? {
                let changes = state.tickets.close(&id_of(number)?, now)?;
                state.note(changes, now);
            }
            Ok(())
        });
        self.0.kept(closed).await
    }
}

impl TicketState {
    /// The next number that is not the id of a ticket. A caller may have opened a ticket under such an id itself.
    fn free_number(&self, now: ClockReading) -> Reply<u64> {
        let mut number = self.numbers.last + 1;
        while self.view(&id_of(number)?, now).is_ok() {
            number += 1;
        }
        if number > MAX_TICKET_NUMBER { Err(Refusal::TicketNumbers) } else { Ok(number) }
    }

    fn collect(&mut self, id: &TicketId, caller: &Identity, now: ClockReading) -> Reply<View> {
        self.renew(id, caller);
        if self.tickets.collect(id, now) {
            self.changed(id, "collected");
        }
        self.view(id, now)
    }

    fn open_numbered(&mut self, number: u64, claim: TicketClaim, now: ClockReading) -> Reply<()> {
        let id = id_of(number)?;
        let changes = self.tickets.open(&id, claim, now)?;
        self.tickets.await_collector(&id, now);
        self.opened(&id, now);
        self.note(changes, now);
        Ok(())
    }

    fn numbered(&self, number: u64, caller: &Identity, now: ClockReading) -> Reply<NumberedTicket> {
        let id = id_of(number)?;
        Ok(match self.view(&id, now) {
            // the caller must not learn that it exists
            Ok(view) if may_touch(caller, &id, &view.ticket().claim).is_err() => NumberedTicket::Unknown,
            Ok(view) => NumberedTicket::Known(view),
            Err(_) if (1..=self.numbers.last).contains(&number) => NumberedTicket::Gone,
            Err(_) => NumberedTicket::Unknown,
        })
    }
}
