//! Reads all records of a kind, one after the other.
//!
//! A damaged record is noted ([`Store::found_damage`]), counted and skipped, and so is a range of keys that the engine
//! cannot read: one bad sector must not keep a server from starting.

use plimsoll_core::domain::Summary;
use tokio::{sync::mpsc, task::JoinError};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::{
    Store,
    bytes::Damage,
    codec::Record,
    envelope::{JoinedRecord, RecordJoiner},
    errors::{StoreError, StoreResult},
    found_damage::FoundDamage,
    keys::KeyKind,
    kv::{PageLimit, UnreadableRange},
    packed_page::PackedPage,
    packed_summary::SummaryDecoder,
};

/// Most pages, each of up to 1 MiB, that wait to be decoded while the next one is read.
const PAGES_AHEAD: usize = 4;

/// How many records of a kind were read, and how many could not be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Number of records that were read.
    pub records: u64,
    /// Number of records that could not be decoded.
    pub damaged: u64,
    /// Number of key ranges that could not be read.
    pub unreadable: u64,
}

/// Passes every record of its type to `take`, sorted by key. What cannot be read is left out: see [`Store::found_damage`].
/// Errors: the store cannot be read at all.
pub async fn load<T: Record + Send + 'static>(
    store: &Store,
    take: impl FnMut(T) + Send,
) -> StoreResult<LoadReport> {
    load_past_damage(store, take, drop).await
}

/// Like [`load`] of summaries, but faster, for the start of a server, which mostly reads summaries. It decodes on
/// a thread that may block, with one allocation for each page and one summary that is reused: to allocate a
/// summary takes longer than to read it.
pub async fn each_summary(
    store: &Store,
    take: impl FnMut(&Summary) + Send + 'static,
) -> StoreResult<LoadReport> {
    let (read, mut strips) = mpsc::channel::<PackedPage>(PAGES_AHEAD);
    let mut reading = SummaryReader {
        joiner: RecordJoiner::default(),
        reused_record: SummaryDecoder::default(),
        report: LoadReport::default(),
        found_damage: store.found_damage(),
        take,
    };
    let understanding = tokio::task::spawn_blocking(move || {
        while let Some(strip) = strips.blocking_recv() {
            reading.read(&strip);
        }
        reading.pass_on_record();
        reading.report
    });
    let ended = read_packed_pages(store, &KeyKind::Summary.prefix(), read).await;
    let loaded = understanding.await.map_err(join_error)?;
    ended.map(|unreadable| LoadReport { unreadable, ..loaded })
}

/// Sends all entries with `prefix` to `page_sender`, in pages; ends early if the receiver is dropped. Returns the number
/// of key ranges that cannot be read.
async fn read_packed_pages(
    store: &Store,
    prefix: &[u8],
    page_sender: mpsc::Sender<PackedPage>,
) -> StoreResult<u64> {
    let (mut after, mut unreadable) = (None, 0);
    loop {
        let strip = match store.scan_packed(prefix, after.as_deref(), PageLimit::PAGE).await {
            Ok(strip) => strip,
            Err(_damaged) => {
                let (page, gap) = store.scan_past(prefix, after.as_deref(), PageLimit::PAGE).await?;
                unreadable += u64::from(gap.is_some());
                page.into()
            }
        };
        after = strip.last_key().filter(|_| strip.more).map(<[u8]>::to_vec);
        if page_sender.send(strip).await.is_err() || after.is_none() {
            return Ok(unreadable);
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn join_error(error: JoinError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

/// Joins the parts in pages to summaries, and decodes them.
struct SummaryReader<F> {
    joiner: RecordJoiner,
    reused_record: SummaryDecoder,
    report: LoadReport,
    found_damage: FoundDamage,
    take: F,
}

impl<F: FnMut(&Summary)> SummaryReader<F> {
    fn read(&mut self, strip: &PackedPage) {
        for (key, value) in strip.entries() {
            if self.joiner.is_next(key) {
                self.pass_on_record();
            }
            self.joiner.add(key, value);
        }
    }

    /// Decodes the current record, and passes its summary to `take`.
    fn pass_on_record(&mut self) {
        let Self { joiner, reused_record: reused, report: loaded, found_damage, take } = self;
        let Some(payload) = joiner.payload() else { return };
        match payload.and_then(|(codec, payload)| reused.unpack(codec, payload, take)) {
            Ok(()) => loaded.records += 1,
            Err(damage) => loaded.note_damage(found_damage, joiner.key(), &damage),
        }
    }
}

impl LoadReport {
    /// Counts a record as read or damaged; passes a readable one to `take`.
    fn count_record<T>(
        &mut self,
        found_damage: &FoundDamage,
        (key, record): JoinedRecord<T>,
        take: &mut impl FnMut(T),
    ) {
        match record {
            Ok(record) => {
                self.records += 1;
                take(record);
            }
            Err(damage) => self.note_damage(found_damage, &key, &damage),
        }
    }

    fn note_damage(&mut self, found_damage: &FoundDamage, key: &[u8], damage: &Damage) {
        self.damaged += 1;
        found_damage.note_record(key, damage);
    }
}

/// Like [`load`]; passes each range of keys that cannot be read to `on_unreadable`, and continues after it.
/// Errors: the store cannot be read at all.
pub async fn load_past_damage<T: Record + Send + 'static>(
    store: &Store,
    mut take: impl FnMut(T) + Send,
    mut on_unreadable: impl FnMut(UnreadableRange) + Send,
) -> StoreResult<LoadReport> {
    let (mut loaded, mut unreadable) = (LoadReport::default(), 0);
    let found_damage = store.found_damage();
    let mut accept = |joined: JoinedRecord<T>| loaded.count_record(&found_damage, joined, &mut take);
    let (prefix, mut joiner, mut before) = (T::KIND.prefix(), RecordJoiner::default(), Vec::new());
    let (mut page, mut gap) = store.scan_past(&prefix, None, PageLimit::PAGE).await?;
    loop {
        unreadable += u64::from(gap.is_some());
        gap.take().map(&mut on_unreadable).unwrap_or_default();
        let after = page.next_after();
        // three stages overlap: reading the next page, decoding this page, and using the records of the page
        // before
        let next = after.map(|after| {
            let (store, prefix) = (store.clone(), prefix.clone());
            let read = async move { store.scan_past(&prefix, Some(&after), PageLimit::PAGE).await };
            AbortOnDropHandle::new(TaskTracker::new().spawn(read))
        });
        let understood = tokio::task::spawn_blocking(move || {
            let records: Vec<JoinedRecord<T>> =
                page.entries.iter().filter_map(|entry| joiner.push(entry)).collect();
            (joiner, records)
        });
        before.into_iter().for_each(&mut accept);
        (joiner, before) = understood.await.map_err(join_error)?;
        let Some(next) = next else { break };
        (page, gap) = next.await.map_err(join_error)??;
    }
    before.into_iter().for_each(&mut accept);
    joiner.finish().map(&mut accept).unwrap_or_default();
    Ok(LoadReport { unreadable, ..loaded })
}
