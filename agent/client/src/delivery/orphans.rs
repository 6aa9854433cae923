//! Delivers what earlier runs left behind: their agents were killed, or had no server for too long.
//!
//! One file after another, oldest first, each on a connection of its own, so that a server which is slow to take them cannot
//! hold up the attempt that runs now.

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
    quota::{DRAFT, SPOOL, list},
    shared_backlog::SharedBacklog,
    spool::{AdoptedSpool, Spool},
    uplink::{DeliveryOutcome, RetryPolicy, deliver},
};

/// Files that one run delivers at most.
const ORPHANS: usize = 100;
/// Files that one run leaves to others at most: a question each, and they must not hide what comes after them.
const LEFT: usize = 1000;
/// Records that are read in one go: below a millisecond, so that a large file does not hold up the samples of this run.
const RECORDS: usize = 200;
/// Troubles in a row after which the rest is left to another run.
const TRIES: u32 = 3;
/// A draft that is older than this run's own file by so much has lost its agent.
const DRAFT_AGE: Duration = Duration::from_hours(1);

/// Delivers the files of `dir` that wait for this destination and that no living agent holds, once the own attempt is welcome.
pub(super) async fn deliver_orphans(dir: PathBuf, destination: SpoolDestination, own: Arc<SharedBacklog>) {
    let mut welcomed = own.welcomed.subscribe();
    let Some(route) = welcomed.wait_for(Option::is_some).await.ok().and_then(|route| route.clone()) else {
        return;
    };
    sweep_drafts(&dir, &own);
    let (mut delivered, mut left, mut refused) = (0, 0, false);
    for entry in list(&dir, SPOOL).into_iter().filter(|entry| destination.takes(&entry.path)) {
        if delivered == ORPHANS || left == LEFT {
            return;
        }
        let Some(orphan) = take_over(&entry.path, &mut refused).await else {
            continue;
        };
        delivered += 1;
        match deliver(&route, &orphan, RetryPolicy::Orphan { tries: TRIES }).await {
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

/// Takes over a file; says of the first one that is `refused` why.
async fn take_over(path: &Path, refused: &mut bool) -> Option<SharedBacklog> {
    match Spool::adopt(path) {
        Ok(AdoptedSpool::Orphan(spool, mut contents)) => {
            while spool.look_through(&mut contents, RECORDS) {
                yield_now().await;
            }
            Some(SharedBacklog::new(Backlog::orphan(spool, *contents)))
        }
        Ok(AdoptedSpool::Damaged(mut spool)) => {
            spool.set_aside("its beginning is damaged");
            None
        }
        Ok(AdoptedSpool::Busy) => None,
        // another agent has delivered it
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            if !std::mem::replace(refused, true) {
                tracing::warn!(path = %path.display(), %error, "left a spool file alone, and others like it");
            }
            None
        }
    }
}

/// Removes drafts whose agents died while they made them. Ages are compared with the own file's, which needs no clock.
fn sweep_drafts(dir: &Path, own: &SharedBacklog) {
    let now = own.with(|backlog| backlog.path().and_then(|path| fs::metadata(path).ok()?.modified().ok()));
    let Some(oldest) = now.and_then(|now| now.checked_sub(DRAFT_AGE)) else {
        return;
    };
    for entry in list(dir, DRAFT).into_iter().filter(|entry| entry.modified < oldest) {
        tracing::debug!(path = %entry.path.display(), "removing an abandoned draft");
        drop(fs::remove_file(&entry.path));
    }
}
