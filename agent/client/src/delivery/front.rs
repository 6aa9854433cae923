//! Where a spool file begins, now that its first samples were dropped.

/// What a spool file has at its front. Places are bytes of the file as it is, offsets count what was dropped before.
#[derive(Debug, Default)]
pub(super) struct SpoolFront {
    /// Place of the first record after Hello.
    pub(super) first_record_at: u64,
    /// Place of the newest record that the server has, as far as it was looked for.
    pub(super) acknowledged_at: u64,
    /// Bytes that were dropped.
    pub(super) dropped: u64,
    /// Length at which to try again after a failure.
    pub(super) not_before: u64,
}

impl SpoolFront {
    /// The front of a file from which nothing was dropped.
    pub(super) fn new(first: u64) -> Self {
        Self { first_record_at: first, acknowledged_at: first, dropped: 0, not_before: 0 }
    }

    /// The place of an offset; that of the first record if what it means was dropped.
    pub(super) fn place(&self, offset: u64) -> u64 {
        offset.saturating_sub(self.dropped).max(self.first_record_at)
    }

    /// The offset of a place.
    pub(super) fn offset(&self, place: u64) -> u64 {
        place.saturating_add(self.dropped)
    }
}
