//! Files that are kept for the time when the process may open no other. Then one is let go for one connection at a time, which is served
//! briefly: so a probe is answered, and the orchestrator does not kill a server that works.
//!
//! Between the moment in which one is let go and the taking of the connection, another part of the process may open a file in its place.
//! Then the next one is let go, and what is missing is opened again as soon as there is room. No number of spare files is safe from all
//! of the others, but each lost one means a file that the process opened while it was at its bound, which it seldom does twice in a row.

use std::{fs::File, io};

use rustix::io::Errno;
use tokio::sync::oneshot;

use crate::runtime::net::files;

/// Always there, and of no use for anything else.
const FILE: &str = "/dev/null";

/// How many are kept: one to let go, and one for when another part of the process was faster.
const KEPT: usize = 2;

/// Files that are held for their numbers alone.
#[derive(Debug, Default)]
pub(crate) struct SpareFile {
    files: Vec<File>,
    /// They are held where that is possible.
    is_wanted: bool,
    /// The next connection has its place.
    is_lent: bool,
}

impl SpareFile {
    /// Opens them.
    pub(crate) fn keep() -> Self {
        let mut spare = Self { is_wanted: true, ..Self::default() };
        spare.take_back();
        spare
    }

    /// No such files: connections wait until there is one for them.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// Returns when the next connection may be taken after this failure.
    pub(super) async fn after_failed_accept(&mut self, error: &io::Error) {
        self.is_lent = self.lend(error);
        if !self.is_lent {
            files::after_failed_accept(error).await;
            self.take_back();
        }
    }

    /// The two ends of the message that a connection which was taken in its place has ended; `None` for all other connections.
    pub(super) fn borrow(&self) -> (Option<oneshot::Sender<()>>, Option<oneshot::Receiver<()>>) {
        self.is_lent.then(oneshot::channel).unzip()
    }

    /// Waits for the end of such a connection.
    pub(super) async fn returned(&mut self, ended: Option<oneshot::Receiver<()>>) {
        let Some(ended) = ended else { return };
        // who serves it drops it soon
        let _dropped = ended.await;
        self.is_lent = false;
        self.take_back();
    }

    /// Lets one go, if that is why a connection could not be taken. False if it is not, or if there is none.
    fn lend(&mut self, error: &io::Error) -> bool {
        let errors = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
        let is_short = error.raw_os_error().is_some_and(|code| errors.contains(&code));
        is_short && self.files.pop().is_some()
    }

    /// Opens those again that were let go, as far as there is room.
    fn take_back(&mut self) {
        while self.is_wanted && self.files.len() < KEPT {
            let Ok(file) = File::open(FILE) else { return };
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
        let mut spare = SpareFile::keep();
        assert!(!spare.lend(&error(Errno::CONNABORTED)));
        for errno in [Errno::MFILE, Errno::NFILE] {
            assert!((0..KEPT).all(|_| spare.lend(&error(errno))) && !spare.lend(&error(errno)));
            spare.take_back();
        }
        assert!(!SpareFile::none().lend(&error(Errno::MFILE)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_gets_the_next_spare_file_at_once_when_another_file_took_its_own() {
        let (mut spare, began) = (SpareFile::keep(), Instant::now());
        spare.after_failed_accept(&error(Errno::MFILE)).await;
        // another file has the number that was let go
        spare.after_failed_accept(&error(Errno::MFILE)).await;
        let (place, ended) = spare.borrow();
        assert!(
            place.is_some() && began.elapsed().is_zero(),
            "it did not wait for the end of another connection"
        );
        drop(place);
        spare.returned(ended).await;
        assert_eq!(spare.files.len(), KEPT);
    }
}
