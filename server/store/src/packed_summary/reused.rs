//! Many summaries in the memory of one.

use prost::Message as _;

use super::{Damage, Packed, Summary};

/// Reads one summary after the other into the same memory: there are a dozen texts in each.
#[derive(Default)]
pub(in super::super) struct Reused(Packed);

impl Reused {
    /// As `Summary::unpack`; `take` looks at the summary.
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
