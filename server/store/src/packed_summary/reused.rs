//! Decodes many summaries, one after the other, into the same allocations.

use prost::Message as _;

use super::{Damage, Packed, Summary};

/// A summary that is decoded again and again into the same allocations; each summary has a dozen texts.
#[derive(Default)]
pub(in super::super) struct SummaryDecoder(Packed);

impl SummaryDecoder {
    /// Decodes a summary as `Summary::unpack` does, and passes it to `take`.
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
