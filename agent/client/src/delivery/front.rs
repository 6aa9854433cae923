//! The front of a spool file whose first samples were dropped.

/// Positions at the front of a spool file. A place is a position in the file as it is now; an offset also counts the bytes dropped before
/// it.
#[derive(Debug, Default)]
pub(super) struct SpoolFront {
    /// Place of the first record after Hello.
    pub(super) first_record_at: u64,
    /// Place of the newest record that the server has, as far as it was looked for.
    pub(super) acknowledged_at: u64,
    /// Number of bytes that were dropped from the front.
    pub(super) dropped: u64,
    /// After a failure: the length of the file at which to try again, bytes.
    pub(super) not_before: u64,
}

impl SpoolFront {
    /// The front of a file from which nothing was dropped.
    pub(super) fn new(first: u64) -> Self {
        Self { first_record_at: first, acknowledged_at: first, dropped: 0, not_before: 0 }
    }

    /// The place of an offset; the place of the first record if the bytes at the offset were dropped.
    pub(super) fn place(&self, offset: u64) -> u64 {
        offset.saturating_sub(self.dropped).max(self.first_record_at)
    }

    /// The offset of a place.
    pub(super) fn offset(&self, place: u64) -> u64 {
        place.saturating_add(self.dropped)
    }
}
