//! Why a call of the engine failed, and whether that shows damage.

use std::{io, path::Path};

use super::open_error::OpenError;

/// A call of the engine that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct EngineError {
    /// The text of sled's error or panic.
    pub(crate) reason: String,
    kind: EngineErrorKind,
}

/// What an error of the engine shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EngineErrorKind {
    /// The files contain what the engine did not write.
    Damage,
    /// sled panicked: while it reads, because of what the files contain.
    Panic,
    /// The disk is full or broken, or the engine is closed.
    Other,
}

impl EngineError {
    /// An error that shows no damage.
    pub(crate) fn other(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), kind: EngineErrorKind::Other }
    }

    /// An error that shows damage of the files.
    pub(crate) fn damage(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), kind: EngineErrorKind::Damage }
    }

    /// Why the files in `dir` do not open.
    pub(crate) fn at(self, dir: &Path) -> OpenError {
        OpenError::Engine { dir: dir.to_owned(), reason: self.reason }
    }

    /// Whether the files are damaged; else the disk may be full or broken.
    pub(crate) fn is_damage(&self) -> bool {
        self.kind == EngineErrorKind::Damage
    }

    /// Whether a reading that failed so met damage.
    pub(crate) fn is_damage_of_reading(&self) -> bool {
        self.kind != EngineErrorKind::Other
    }

    /// A panic inside sled.
    pub(crate) fn panic(reason: String) -> Self {
        Self { reason, kind: EngineErrorKind::Panic }
    }

    /// An error of sled.
    pub(crate) fn of(error: &::sled::Error) -> Self {
        const DAMAGED: &str = "its files are damaged";
        match error {
            // sled's own text has an empty backtrace and does not say what to do
            ::sled::Error::Corruption { at: Some(at), .. } => {
                Self::damage(format!("{DAMAGED} ({at:?} of sled/db)"))
            }
            ::sled::Error::Corruption { at: None, .. } => Self::damage(DAMAGED),
            // the file ends before what the engine wrote
            ::sled::Error::Io(cut) if cut.kind() == io::ErrorKind::UnexpectedEof => {
                Self::damage(format!("{DAMAGED}: {error}"))
            }
            other => Self::other(other.to_string()),
        }
    }
}
