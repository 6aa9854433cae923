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
    quota::{DRAFT, SPOOL, SpoolFile, list},
    shared_backlog::SharedBacklog,
    spool::{AdoptedSpool, Spool},
    uplink::{DeliveryOutcome, RetryPolicy, deliver},
};

/// Files that one run delivers at most.
const ORPHANS: usize = 100;
/// Files that one run leaves to others at most: a connection and a question each, below a second in all. Where each job has a token of its own
/// these are the files of all other jobs.
const LEFT: usize = 20;
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
    let session = own.with(|backlog| backlog.hello().session.clone());
    for entry in in_turn(list(&dir, SPOOL), &destination, &session) {
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

/// The files for this destination, oldest first. Where one run may not come to the end of them, it begins at a place of its own: the files
/// that it has to leave must not hide those behind them from all runs.
fn in_turn(files: Vec<SpoolFile>, destination: &SpoolDestination, session: &str) -> Vec<SpoolFile> {
    let mut files: Vec<_> = files.into_iter().filter(|file| destination.takes(&file.path)).collect();
    if files.len() > LEFT {
        let place = usize::try_from(crc32fast::hash(session.as_bytes())).unwrap_or(0) % files.len();
        files.rotate_left(place);
    }
    files
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

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::SystemTime};

    use super::*;
    use crate::trust::Trust;

    #[test]
    fn files_that_runs_have_to_leave_hide_none_behind_them_from_all_runs() {
        let destination = SpoolDestination::of("http://a.example:7410", &Trust::default());
        let files = |count: usize| {
            let path = |n| PathBuf::from(format!("/spool/{n:03}-s.{}.spool", destination.part()));
            let file = |n| SpoolFile { path: path(n), bytes: 1, modified: SystemTime::UNIX_EPOCH };
            (0..count).map(file).collect::<Vec<_>>()
        };
        let asked = |count, session: &str| {
            let turn = in_turn(files(count), &destination, session);
            turn.into_iter().take(LEFT).map(|file| file.path).collect::<Vec<_>>()
        };
        let few: Vec<PathBuf> = files(LEFT).into_iter().map(|file| file.path).collect();
        assert_eq!(asked(LEFT, "any"), few, "oldest first");
        let all: BTreeSet<PathBuf> = (0..1000).flat_map(|run: u32| asked(300, &run.to_string())).collect();
        assert_eq!(all.len(), 300);
    }
}
