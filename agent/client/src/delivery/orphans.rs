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

use plimsoll_proto::v1::Hello;
use tokio::task::yield_now;

use super::{
    backlog::Backlog,
    destination::{SpoolDestination, SpoolMatch},
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
    let own_project = own.with(|backlog| project(backlog.hello()).to_owned());
    for entry in list(&dir, SPOOL) {
        let is_same_identity = match destination.takes(&entry.path) {
            SpoolMatch::Own => true,
            SpoolMatch::SameServer => false,
            SpoolMatch::OtherServer => continue,
        };
        if delivered == ORPHANS || left == LEFT {
            return;
        }
        let is_of_project = |hello: &Hello| !own_project.is_empty() && project(hello) == own_project;
        let is_ours = |hello: &Hello| is_same_identity || is_of_project(hello);
        let Some(orphan) = take_over(&entry.path, is_ours, &mut refused).await else {
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

/// The project of an attempt; empty if it has none.
fn project(hello: &Hello) -> &str {
    hello.key.as_ref().map_or("", |key| key.project.as_str())
}

/// Takes over a file that is for this run by its attempt; says of the first one that is `refused` why.
async fn take_over(
    path: &Path,
    is_ours: impl Fn(&Hello) -> bool,
    refused: &mut bool,
) -> Option<SharedBacklog> {
    match Spool::adopt(path) {
        Ok(AdoptedSpool::Orphan(_, contents)) if !is_ours(&contents.hello) => None,
        Ok(AdoptedSpool::Orphan(spool, mut contents)) => {
            while spool.look_through(&mut contents, RECORDS) {
                yield_now().await;
            }
            Some(SharedBacklog::new(Backlog::orphan(spool, *contents)))
        }
        // what it holds is not known: an agent with its identity sets it aside
        Ok(AdoptedSpool::Damaged(_)) if !is_ours(&Hello::default()) => None,
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
