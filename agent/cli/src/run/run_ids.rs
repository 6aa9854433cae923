//! Numbers the runs of one CI job on this machine, so that a second `plimsoll run` in the job is an attempt of
//! its own. The server does the same for runs on other machines, and in containers that share no directory.
//!
//! Each run creates the first free file `ID.N` in the directory `runs` of the spool; the kernel lets only one
//! run create it, so runs at the same time get different numbers. A job's id is never reused, and files older
//! than a week are removed after the build. A file system that hangs delays the build only for [`FILE_SYSTEM_TIMEOUT`].

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use plimsoll_base::own_files;
use plimsoll_proto::job::with_suffix;
use tokio::{sync::oneshot, time::timeout};
use ulid::Ulid;

/// Most runs of one job that get a number.
const NUMBERED_RUNS: u32 = 1000;
/// Files that are older than this belong to jobs that have ended.
const KEEP_FILES_FOR: Duration = Duration::from_hours(24 * 7);
/// Most files that one cleanup examines.
const SWEPT_FILES: usize = 10_000;
/// How long the agent waits for the file system before it starts the build.
const FILE_SYSTEM_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit of the cleanup after the build.
const SWEEP_TIME: Duration = Duration::from_secs(1);

/// The number of a run, and the file that reserves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunNumber {
    file: PathBuf,
    number: u32,
}

/// The attempt's id for this run: the job's id for the first run, `ID.2` for the second. If the number cannot
/// be reserved it is the job's id; if the file system does not answer, a unique id.
pub(super) async fn own_id(spool_dir: &Path, job: &str) -> (String, Option<RunNumber>) {
    let (dir, name) = (spool_dir.join("runs"), job.to_owned());
    let claimed = run_within(FILE_SYSTEM_TIMEOUT, move || claim_number(&dir, &name)).await;
    id_of_claim(job, claimed)
}

fn id_of_claim(job: &str, claimed: Option<io::Result<RunNumber>>) -> (String, Option<RunNumber>) {
    match claimed {
        Some(Ok(claim)) if claim.number == 1 => (job.to_owned(), Some(claim)),
        Some(Ok(claim)) => (with_suffix(job, &format!(".{}", claim.number)), Some(claim)),
        Some(Err(error)) => {
            tracing::debug!(%error, "cannot number the runs of this job");
            (job.to_owned(), None)
        }
        None => {
            tracing::warn!(
                "the spool did not answer within {FILE_SYSTEM_TIMEOUT:?}, so the runs of this job are not numbered"
            );
            (with_suffix(job, &format!(".{}", Ulid::new())), None)
        }
    }
}

/// Removes files of jobs that ended long ago, as many as it can within [`SWEEP_TIME`].
pub(super) async fn remove_old_claims(claim: RunNumber) {
    let _late = run_within(SWEEP_TIME, move || remove_older_than(&claim.file)).await;
}

/// Runs `work` in a thread of its own. `None` if it does not end in time, or if no thread can be started. A
/// thread that hangs is abandoned.
async fn run_within<T: Send + 'static>(
    most: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, answer) = oneshot::channel();
    let work = move || {
        // an error means that the caller no longer waits, so the result is not needed
        let _late = done.send(work());
    };
    thread::Builder::new().name("runs".to_owned()).spawn(work).ok()?;
    timeout(most, answer).await.ok()?.ok()
}

fn claim_number(dir: &Path, job: &str) -> io::Result<RunNumber> {
    // the user chose the spool's path, so it may be a link; links inside the spool are refused
    let spool = dir.parent().unwrap_or(dir);
    DirBuilder::new().recursive(true).mode(0o700).create(spool)?;
    own_files::make_dir(dir)?;
    let name = job.replace('/', "%");
    for number in 1..=NUMBERED_RUNS {
        let file = dir.join(format!("{name}.{number}"));
        match own_files::create_new(&file) {
            Ok(_made) => return Ok(RunNumber { file, number }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("{NUMBERED_RUNS} runs of one job")))
}

/// Removes the files that are much older than the file `own`. Comparing files with each other needs no clock.
fn remove_older_than(own: &Path) {
    let modified = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let Some(oldest) = modified(own).and_then(|now| now.checked_sub(KEEP_FILES_FOR)) else { return };
    let Some(Ok(entries)) = own.parent().map(fs::read_dir) else { return };
    for entry in entries.flatten().take(SWEPT_FILES) {
        if modified(&entry.path()).is_some_and(|time| time < oldest) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(spool: &Path, job: &str) -> String {
        id_of_claim(job, Some(claim_number(&spool.join("runs"), job))).0
    }

    #[test]
    fn each_run_of_a_job_gets_an_id() {
        let (_dir, spool) = plimsoll_support::temporary::file_name("spool");
        let own = |job| own(&spool, job);
        assert_eq!(["a:7", "a:7", "a:8", "a:7"].map(own), ["a:7", "a:7.2", "a:8", "a:7.3"]);
        assert_eq!([own("b/c"), own("b/c")], ["b/c", "b/c.2"]);
    }

    #[test]
    fn runs_at_the_same_time_get_different_ids() {
        let dir = tempfile::tempdir().unwrap();
        let mut ids: Vec<String> = thread::scope(|scope| {
            let runs: Vec<_> = (0..20).map(|_| scope.spawn(|| own(dir.path(), "7"))).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_file_system_never_blocks_the_build() {
        let (_never, hangs) = std::sync::mpsc::channel::<io::Result<RunNumber>>();
        let claimed = run_within(FILE_SYSTEM_TIMEOUT, move || hangs.recv().unwrap()).await;
        let (id, claim) = id_of_claim("gitlab.com:7", claimed);
        assert_eq!((id.len(), id.starts_with("gitlab.com:7."), claim), (39, true, None), "{id}");
        let read = plimsoll_proto::job::JobExecution::read(&id);
        assert_eq!((read.number(), read.command.len()), (Some(7), 26));
    }

    #[test]
    fn an_unwritable_spool_means_one_attempt_per_job() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(own(&dir.path().join("file/spool"), "7"), "7");
    }

    #[test]
    fn a_linked_runs_folder_is_left_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let (spool, other) = (dir.path().join("spool"), dir.path().join("other"));
        for made in [&spool, &other] {
            fs::create_dir(made).unwrap();
        }
        std::os::unix::fs::symlink(&other, spool.join("runs")).unwrap();
        assert!(claim_number(&spool.join("runs"), "7").is_err());
        assert_eq!(own(&spool, "7"), "7");
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
    }

    #[test]
    fn what_old_jobs_left_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        own(dir.path(), "old");
        let file = dir.path().join("runs/old.1");
        let long_ago =
            fs::metadata(&file).unwrap().modified().unwrap() - KEEP_FILES_FOR - Duration::from_mins(1);
        fs::File::options().write(true).open(&file).unwrap().set_modified(long_ago).unwrap();
        let left = || fs::read_dir(dir.path().join("runs")).unwrap().count();
        let new = claim_number(&dir.path().join("runs"), "new").unwrap();
        assert_eq!(left(), 2, "not before the build");
        remove_older_than(&new.file);
        assert_eq!(left(), 1);
    }
}
