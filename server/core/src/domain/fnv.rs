//! FNV-1a hash, 64 bits (draft-eastlake-fnv): the same in every release and on every machine, because some hashes are stored on disk.
//! Collisions are easy to make on purpose, so this hash is only used where an attacker gains nothing from one.

/// State of the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// The hash after adding these bytes.
    #[must_use]
    pub fn with(self, bytes: impl IntoIterator<Item = u8>) -> Self {
        let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(bytes.into_iter().fold(self.0, mix))
    }

    /// The hash after adding a text and its length. The length makes the hashes of `["ab", "c"]` and `["a", "bc"]` differ.
    #[must_use]
    pub fn with_part(self, part: &str) -> Self {
        self.with((part.len() as u64).to_be_bytes()).with(part.bytes())
    }

    /// The hash value.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_draft() {
        for (text, number) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(Fnv::default().with(text.bytes()).value(), number, "{text}");
        }
        let [one, two] = [["a", "bc"], ["ab", "c"]]
            .map(|list| list.iter().fold(Fnv::default(), |all, part| all.with_part(part)));
        assert_ne!(one, two);
    }
}
