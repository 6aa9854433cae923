//! Delivers spool files of earlier runs, if their agents were killed or did not reach the server in time.
//!
//! The files are delivered one after another, oldest first, on connections of their own, so that a server that accepts them slowly does not
//! delay the running attempt.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::task::yield_now;

use super::{
    backlog::Backlog,
    destination::SpoolDestination,
    quota::{DRAFT_SUFFIX, SPOOL_SUFFIX, SpoolFile, list_files},
    shared_backlog::SharedBacklog,
    spool::{AdoptedSpool, Spool},
    uplink::{DeliveryOutcome, RetryPolicy, deliver},
};

/// Most files that one run delivers.
const MAX_DELIVERED_FILES: usize = 100;
/// Most files that one run tries and then leaves because it may not deliver them. Each costs a connection and a request, all of them
/// together less than a second. If each job has its own token, these are the files of all other jobs.
const MAX_REFUSED_FILES: usize = 20;
/// Number of records that are read at a time. This takes less than a millisecond, so that a large file does not delay the samples of this
/// run.
const RECORDS_AT_ONCE: usize = 200;
/// Number of failures in a row after which the remaining files are left to a later run.
const FAILURES_IN_A_ROW: u32 = 3;
/// A draft that is older than this run's own file by this much was left by a dead agent.
const DRAFT_AGE: Duration = Duration::from_hours(1);

/// Waits until the server has welcomed this run's own attempt, and then delivers the files in `dir` that are for this destination and that
/// no running agent has locked.
pub(super) async fn deliver_orphans(dir: PathBuf, destination: SpoolDestination, own: Arc<SharedBacklog>) {
    let mut welcomed = own.welcomed.subscribe();
    let Some(route) = welcomed.wait_for(Option::is_some).await.ok().and_then(|route| route.clone()) else {
        return;
    };
    sweep_drafts(&dir, &own);
    let (mut delivered, mut left, mut refused) = (0, 0, false);
    let session = own.with(|backlog| backlog.hello().session.clone());
    for entry in files_to_deliver(list_files(&dir, SPOOL_SUFFIX), &destination, &session) {
        if delivered == MAX_DELIVERED_FILES || left == MAX_REFUSED_FILES {
            return;
        }
        let Some(orphan) = take_over(&entry.path, &mut refused).await else {
            continue;
        };
        delivered += 1;
        match deliver(&route, &orphan, RetryPolicy::Orphan { tries: FAILURES_IN_A_ROW }).await {
            DeliveryOutcome::Delivered => {
                tracing::info!(path = %entry.path.display(), "delivered an earlier attempt");
            }
            DeliveryOutcome::Left(why) => {
                (delivered, left) = (delivered - 1, left + 1);
                tracing::debug!(why, path = %entry.path.display(), "an earlier attempt is left to others");
            }
            DeliveryOutcome::Refused(why) => tracing::debug!(why, "an earlier attempt was refused"),
            DeliveryOutcome::GaveUp(why) => {
                tracing::debug!(why, "earlier attempts have to wait");
                return;
            }
        }
    }
}

/// The files for this destination, oldest first. If one run cannot try all of them, each run begins at a different file, so that files that
/// cannot be delivered do not keep the others from being tried.
fn files_to_deliver(files: Vec<SpoolFile>, destination: &SpoolDestination, session: &str) -> Vec<SpoolFile> {
    let mut files: Vec<_> = files.into_iter().filter(|file| destination.is_for(&file.path)).collect();
    if files.len() > MAX_REFUSED_FILES {
        let place = usize::try_from(crc32fast::hash(session.as_bytes())).unwrap_or(0) % files.len();
        files.rotate_left(place);
    }
    files
}

/// Locks and opens a file of an earlier run. The reason of a refusal is logged for the first such file only (`refused` is then true).
async fn take_over(path: &Path, refused: &mut bool) -> Option<SharedBacklog> {
    match Spool::adopt(path) {
        Ok(AdoptedSpool::Orphan(spool, mut contents)) => {
            while spool.look_through(&mut contents, RECORDS_AT_ONCE) {
                yield_now().await;
            }
            Some(SharedBacklog::new(Backlog::of_earlier_run(spool, *contents)))
        }
        Ok(AdoptedSpool::Damaged(mut spool)) => {
            spool.set_aside("its beginning is damaged");
            None
        }
        Ok(AdoptedSpool::Busy) => None,
        // another agent has delivered the file meanwhile
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            if !std::mem::replace(refused, true) {
                tracing::warn!(path = %path.display(), %error, "left a spool file alone, and others like it");
            }
            None
        }
    }
}

/// Removes drafts of agents that died while they wrote them. Age is measured by comparison with this run's own file, which needs no clock.
fn sweep_drafts(dir: &Path, own: &SharedBacklog) {
    let now = own.with(|backlog| backlog.path().and_then(|path| fs::metadata(path).ok()?.modified().ok()));
    let Some(oldest) = now.and_then(|now| now.checked_sub(DRAFT_AGE)) else {
        return;
    };
    for entry in list_files(dir, DRAFT_SUFFIX).into_iter().filter(|entry| entry.modified < oldest) {
        tracing::debug!(path = %entry.path.display(), "removing an abandoned draft");
        drop(fs::remove_file(&entry.path));
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::SystemTime};

    use super::*;
    use crate::trust::Trust;

    #[test]
    fn undeliverable_files_do_not_starve_the_others() {
        let destination = SpoolDestination::of("http://a.example:7410", &Trust::default());
        let files = |count: usize| {
            let path = |n| PathBuf::from(format!("/spool/{n:03}-s.{}.spool", destination.name_part()));
            let file = |n| SpoolFile { path: path(n), bytes: 1, modified: SystemTime::UNIX_EPOCH };
            (0..count).map(file).collect::<Vec<_>>()
        };
        let asked = |count, session: &str| {
            let turn = files_to_deliver(files(count), &destination, session);
            turn.into_iter().take(MAX_REFUSED_FILES).map(|file| file.path).collect::<Vec<_>>()
        };
        let few: Vec<PathBuf> = files(MAX_REFUSED_FILES).into_iter().map(|file| file.path).collect();
        assert_eq!(asked(MAX_REFUSED_FILES, "any"), few, "oldest first");
        let all: BTreeSet<PathBuf> = (0..1000).flat_map(|run: u32| asked(300, &run.to_string())).collect();
        assert_eq!(all.len(), 300);
    }
}
