//! The search for numbers at a server upstream: for the last one at the first contact, and for those that did not arrive here.

use super::{LedgerEffects, LedgerTicket, LedgerWrite, MOST, Pause, UpstreamLedger};
use crate::domain::UpstreamServer;

/// How long a take may be without its number, while the server answers looks: beyond this time it is not counted. The server hangs for less,
/// and its clients wait for 30 s. Milliseconds.
const LATEST_MS: u64 = 600_000;

impl UpstreamLedger {
    /// The next number to check in the search for the last one; `None` if the last one is known or not needed.
    pub(super) fn searched(&self) -> Option<u32> {
        if self.server.last.is_some() || self.server.shared {
            return None;
        }
        Some(match self.search {
            (low, None) => low.saturating_mul(2).clamp(1, MOST),
            (low, Some(high)) => low + (high - low) / 2,
        })
    }

    /// Records whether the number that was checked has been given out.
    pub fn looked(&mut self, number: u32, is_given_out: bool, now_ms: u64) -> LedgerEffects {
        self.away = Pause::default();
        let mut effects = LedgerEffects::default();
        match self.server.last {
            None => self.narrow(number, is_given_out, &mut effects),
            // an upstream may have forgotten one number, and not the one before
            Some(_) if !is_given_out => {
                self.looked += 1;
                if self.looked > self.server.unanswered {
                    self.looked = 0;
                    self.look.extend(now_ms);
                    self.expire(now_ms, &mut effects);
                }
            }
            Some(last) => {
                self.server.last = Some(number);
                if number > last.saturating_add(self.server.unanswered) {
                    effects.foreign = number - last;
                    self.server.unanswered = 0;
                } else {
                    (last + 1..=number).for_each(|lost| self.found(lost, &mut effects));
                }
                (self.look, self.looked) = (Pause::default(), 0);
                effects.writes.push(LedgerWrite::Server(self.server.clone()));
            }
        }
        effects
    }

    /// Records that no number was found. After [`LATEST_MS`] there is none to find, and a new one is another client's.
    fn expire(&mut self, now_ms: u64, effects: &mut LedgerEffects) {
        let since_ms = *self.quiet_since_ms.get_or_insert(now_ms);
        if now_ms.saturating_sub(since_ms) >= LATEST_MS {
            (self.server.unanswered, self.quiet_since_ms) = (0, None);
            effects.writes.push(LedgerWrite::Server(self.server.clone()));
        }
    }

    /// Does one step of the search for the last number.
    fn narrow(&mut self, number: u32, is_given_out: bool, effects: &mut LedgerEffects) {
        let (low, high) = self.search;
        self.search = if is_given_out { (number, high) } else { (low, Some(number)) };
        let (low, high) = self.search;
        if high.is_some_and(|high| high - low <= 1) || low == MOST {
            self.server = UpstreamServer { last: Some(low), unanswered: 0, ..self.server.clone() };
            effects.writes.push(LedgerWrite::Server(self.server.clone()));
        }
    }

    /// Records a lost number: its ticket is only to be closed.
    pub(super) fn found(&mut self, number: u32, effects: &mut LedgerEffects) {
        if self.tickets.contains_key(&number) {
            return;
        }
        self.server.unanswered = self.server.unanswered.saturating_sub(1);
        self.quiet_since_ms = None;
        effects.found += 1;
        let record = self.record(number);
        effects.writes.push(LedgerWrite::Put(record.clone()));
        self.tickets.insert(number, LedgerTicket { record, is_held: false, due_ms: 0 });
    }
}
