//! Spare files for the case that the process can open no more files. Then one spare file is closed,
//! and one connection at a time is accepted in its place and served briefly. So probes are
//! answered, and the orchestrator does not kill a server that works.
//!
//! After a spare file is closed, another part of the process may open a file before the connection
//! is accepted. Then the next spare file is closed. Closed spare files are opened again as soon as
//! there is space. Two are kept: at its limit, the process seldom opens two files of its own in a
//! row.

use std::{fs::File, io};

use rustix::io::Errno;
use tokio::sync::oneshot;

use crate::runtime::open_files;

/// A file that always exists and needs no space.
const DEV_NULL: &str = "/dev/null";

/// Number of spare files: one to close, and one more if another part of the process opens a file in
/// its place.
const KEPT_FILES: usize = 2;

/// Open files that are closed when the process can open no others.
#[derive(Debug, Default)]
pub(crate) struct SpareFiles {
    files: Vec<File>,
    /// Whether spare files are kept at all.
    is_wanted: bool,
    /// Whether the next connection uses the place of a spare file.
    spare_is_in_use: bool,
}

impl SpareFiles {
    /// Opens the spare files.
    pub(crate) fn open_files() -> Self {
        let mut spare = Self { is_wanted: true, ..Self::default() };
        spare.take_back();
        spare
    }

    /// Keeps no spare files: connections wait until the process can open a file.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// Waits after a failed accept until the next one may be tried. If the process has no file
    /// left, closes a spare file instead of waiting.
    pub(super) async fn after_failed_accept(&mut self, error: &io::Error) {
        self.spare_is_in_use = self.close_spare_file(error);
        if !self.spare_is_in_use {
            open_files::after_failed_accept(error).await;
            self.take_back();
        }
    }

    /// A channel that signals the end of a connection that uses the place of a spare file; `None`
    /// for all other connections.
    pub(super) fn borrow(&self) -> (Option<oneshot::Sender<()>>, Option<oneshot::Receiver<()>>) {
        self.spare_is_in_use.then(oneshot::channel).unzip()
    }

    /// Waits until the connection that uses the place of a spare file has ended, and opens the
    /// spare files again.
    pub(super) async fn wait_for_end(&mut self, ended: Option<oneshot::Receiver<()>>) {
        let Some(ended) = ended else { return };
        // completes when the connection is dropped
        let _dropped = ended.await;
        self.spare_is_in_use = false;
        self.take_back();
    }

    /// Closes a spare file, if the error is that the process has no file left. Returns false if it
    /// is another error, or if no spare file is left.
    fn close_spare_file(&mut self, error: &io::Error) -> bool {
        let errors = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
        let is_short = error.raw_os_error().is_some_and(|code| errors.contains(&code));
        is_short && self.files.pop().is_some()
    }

    /// Opens the closed spare files again, as far as possible.
    fn take_back(&mut self) {
        while self.is_wanted && self.files.len() < KEPT_FILES {
            let Ok(file) = File::open(DEV_NULL) else { return };
            self.files.push(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn error(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.raw_os_error())
    }

    #[test]
    fn files_are_lent_only_where_files_are_short_and_all_of_them_come_back() {
        let mut spare = SpareFiles::open_files();
        assert!(!spare.close_spare_file(&error(Errno::CONNABORTED)));
        for errno in [Errno::MFILE, Errno::NFILE] {
            assert!(
                (0..KEPT_FILES).all(|_| spare.close_spare_file(&error(errno)))
                    && !spare.close_spare_file(&error(errno))
            );
            spare.take_back();
        }
        assert!(!SpareFiles::none().close_spare_file(&error(Errno::MFILE)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_gets_the_next_spare_file_at_once_when_another_file_took_its_own() {
        let (mut spare, began) = (SpareFiles::open_files(), Instant::now());
        spare.after_failed_accept(&error(Errno::MFILE)).await;
        // another file has the number that was let go
        spare.after_failed_accept(&error(Errno::MFILE)).await;
        let (place, ended) = spare.borrow();
        assert!(
            place.is_some() && began.elapsed().is_zero(),
            "it did not wait for the end of another connection"
        );
        drop(place);
        spare.wait_for_end(ended).await;
        assert_eq!(spare.files.len(), KEPT_FILES);
    }
}
