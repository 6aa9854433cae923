//! Decodes every entry of a store as the server would, and reports what cannot be decoded.

use std::collections::BTreeMap;

use plimsoll_core::domain::{
    Attempt, JobHook, JobPod, ProjectRename, Summary, Ticket, TicketNumbers, UpstreamServer, UpstreamTicket,
    Verdict,
};

use crate::{
    Store, chunk,
    codec::Record,
    envelope::RecordJoiner,
    errors::{KeyText, StoreResult},
    keys::{self, KeyKind},
    kv::{KeyValue, PageLimit, UnreadableRange},
    series_check::SeriesCheck,
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

/// An entry or a record that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFinding {
    /// Key of the record.
    pub key: KeyText,
    /// Why the record cannot be read, in words.
    pub reason: String,
}

/// Joins the parts of records, and counts what can be decoded.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    /// Number of the store's last commit: no entry has a later version.
    last_commit: u64,
    /// The record of each kind whose parts are read, by the first byte of its keys.
    joiners: BTreeMap<u8, RecordJoiner>,
    report: CheckReport,
    findings: Vec<CheckFinding>,
    /// Compares summaries and samples, in a store of which all can be read.
    series: Option<SeriesCheck>,
}

/// Checks every entry of an open store whose last commit is `last_commit`, and whether the samples are there that the summaries speak of.
/// Attempts that ended since `complete_since`, milliseconds since 1970, must have all of them; `None`: retention may have removed any.
/// Passes each finding to `on_finding`, and after each entry the number of bytes read so far to `progress`.
/// Errors: the store cannot be read.
pub async fn check_store(
    store: &Store,
    last_commit: u64,
    complete_since: Option<u64>,
    mut on_finding: impl FnMut(CheckFinding),
    mut progress: impl FnMut(u64),
) -> StoreResult<CheckReport> {
    let mut checker = Checker { series: Some(SeriesCheck::new(complete_since)), ..Checker::new(last_commit) };
    let mut after: Option<Vec<u8>> = None;
    loop {
        let (page, gap) = store.scan_past(&[], after.as_deref(), PageLimit::PAGE).await?;
        after = page.next_after();
        for read in gap.map(Err).into_iter().chain(page.entries.into_iter().map(Ok)) {
            progress(checker.check(read, &mut on_finding));
        }
        if after.is_none() {
            return Ok(checker.finish(on_finding));
        }
    }
}

impl Checker {
    /// A check of a store whose last commit is `last_commit`.
    pub(crate) fn new(last_commit: u64) -> Self {
        Self { last_commit, ..Self::default() }
    }

    /// Checks an entry, or counts a range that cannot be read; returns the number of bytes read so far.
    pub(crate) fn check(
        &mut self,
        read: Result<KeyValue, UnreadableRange>,
        on_finding: &mut impl FnMut(CheckFinding),
    ) -> u64 {
        match read {
            Ok(entry) => self.check_entry(&entry),
            Err(gap) => {
                self.report.unreadable += 1;
                on_finding(CheckFinding { key: gap.after.clone(), reason: gap.to_string() });
            }
        }
        self.report_findings(on_finding);
        self.report.bytes
    }

    /// Checks the last record of each kind.
    pub(crate) fn finish(mut self, on_finding: impl FnMut(CheckFinding)) -> CheckReport {
        for kind in KeyKind::ALL {
            self.check_record(kind, None);
        }
        // what cannot be read is not missing
        let is_readable = self.report.unreadable + self.report.damaged == 0 && self.findings.is_empty();
        if let Some(series) = self.series.take().filter(|_| is_readable) {
            for (id, reason) in series.finish() {
                self.add_finding(&KeyKind::Summary.prefix_of(&id), reason);
            }
        }
        self.report_findings(on_finding);
        self.report
    }

    fn check_entry(&mut self, entry: &KeyValue) {
        let CheckReport { entries, bytes, .. } = &mut self.report;
        *entries += 1;
        *bytes += (entry.key.len() + entry.value.value.len()) as u64;
        let version = entry.value.version;
        if !(1..=self.last_commit).contains(&version) {
            let last = self.last_commit;
            self.add_finding(
                &entry.key,
                format!("has version {version}, and commits have the numbers 1 to {last}"),
            );
        }
        if keys::id_of(&entry.key).is_none() {
            return self.add_finding(&entry.key, "is not a key of this format".to_owned());
        }
        match KeyKind::of(&entry.key) {
            Some(kind) if kind.is_chunk() => self.check_chunk(entry),
            Some(kind) => self.check_record(kind, Some(entry)),
            None => self.add_finding(&entry.key, "is of a kind that is not known".to_owned()),
        }
    }

    /// Adds a part to the records of its kind, or ends the last of them. Counts the record that ended.
    fn check_record(&mut self, kind: KeyKind, part: Option<&KeyValue>) {
        let joiner = self.joiners.entry(kind as u8).or_default();
        let ended = match kind {
            KeyKind::Attempt => joined::<Attempt>(joiner, part).map(|read| {
                read.map(|open| self.series.iter_mut().for_each(|series| series.add_open(open.id.clone())))
            }),
            KeyKind::Summary => joined::<Summary>(joiner, part).map(|read| {
                read.map(|summary| self.series.iter_mut().for_each(|series| series.add_summary(&summary)))
            }),
            KeyKind::Verdict => next_record::<Verdict>(joiner, part),
            KeyKind::Ticket => next_record::<Ticket>(joiner, part),
            KeyKind::Hook => next_record::<JobHook>(joiner, part),
            KeyKind::Pod => next_record::<JobPod>(joiner, part),
            KeyKind::Rename => next_record::<ProjectRename>(joiner, part),
            KeyKind::Numbers => next_record::<TicketNumbers>(joiner, part),
            KeyKind::UpstreamServer => next_record::<UpstreamServer>(joiner, part),
            KeyKind::UpstreamTicket => next_record::<UpstreamTicket>(joiner, part),
            KeyKind::Fragment | KeyKind::Block => None,
        };
        let CheckReport { open, summaries, verdicts, tickets, .. } = &mut self.report;
        match (ended, kind) {
            (Some(Err(finding)), _) => self.findings.push(finding),
            (Some(Ok(())), KeyKind::Attempt) => *open += 1,
            (Some(Ok(())), KeyKind::Summary) => *summaries += 1,
            (Some(Ok(())), KeyKind::Verdict) => *verdicts += 1,
            (Some(Ok(())), KeyKind::Ticket) => *tickets += 1,
            _ => {}
        }
    }

    fn check_chunk(&mut self, entry: &KeyValue) {
        let Some(start) = keys::start_of(&entry.key) else {
            return self.add_finding(&entry.key, "has no number".to_owned());
        };
        match chunk::decode(start, &entry.value.value) {
            Ok(runs) => {
                let covered = runs.first().zip(runs.last()).zip(keys::id_of(&entry.key));
                if let Some((((first, last), id), series)) = covered.zip(self.series.as_mut())
                    && KeyKind::of(&entry.key) == Some(KeyKind::Block)
                {
                    series.add_block(id, first.start(), last.end());
                }
                self.report.samples += runs.iter().map(|run| run.samples.len() as u64).sum::<u64>();
            }
            Err(damage) => self.add_finding(&entry.key, damage.0),
        }
    }

    fn report_findings(&mut self, on_finding: impl FnMut(CheckFinding)) {
        self.report.damaged += self.findings.len() as u64;
        self.findings.drain(..).for_each(on_finding);
    }

    fn add_finding(&mut self, key: &[u8], reason: String) {
        self.findings.push(CheckFinding { key: keys::text(key), reason });
    }
}

/// Adds a part, or ends the last record. The record that this ended; if it is damaged, why.
fn next_record<T: Record>(
    joiner: &mut RecordJoiner,
    part: Option<&KeyValue>,
) -> Option<Result<(), CheckFinding>> {
    joined::<T>(joiner, part).map(|read| read.map(drop))
}

/// Like [`next_record`], with the record.
fn joined<T: Record>(joiner: &mut RecordJoiner, part: Option<&KeyValue>) -> Option<Result<T, CheckFinding>> {
    let (key, record) = match part {
        Some(part) => joiner.push::<T>(part),
        None => joiner.finish(),
    }?;
    Some(record.map_err(|damage| CheckFinding { key: keys::text(&key), reason: damage.0 }))
}
