//! Decodes many summaries into the allocations of one.

use prost::Message as _;

use super::{Damage, Packed, Summary};

/// Decodes one summary after the other into the same allocations: each has a dozen texts.
#[derive(Default)]
pub(in super::super) struct Reused(Packed);

impl Reused {
    /// Like `Summary::unpack`; `take` reads the summary.
    pub(in super::super) fn unpack(
        &mut self,
        codec: u8,
        payload: &[u8],
        take: &mut impl FnMut(&Summary),
    ) -> Result<(), Damage> {
        let Self(packed) = self;
        packed.clear();
        packed.read(codec, payload)?;
        let Summary { key, opening, .. } = {
            let summary = packed.summary()?;
            take(&summary);
            summary
        };
        packed.key.keep(key);
        packed.pool = opening.pool;
        Ok(())
    }
}
