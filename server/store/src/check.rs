//! Decodes every entry of a store as the server would, and reports what cannot be decoded.

use plimsoll_core::domain::{
    Attempt, JobPod, Summary, Ticket, TicketNumbers, UpstreamServer, UpstreamTicket, Verdict,
};

use crate::{
    Store, chunk,
    codec::Record,
    envelope::RecordJoiner,
    errors::{KeyText, StoreError},
    keys::{self, KeyKind},
    kv::{KeyValue, PageLimit, UnreadableRange},
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

/// Collects the parts of records, one joiner for each kind, and counts what can be decoded.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    /// Number of the store's last commit: no entry has a later version.
    last_commit: u64,
    attempts: RecordJoiner,
    summaries: RecordJoiner,
    verdicts: RecordJoiner,
    tickets: RecordJoiner,
    pods: RecordJoiner,
    numbers: RecordJoiner,
    upstream_servers: RecordJoiner,
    upstream_tickets: RecordJoiner,
    report: CheckReport,
    findings: Vec<CheckFinding>,
}

/// Checks every entry of an open store whose last commit is `last_commit`. Passes each finding to `on_finding`, and after each entry the number
/// of bytes read so far to `progress`.
/// Errors: the store cannot be read.
pub async fn check_store(
    store: &Store,
    last_commit: u64,
    mut on_finding: impl FnMut(CheckFinding),
    mut progress: impl FnMut(u64),
) -> Result<CheckReport, StoreError> {
    let mut checker = Checker::new(last_commit);
    let mut after: Option<Vec<u8>> = None;
    loop {
        let (page, gap) = store.scan_past(&[], after.as_deref(), PageLimit::PAGE).await?;
        after = page.entries.last().filter(|_| page.more).map(|last| last.key.clone());
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
        self.finish_records();
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
        let first = entry.key.first().copied();
        let is = |kind: KeyKind| first == Some(kind as u8);
        if keys::id_of(&entry.key).is_none() {
            return self.add_finding(&entry.key, "is not a key of this format".to_owned());
        }
        if is(KeyKind::Attempt) {
            let record = self.attempts.push::<Attempt>(entry);
            self.report.open += count_records(record, &mut self.findings);
        } else if is(KeyKind::Summary) {
            let record = self.summaries.push::<Summary>(entry);
            self.report.summaries += count_records(record, &mut self.findings);
        } else if is(KeyKind::Verdict) {
            let record = self.verdicts.push::<Verdict>(entry);
            self.report.verdicts += count_records(record, &mut self.findings);
        } else if is(KeyKind::Ticket) {
            let record = self.tickets.push::<Ticket>(entry);
            self.report.tickets += count_records(record, &mut self.findings);
        } else if is(KeyKind::Pod) {
            let record = self.pods.push::<JobPod>(entry);
            count_records(record, &mut self.findings);
        } else if is(KeyKind::Numbers) {
            let record = self.numbers.push::<TicketNumbers>(entry);
            count_records(record, &mut self.findings);
        } else if is(KeyKind::UpstreamServer) {
            let record = self.upstream_servers.push::<UpstreamServer>(entry);
            count_records(record, &mut self.findings);
        } else if is(KeyKind::UpstreamTicket) {
            let record = self.upstream_tickets.push::<UpstreamTicket>(entry);
            count_records(record, &mut self.findings);
        } else if is(KeyKind::Fragment) || is(KeyKind::Block) {
            self.check_chunk(entry);
        } else {
            self.add_finding(&entry.key, "is of a kind that is not known".to_owned());
        }
    }

    fn check_chunk(&mut self, entry: &KeyValue) {
        let Some(start) = keys::start_of(&entry.key) else {
            return self.add_finding(&entry.key, "has no number".to_owned());
        };
        match chunk::decode(start, &entry.value.value) {
            Ok(runs) => {
                self.report.samples += runs.iter().map(|run| run.samples.len() as u64).sum::<u64>();
            }
            Err(damage) => self.add_finding(&entry.key, damage.0),
        }
    }

    fn finish_records(&mut self) {
        self.report.open += count_records(self.attempts.finish::<Attempt>(), &mut self.findings);
        self.report.summaries += count_records(self.summaries.finish::<Summary>(), &mut self.findings);
        self.report.tickets += count_records(self.tickets.finish::<Ticket>(), &mut self.findings);
        self.report.verdicts += count_records(self.verdicts.finish::<Verdict>(), &mut self.findings);
        count_records(self.pods.finish::<JobPod>(), &mut self.findings);
        count_records(self.numbers.finish::<TicketNumbers>(), &mut self.findings);
        count_records(self.upstream_servers.finish::<UpstreamServer>(), &mut self.findings);
        count_records(self.upstream_tickets.finish::<UpstreamTicket>(), &mut self.findings);
    }

    fn report_findings(&mut self, on_finding: impl FnMut(CheckFinding)) {
        self.report.damaged += self.findings.len() as u64;
        self.findings.drain(..).for_each(on_finding);
    }

    fn add_finding(&mut self, key: &[u8], reason: String) {
        self.findings.push(CheckFinding { key: keys::text(key), reason });
    }
}

/// Returns 1 for a readable record; adds a damaged one to `flaws`, and returns 0.
fn count_records<T: Record>(
    record: Option<crate::envelope::JoinedRecord<T>>,
    flaws: &mut Vec<CheckFinding>,
) -> u64 {
    match record {
        Some((_, Ok(_))) => 1,
        Some((key, Err(damage))) => {
            flaws.push(CheckFinding { key: keys::text(&key), reason: damage.0 });
            0
        }
        None => 0,
    }
}
