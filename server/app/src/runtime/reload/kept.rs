//! The content of reloaded files: what is in force, and what was last found on disk.

use std::sync::{
    Arc, Mutex, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use prometheus_client::metrics::{counter::Counter, family::Family};

use crate::runtime::metrics::KindLabel;

/// The last valid content of some files. `L` is their state on disk, by which changes are noticed.
/// An invalid file is logged once and counted, and the earlier content stays in force.
#[derive(Debug)]
pub(crate) struct ReloadedValue<T, L> {
    /// Name of the files, for log messages.
    what: &'static str,
    in_force: RwLock<Arc<T>>,
    /// State of the files when they were last read, whether they were valid or not.
    file_stamps: Mutex<L>,
    /// Whether the files were invalid when they were last read.
    refused: AtomicBool,
}

impl<T, L: PartialEq> ReloadedValue<T, L> {
    /// Starts with content that was read already. `file_stamps`: the files' state from before reading, so
    /// that a change during reading is noticed later.
    pub(crate) fn new(what: &'static str, value: Arc<T>, file_stamps: L) -> Self {
        let (in_force, file_stamps) = (RwLock::new(value), Mutex::new(file_stamps));
        Self { what, in_force, file_stamps, refused: AtomicBool::new(false) }
    }

    /// The content in force.
    pub(crate) fn in_force_now(&self) -> Arc<T> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the files were invalid when they were last read.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Relaxed)
    }

    /// Reads the files again if their state changed, or if a reload was requested (`asked`). `read`
    /// may replace the state by a more exact one. Returns new content if it is valid, and counts
    /// the result in `reloads`.
    pub(crate) fn reload_if_changed(
        &self,
        asked: bool,
        look: impl FnOnce(&L) -> L,
        read: impl FnOnce(&mut L) -> anyhow::Result<Arc<T>>,
        reloads: &Family<KindLabel, Counter>,
    ) -> Option<Arc<T>> {
        let mut known = self.file_stamps.lock().unwrap_or_else(PoisonError::into_inner);
        let now = look(&known);
        if now == *known && !asked {
            return None;
        }
        // stored before reading, so that files that stay invalid are read and logged only once
        *known = now;
        let read = read(&mut known);
        self.refused.store(read.is_err(), Relaxed);
        let kind = if read.is_ok() { "taken" } else { "refused" };
        reloads.get_or_create(&KindLabel::of(kind)).inc();
        match read {
            Ok(value) => {
                *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&value);
                Some(value)
            }
            Err(error) => {
                let (what, error) = (self.what, format!("{error:#}"));
                tracing::error!(what, error, "changed files are refused; the previous ones stay in force");
                None
            }
        }
    }

    /// Simulates a disk that hangs until the returned value is dropped.
    #[cfg(test)]
    pub(crate) fn hang(&self) -> std::sync::MutexGuard<'_, L> {
        self.file_stamps.lock().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_invalid_files_are_read_only_once() {
        let (kept, reloads) = (ReloadedValue::new("numbers", Arc::new(1), 1), Family::default());
        let look = |asked: bool, file_stamps: u8, read: anyhow::Result<i32>| {
            let mut is_read = false;
            let taken = kept.reload_if_changed(
                asked,
                |_before| file_stamps,
                |_now| {
                    is_read = true;
                    read.map(Arc::new)
                },
                &reloads,
            );
            (is_read, taken.as_deref().copied(), *kept.in_force_now(), kept.is_refused())
        };
        assert_eq!(look(false, 1, Ok(9)), (false, None, 1, false), "nothing has changed");
        assert_eq!(look(false, 2, Err(anyhow::anyhow!("wrong"))), (true, None, 1, true));
        assert_eq!(look(false, 2, Ok(9)), (false, None, 1, true), "they stay as they are");
        let wrong = look(true, 2, Err(anyhow::anyhow!("wrong")));
        assert_eq!(wrong, (true, None, 1, true), "a reload was asked for");
        assert_eq!(look(false, 3, Ok(3)), (true, Some(3), 3, false));
        let count = |kind| reloads.get_or_create(&KindLabel::of(kind)).get();
        assert_eq!((count("taken"), count("refused")), (1, 2));
    }
}
