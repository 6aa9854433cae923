//! Tickets that are to be closed at a server upstream: closed, unknown there, or given up.

use super::{
    LedgerEffects, LedgerTicket, LedgerWrite, MAX_PAUSE_MS, Pause, UpstreamLedger, looks::LOST_ANSWER_MS,
};

impl UpstreamLedger {
    /// Records that the ticket with this number is closed upstream.
    pub fn closed(&mut self, number: u32) -> LedgerEffects {
        self.away = Pause::default();
        let gone = self.tickets.remove(&number).map(|entry| LedgerWrite::Delete(entry.record));
        LedgerEffects { writes: Vec::from_iter(gone), ..LedgerEffects::default() }
    }

    /// Records that the server does not know the ticket with this number, which was to be closed. A lost number may be of a take that the
    /// server has not finished, so it is closed again later; after [`LOST_ANSWER_MS`] it counts as closed.
    pub fn unknown_at_close(&mut self, number: u32, now_ms: u64) -> LedgerEffects {
        self.away = Pause::default();
        if let Some(entry) = self.tickets.get_mut(&number).filter(|entry| entry.record.holder.is_none()) {
            let since_ms = *entry.unknown_since_ms.get_or_insert(now_ms);
            if now_ms.saturating_sub(since_ms) < LOST_ANSWER_MS {
                entry.due_ms = now_ms.saturating_add(MAX_PAUSE_MS);
                return LedgerEffects::default();
            }
        }
        self.closed(number)
    }

    /// Records whether the server answered the call that closes a ticket, by a fault or a refusal, too.
    pub fn close_answered(&mut self, number: u32, has_answered: bool, now_ms: u64) {
        if let Some(entry) = self.tickets.get_mut(&number) {
            entry.silent_since_ms = (!has_answered).then(|| *entry.silent_since_ms.get_or_insert(now_ms));
        }
    }

    /// Gives up each ticket for which calls that close it have had no answer for `silence_ms`, and the search for lost numbers if no ticket
    /// is left: the server is gone for good. Returns the numbers of these tickets.
    pub fn give_up_closing(&mut self, silence_ms: u64, now_ms: u64) -> (Vec<u32>, LedgerEffects) {
        let is_over = |since_ms: u64| now_ms.saturating_sub(since_ms) >= silence_ms;
        let is_given_up = |entry: &LedgerTicket| !entry.is_held && entry.silent_since_ms.is_some_and(is_over);
        let given_up = self.tickets.iter().filter(|(_, entry)| is_given_up(entry));
        let given_up: Vec<u32> = given_up.map(|(number, _)| *number).collect();
        let records = given_up.iter().filter_map(|number| self.tickets.remove(number));
        let mut writes: Vec<LedgerWrite> = records.map(|entry| LedgerWrite::Delete(entry.record)).collect();
        if self.tickets.is_empty() {
            self.server.unanswered = 0;
            writes.push(LedgerWrite::Server(self.server.clone()));
        }
        (given_up, LedgerEffects { writes, ..LedgerEffects::default() })
    }
}
