//! Positions at the beginning of a spool file. The first samples of the file may have been dropped.

/// Positions at the front of a spool file. A place is a position in the file as it is now; an offset also counts the bytes that were
/// dropped.
#[derive(Debug, Default)]
pub(super) struct SpoolFront {
    /// Place of the first record after the Hello record.
    pub(super) first_record_at: u64,
    /// Place of the newest record that is known to be on the server.
    pub(super) acknowledged_at: u64,
    /// Number of bytes that were dropped so far.
    pub(super) dropped: u64,
    /// Length of the file, in bytes, at which dropping is tried again after a failure.
    pub(super) not_before: u64,
}

impl SpoolFront {
    /// The positions in a file from which nothing was dropped; `first` is the position of the first record.
    pub(super) fn new(first: u64) -> Self {
        Self { first_record_at: first, acknowledged_at: first, dropped: 0, not_before: 0 }
    }

    /// The place of an offset. If the bytes at the offset were dropped: the place of the first record.
    pub(super) fn place_of(&self, offset: u64) -> u64 {
        offset.saturating_sub(self.dropped).max(self.first_record_at)
    }

    /// The offset of a position in the file: the position that the same bytes would have if nothing had been dropped.
    pub(super) fn offset_of(&self, place: u64) -> u64 {
        place.saturating_add(self.dropped)
    }
}
