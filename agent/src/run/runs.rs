//! Numbers the runs of one CI job, so that a second `plimsoll run` in it is an attempt of its own without being told.
//!
//! Each run makes the first empty file `ID.N` in the folder `runs` of the spool that is not there yet; the kernel lets only one make
//! it, so runs at the same time get different numbers. A job's id never comes again, and files older than a week are swept.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
    time::Duration,
};

use plimsoll_proto::limits;

/// Runs of one job that are told apart.
const RUNS: u32 = 1000;
/// What is older belongs to a job that has ended.
const KEPT: Duration = Duration::from_hours(24 * 7);
/// Files that one run looks at to sweep.
const SWEPT: usize = 10_000;

/// The id for this run of the job with this id: the job's own for the first, `ID.2` for the second. Where nothing can be written, it
/// is the job's own.
pub(super) fn own_id(spool_dir: &Path, job: &str) -> String {
    match claim(&spool_dir.join("runs"), job) {
        Ok(1) => job.to_owned(),
        Ok(number) => with_suffix(job, &format!(".{number}")),
        Err(error) => {
            tracing::debug!(%error, "cannot number the runs of this job");
            job.to_owned()
        }
    }
}

/// The id with a suffix, cut so that the wire takes it.
pub(super) fn with_suffix(id: &str, suffix: &str) -> String {
    let most = limits::ATTEMPT_BYTES.saturating_sub(suffix.len());
    let cut: String = id.chars().take(most).collect();
    format!("{cut}{suffix}")
}

fn claim(dir: &Path, job: &str) -> io::Result<u32> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let name = job.replace('/', "%");
    for number in 1..=RUNS {
        let path = dir.join(format!("{name}.{number}"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(_file) => {
                sweep(dir, &path);
                return Ok(number);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("{RUNS} runs of one job")))
}

/// Removes what is far older than the file `own`, which needs no clock.
fn sweep(dir: &Path, own: &Path) {
    let modified = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let Some(oldest) = modified(own).and_then(|now| now.checked_sub(KEPT)) else { return };
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().take(SWEPT) {
        if modified(&entry.path()).is_some_and(|time| time < oldest) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_of_a_job_gets_an_id_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let spool = dir.path().join("spool");
        let own = |job| own_id(&spool, job);
        assert_eq!(["a:7", "a:7", "a:8", "a:7"].map(own), ["a:7", "a:7.2", "a:8", "a:7.3"]);
        assert_eq!([own("b/c"), own("b/c")], ["b/c", "b/c.2"]);
    }

    #[test]
    fn runs_at_the_same_time_get_different_ids() {
        let dir = tempfile::tempdir().unwrap();
        let mut ids: Vec<String> = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..20).map(|_| scope.spawn(|| own_id(dir.path(), "7"))).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 20);
    }

    #[test]
    fn where_nothing_can_be_written_the_job_is_one_attempt() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(own_id(&dir.path().join("file/spool"), "7"), "7");
    }

    #[test]
    fn what_old_jobs_left_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        own_id(dir.path(), "old");
        let file = dir.path().join("runs/old.1");
        let long_ago = fs::metadata(&file).unwrap().modified().unwrap() - KEPT - Duration::from_mins(1);
        fs::File::options().write(true).open(&file).unwrap().set_modified(long_ago).unwrap();
        own_id(dir.path(), "new");
        let left: Vec<_> = fs::read_dir(dir.path().join("runs")).unwrap().collect();
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn an_id_with_a_suffix_still_fits_the_wire() {
        let long = with_suffix(&"x".repeat(limits::ATTEMPT_BYTES), ".12");
        assert_eq!((long.len(), long.ends_with("x.12")), (limits::ATTEMPT_BYTES, true));
    }
}
