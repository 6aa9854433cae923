//! Decodes every entry of a store as the server would, and reports what cannot be decoded.

use std::convert::Infallible;

use plimsoll_core::domain::{
    Attempt, JobPod, Summary, Ticket, TicketNumbers, UpstreamServer, UpstreamTicket, Verdict,
};

use super::{offline::OfflineStore, readable_records::CheckFinding};
use crate::{
    chunk,
    codec::Record,
    envelope::RecordJoiner,
    keys::{self, KeyKind},
    kv::KeyValue,
};

/// Result of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Number of entries of all kinds.
    pub entries: u64,
    /// Number of attempts that have not ended.
    pub open: u64,
    /// Number of attempts that have ended.
    pub summaries: u64,
    /// Number of verdicts.
    pub verdicts: u64,
    /// Number of tickets that have not ended.
    pub tickets: u64,
    /// Samples in fragments and blocks; a sample that the agent sent twice counts twice.
    pub samples: u64,
    /// Number of bytes in keys and values.
    pub bytes: u64,
    /// Number of records that cannot be decoded.
    pub damaged: u64,
    /// Number of key ranges that cannot be read.
    pub unreadable: u64,
}

/// Collects the parts of records, one joiner for each kind, and counts what can be decoded.
#[derive(Debug, Default)]
struct Checker {
    attempts: RecordJoiner,
    summaries: RecordJoiner,
    verdicts: RecordJoiner,
    tickets: RecordJoiner,
    pods: RecordJoiner,
    numbers: RecordJoiner,
    upstream_servers: RecordJoiner,
    upstream_tickets: RecordJoiner,
    checked: CheckReport,
    flaws: Vec<CheckFinding>,
}

impl OfflineStore {
    /// Checks every readable entry. Passes each finding to `tell`, and after each entry the number of bytes
    /// read so far to `progress`.
    pub fn check(&self, mut tell: impl FnMut(CheckFinding), mut progress: impl FnMut(u64)) -> CheckReport {
        let mut checker = Checker::default();
        let read = self.each_past_damage::<Infallible>(|read| {
            match read {
                Ok(entry) => checker.take(&entry),
                Err(gap) => {
                    checker.checked.unreadable += 1;
                    tell(CheckFinding { key: gap.after.clone(), reason: gap.to_string() });
                }
            }
            checker.hand_over(&mut tell);
            progress(checker.checked.bytes);
            Ok(())
        });
        match read {
            Ok(()) => {}
            Err(never) => match never {},
        }
        checker.end();
        checker.hand_over(&mut tell);
        checker.checked
    }
}

impl Checker {
    fn take(&mut self, entry: &KeyValue) {
        let CheckReport { entries, bytes, .. } = &mut self.checked;
        *entries += 1;
        *bytes += (entry.key.len() + entry.value.value.len()) as u64;
        let first = entry.key.first().copied();
        let is = |kind: KeyKind| first == Some(kind as u8);
        if keys::id_of(&entry.key).is_none() {
            return self.flaw(&entry.key, "is not a key of this format".to_owned());
        }
        if is(KeyKind::Attempt) {
            let record = self.attempts.push::<Attempt>(entry);
            self.checked.open += note(record, &mut self.flaws);
        } else if is(KeyKind::Summary) {
            let record = self.summaries.push::<Summary>(entry);
            self.checked.summaries += note(record, &mut self.flaws);
        } else if is(KeyKind::Verdict) {
            let record = self.verdicts.push::<Verdict>(entry);
            self.checked.verdicts += note(record, &mut self.flaws);
        } else if is(KeyKind::Ticket) {
            let record = self.tickets.push::<Ticket>(entry);
            self.checked.tickets += note(record, &mut self.flaws);
        } else if is(KeyKind::Pod) {
            let record = self.pods.push::<JobPod>(entry);
            note(record, &mut self.flaws);
        } else if is(KeyKind::Numbers) {
            let record = self.numbers.push::<TicketNumbers>(entry);
            note(record, &mut self.flaws);
        } else if is(KeyKind::UpstreamServer) {
            let record = self.upstream_servers.push::<UpstreamServer>(entry);
            note(record, &mut self.flaws);
        } else if is(KeyKind::UpstreamTicket) {
            let record = self.upstream_tickets.push::<UpstreamTicket>(entry);
            note(record, &mut self.flaws);
        } else if is(KeyKind::Fragment) || is(KeyKind::Block) {
            self.take_chunk(entry);
        } else {
            self.flaw(&entry.key, "is of a kind that is not known".to_owned());
        }
    }

    fn take_chunk(&mut self, entry: &KeyValue) {
        let Some(start) = keys::start_of(&entry.key) else {
            return self.flaw(&entry.key, "has no number".to_owned());
        };
        match chunk::decode(start, &entry.value.value) {
            Ok(runs) => {
                self.checked.samples += runs.iter().map(|run| run.samples.len() as u64).sum::<u64>();
            }
            Err(damage) => self.flaw(&entry.key, damage.0),
        }
    }

    fn end(&mut self) {
        self.checked.open += note(self.attempts.finish::<Attempt>(), &mut self.flaws);
        self.checked.summaries += note(self.summaries.finish::<Summary>(), &mut self.flaws);
        self.checked.tickets += note(self.tickets.finish::<Ticket>(), &mut self.flaws);
        self.checked.verdicts += note(self.verdicts.finish::<Verdict>(), &mut self.flaws);
        note(self.pods.finish::<JobPod>(), &mut self.flaws);
        note(self.numbers.finish::<TicketNumbers>(), &mut self.flaws);
        note(self.upstream_servers.finish::<UpstreamServer>(), &mut self.flaws);
        note(self.upstream_tickets.finish::<UpstreamTicket>(), &mut self.flaws);
    }

    fn hand_over(&mut self, tell: impl FnMut(CheckFinding)) {
        self.checked.damaged += self.flaws.len() as u64;
        self.flaws.drain(..).for_each(tell);
    }

    fn flaw(&mut self, key: &[u8], reason: String) {
        self.flaws.push(CheckFinding { key: keys::text(key), reason });
    }
}

/// Returns 1 for a readable record; adds a damaged one to `flaws`, and returns 0.
fn note<T: Record>(record: Option<crate::envelope::JoinedRecord<T>>, flaws: &mut Vec<CheckFinding>) -> u64 {
    match record {
        Some((_, Ok(_))) => 1,
        Some((key, Err(damage))) => {
            flaws.push(CheckFinding { key: keys::text(&key), reason: damage.0 });
            0
        }
        None => 0,
    }
}
