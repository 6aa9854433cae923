//! Walks over all records of a kind.
//!
//! A record that is damaged is logged with its key, counted and skipped: one bad sector must not keep a server from starting.

use tokio::{sync::mpsc, task::JoinError};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::{
    Store,
    bytes::Damage,
    codec::Record,
    envelope::{Joined, Joiner},
    errors::StoreError,
    keys::{self, Kind},
    kv::{Limit, Page},
    packed::Reused,
    past_damage::Gap,
    strip::Strip,
};
use crate::domain::{Summary, Ticket, Verdict};

/// Strips that are read ahead of who understands them, each of up to 1 MiB.
const AHEAD: usize = 4;

/// How a walk over all records of a kind went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Records that were read.
    pub records: u64,
    /// Records that could not be understood; each is in the log.
    pub damaged: u64,
}

/// Hands every summary to `take`, in the order of the ids.
pub async fn load_summaries(store: &Store, take: impl FnMut(Summary) + Send) -> Result<Loaded, StoreError> {
    load(store, Kind::Summary, take, None).await
}

/// The same on a thread that may work for long, from one piece of memory for each page, and into one summary after the other: a start
/// does nothing more often, and the allocator takes longer for a summary than the disk.
pub async fn each_summary(
    store: &Store,
    take: impl FnMut(&Summary) + Send + 'static,
) -> Result<Loaded, StoreError> {
    let (read, mut strips) = mpsc::channel::<Strip>(AHEAD);
    let mut reading =
        Reading { joiner: Joiner::default(), reused: Reused::default(), loaded: Loaded::default(), take };
    let understanding = tokio::task::spawn_blocking(move || {
        while let Some(strip) = strips.blocking_recv() {
            reading.read(&strip);
        }
        reading.hand_on();
        reading.loaded
    });
    let ended = read_strips(store, &Kind::Summary.prefix(), read).await;
    let loaded = understanding.await.map_err(failed)?;
    ended.map(|()| loaded)
}

/// Reads all that begins with `prefix`; ends early if nobody takes it any more.
async fn read_strips(store: &Store, prefix: &[u8], to: mpsc::Sender<Strip>) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let strip = store.strip(prefix, after.as_deref(), Limit::PAGE).await?;
        after = strip.last_key().filter(|_| strip.more).map(<[u8]>::to_vec);
        if to.send(strip).await.is_err() || after.is_none() {
            return Ok(());
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn failed(error: JoinError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

/// Summaries on their way from strips.
struct Reading<F> {
    joiner: Joiner,
    reused: Reused,
    loaded: Loaded,
    take: F,
}

impl<F: FnMut(&Summary)> Reading<F> {
    fn read(&mut self, strip: &Strip) {
        for (key, value) in strip.entries() {
            if self.joiner.is_next(key) {
                self.hand_on();
            }
            self.joiner.add(key, value);
        }
    }

    /// Hands on the record whose parts are all there.
    fn hand_on(&mut self) {
        let Self { joiner, reused, loaded, take } = self;
        let Some(payload) = joiner.payload() else { return };
        match payload.and_then(|(codec, payload)| reused.unpack(codec, payload, take)) {
            Ok(()) => loaded.records += 1,
            Err(damage) => loaded.note_damage(joiner.key(), &damage),
        }
    }
}

impl Loaded {
    /// Counts a record, and hands it on if it is whole.
    fn note<T>(&mut self, (key, record): Joined<T>, take: &mut impl FnMut(T)) {
        match record {
            Ok(record) => {
                self.records += 1;
                take(record);
            }
            Err(damage) => self.note_damage(&key, &damage),
        }
    }

    fn note_damage(&mut self, key: &[u8], damage: &Damage) {
        self.damaged += 1;
        tracing::error!(key = %keys::text(key), %damage, "skipped a damaged record of the store");
    }
}

/// The same as [`load_summaries`]; what cannot be read is handed to `gap`, and reading goes on behind it.
pub async fn load_summaries_past_damage(
    store: &Store,
    take: impl FnMut(Summary) + Send,
    mut gap: impl FnMut(Gap) + Send,
) -> Result<Loaded, StoreError> {
    load(store, Kind::Summary, take, Some(&mut gap)).await
}

/// Hands every verdict to `take`, in the order of the ids.
pub async fn load_verdicts(store: &Store, take: impl FnMut(Verdict) + Send) -> Result<Loaded, StoreError> {
    load(store, Kind::Verdict, take, None).await
}

/// Hands every open ticket to `take`, in the order of the ids.
pub async fn load_tickets(store: &Store, take: impl FnMut(Ticket) + Send) -> Result<Loaded, StoreError> {
    load(store, Kind::Ticket, take, None).await
}

/// A page; reads past what is damaged if `past` says so.
async fn page_of(
    store: &Store,
    prefix: &[u8],
    after: Option<&[u8]>,
    past: bool,
) -> Result<(Page, Option<Gap>), StoreError> {
    if past {
        return store.scan_past(prefix, after, Limit::PAGE).await;
    }
    store.scan(prefix, after, Limit::PAGE).await.map(|page| (page, None))
}

/// Hands every record of a kind to `take`, in the order of the keys; with `gaps`, reading goes on behind what is damaged.
pub(super) async fn load<T, F>(
    store: &Store,
    kind: Kind,
    mut take: F,
    mut gaps: Option<&mut (dyn FnMut(Gap) + Send)>,
) -> Result<Loaded, StoreError>
where
    T: Record + Send + 'static,
    F: FnMut(T) + Send,
{
    let mut loaded = Loaded::default();
    let mut accept = |joined: Joined<T>| loaded.note(joined, &mut take);
    let (prefix, mut joiner, mut before) = (kind.prefix(), Joiner::default(), Vec::new());
    let past = gaps.is_some();
    let (mut page, mut gap) = page_of(store, &prefix, None, past).await?;
    loop {
        gaps.as_mut().zip(gap.take()).map(|(tell, gap)| tell(gap)).unwrap_or_default();
        let after = page.entries.last().filter(|_| page.more).map(|last| last.key.clone());
        // the next page is read while this one is understood, and the records of the one before are taken
        let next = after.map(|after| {
            let (store, prefix) = (store.clone(), prefix.clone());
            let read = async move { page_of(&store, &prefix, Some(&after), past).await };
            AbortOnDropHandle::new(TaskTracker::new().spawn(read))
        });
        let understood = tokio::task::spawn_blocking(move || {
            let records: Vec<Joined<T>> =
                page.entries.iter().filter_map(|entry| joiner.push(entry)).collect();
            (joiner, records)
        });
        before.into_iter().for_each(&mut accept);
        (joiner, before) = understood.await.map_err(failed)?;
        let Some(next) = next else { break };
        (page, gap) = next.await.map_err(failed)??;
    }
    before.into_iter().for_each(&mut accept);
    joiner.finish().map(&mut accept).unwrap_or_default();
    Ok(loaded)
}
