//! The search for numbers at a server upstream: for the last one at the first contact, and for those that did not arrive here.

use super::{HIGHEST_NUMBER, LedgerEffects, LedgerTicket, LedgerWrite, Pause, UpstreamLedger};
use crate::domain::UpstreamServer;

/// How long a take may be without its number, while the server answers looks: beyond this time it is not counted. The server hangs for less,
/// and its clients wait for 30 s. Milliseconds.
pub(super) const LOST_ANSWER_MS: u64 = 600_000;
/// How many numbers above the last one are checked before the search for it ends. A sequence in `PostgreSQL` skips up to 32 numbers after a
/// crash (`SEQ_LOG_VALS` in its `sequence.c`), and one with each transaction that is rolled back.
const LONGEST_GAP: u32 = 64;

/// The search for the last number that the server has given out. Numbers may be missing between those that it knows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LastNumberSearch {
    /// The highest number that is known to be given out; 0 if none is.
    given_out: u32,
    /// A higher number that the server does not know; `None` until there is one.
    unknown: Option<u32>,
    /// How many numbers above `unknown` were checked after it had become the next one after `given_out`.
    checked_above: u32,
}

impl LastNumberSearch {
    /// The next number to check.
    fn next_number(self) -> u32 {
        match self.unknown {
            None => self.given_out.saturating_mul(2).clamp(1, HIGHEST_NUMBER),
            Some(unknown) if unknown - self.given_out > 1 => self.given_out + (unknown - self.given_out) / 2,
            Some(unknown) => unknown.saturating_add(self.checked_above + 1).min(HIGHEST_NUMBER),
        }
    }

    /// Records whether the server knows this number.
    fn record(&mut self, number: u32, is_given_out: bool) {
        match self.unknown {
            _ if is_given_out => {
                let unknown = self.unknown.filter(|unknown| *unknown > number);
                *self = Self { given_out: number, unknown, checked_above: 0 };
            }
            Some(unknown) if number >= unknown => self.checked_above += 1,
            _ => self.unknown = Some(number),
        }
    }

    fn is_done(self) -> bool {
        let is_next = self.unknown.is_some_and(|unknown| unknown - self.given_out <= 1);
        self.given_out == HIGHEST_NUMBER || (is_next && self.checked_above >= LONGEST_GAP)
    }
}

impl UpstreamLedger {
    /// The next number to check in the search for the last one; `None` if the last one is known or not needed.
    pub(super) fn searched(&self) -> Option<u32> {
        if self.server.last.is_some() || self.server.shared {
            return None;
        }
        Some(self.search.next_number())
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

    /// Records that no number was found. After [`LOST_ANSWER_MS`] there is none to find, and a new one is another client's.
    fn expire(&mut self, now_ms: u64, effects: &mut LedgerEffects) {
        let since_ms = *self.quiet_since_ms.get_or_insert(now_ms);
        if now_ms.saturating_sub(since_ms) >= LOST_ANSWER_MS {
            (self.server.unanswered, self.quiet_since_ms) = (0, None);
            effects.writes.push(LedgerWrite::Server(self.server.clone()));
        }
    }

    /// Does one step of the search for the last number.
    fn narrow(&mut self, number: u32, is_given_out: bool, effects: &mut LedgerEffects) {
        self.search.record(number, is_given_out);
        if self.search.is_done() {
            let last = Some(self.search.given_out);
            self.server = UpstreamServer { last, unanswered: 0, ..self.server.clone() };
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
        self.tickets.insert(number, LedgerTicket::new(record));
    }
}
