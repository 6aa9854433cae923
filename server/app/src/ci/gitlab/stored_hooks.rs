//! Keeps accepted hooks in the store until they are processed, so that neither a crash nor a takeover by another server loses one.
//!
//! | record | state | at the next start, here or at the server that takes over |
//! |---|---|---|
//! | without `applied` | to be processed | processed again, which changes nothing that was done |
//! | with `applied` | processed; waits for its attempt: until an open one ends, or for an hour | applied again, without asking GitLab |
//!
//! A record is committed before GitLab gets the answer. `FORMAT.md` of the store has its fields.

use plimsoll_core::{
    domain::{AppliedHook, Fnv, JobHook, ReportedOutcome},
    mask,
};
use plimsoll_store::{self as store, Batch, Store};

use super::job_hook::{self, EndedJob, ParsedHook};
use crate::runtime::clock::Clock;

/// Records removed in one commit: of each some have two or three parts.
const REMOVED_AT_ONCE: usize = 100;

/// A hook in the store.
#[derive(Debug)]
pub(crate) struct StoredHook {
    store: Store,
    pub(super) record: JobHook,
}

/// The hashes of a hook. They are stable over releases, because the first one names its record.
pub(super) fn hook_hashes(ended: &EndedJob, delivery: Option<&str>) -> Vec<u64> {
    let job = &ended.job;
    let named = |what: &str| Fnv::default().with_part(what).with(job.id.to_be_bytes());
    // the sender is included: a report by another project must not suppress the report by the job's
    // own project
    let by = &ended.reported.by;
    let of_speaker = |name: Fnv| if by.reports_on_all() { name } else { name.with_part(by.name()) };
    let end =
        named("end").with([ended.reported.end as u8]).with_part(job.host.as_deref().unwrap_or_default());
    let delivery = delivery.filter(|key| !key.is_empty());
    // the job's number is included: a sender that uses one key for all hooks must not lose hooks
    let delivery = delivery.map(|key| of_speaker(named("delivery").with_part(key)).value());
    let end = of_speaker(end).value();
    [Some(end), delivery].into_iter().flatten().collect()
}

/// The record of a hook.
pub(super) fn record(ended: &EndedJob, delivery: Option<&str>) -> JobHook {
    let mut hook = ended.body.clone();
    mask::json(&mut hook);
    let number = hook_hashes(ended, None).first().copied().unwrap_or_default();
    JobHook {
        name: format!("{number:016x}"),
        accepted_unix_ms: Clock.now_unix_ms(),
        host: ended.job.host.clone(),
        delivery: delivery.map(ToOwned::to_owned),
        hook,
        by: ended.reported.by.clone(),
        applied: None,
    }
}

/// The end of the job, with what GitLab's answers showed. `None` if the record reports no end.
pub(super) fn ended(record: &JobHook) -> Option<Box<EndedJob>> {
    let JobHook { host, hook, by, applied, .. } = record;
    let instance = host.as_ref().map(|host| format!("https://{host}"));
    let read = job_hook::read(hook.to_string().as_bytes(), instance.as_deref());
    let Ok(ParsedHook::Ended(mut ended)) = read else { return None };
    ended.reported.by.clone_from(by);
    if let Some(AppliedHook { cause, unneeded, .. }) = *applied {
        ended.reported = ReportedOutcome { cause, unneeded, ..ended.reported };
    }
    Some(ended)
}

impl StoredHook {
    /// Reads the hooks that are in the store, oldest first.
    /// Errors: the store cannot be read.
    pub(crate) async fn read_all(store: &Store) -> anyhow::Result<Vec<Self>> {
        let mut found = Vec::new();
        store::load(store, |record| found.push(Self { store: store.clone(), record })).await?;
        found.sort_by_key(|hook| hook.record.accepted_unix_ms);
        if !found.is_empty() {
            tracing::info!(hooks = found.len(), "job hooks of before the start are worked on");
        }
        Ok(found)
    }

    /// Commits a hook.
    /// Errors: the store does not take it.
    pub(super) async fn commit(store: Store, record: JobHook) -> anyhow::Result<Self> {
        let mut batch = Batch::default();
        store::put(&mut batch, &record)?;
        store.commit(batch).await?;
        Ok(Self { store, record })
    }

    /// Marks a hook as processed and waiting for its attempt. If that fails, the hook is processed
    /// again after the next start, which is harmless.
    pub(super) async fn mark_applied(mut self, reported: &ReportedOutcome) -> Self {
        if self.record.applied.is_some() {
            return self;
        }
        let ReportedOutcome { cause, unneeded, .. } = *reported;
        self.record.applied = Some(AppliedHook { at_unix_ms: Clock.now_unix_ms(), cause, unneeded });
        let Self { store, record } = self;
        match Self::commit(store.clone(), record.clone()).await {
            Ok(marked) => marked,
            Err(error) => {
                tracing::warn!(%error, "cannot mark a stored job hook as applied");
                Self { store, record }
            }
        }
    }

    /// Removes hooks that were processed or have waited long enough. Those that cannot be removed are processed again after
    /// the next start.
    pub(super) async fn remove(hooks: Vec<Self>) {
        for some in hooks.chunks(REMOVED_AT_ONCE) {
            let Some(Self { store, .. }) = some.first() else { continue };
            let mut batch = Batch::default();
            let encoded = some.iter().try_for_each(|hook| store::remove(&mut batch, &hook.record));
            let removed = match encoded {
                Ok(()) => store.commit(batch).await.map(drop).map_err(anyhow::Error::from),
                Err(error) => Err(error.into()),
            };
            if let Err(error) = removed {
                tracing::warn!(%error, hooks = some.len(), "processed job hooks cannot be removed from the store");
            }
        }
    }
}
