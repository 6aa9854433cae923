//! What values take in memory, as the allocator of glibc hands it out: what is bounded by bytes is counted by these.

/// Two counters stand in front of what is shared.
const COUNTERS: usize = 2 * size_of::<usize>();
/// Least bytes of one piece (malloc.c of glibc, `MINSIZE` with 64 bits).
const LEAST: usize = 32;
/// Pieces are multiples of this (`MALLOC_ALIGNMENT`), with their length of eight bytes in front.
pub(super) const STEP: usize = 16;

/// Bytes of a piece of memory for `bytes`; none for none.
pub(super) const fn piece(bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    let whole = (bytes + size_of::<usize>()).next_multiple_of(STEP);
    if whole < LEAST { LEAST } else { whole }
}

/// Bytes of a piece that is shared.
pub(super) const fn shared(bytes: usize) -> usize {
    piece(COUNTERS + bytes)
}

/// Bytes that an entry takes in a hash table, which is between seven sixteenths and seven eighths full.
pub(super) const fn in_table(bytes: usize) -> usize {
    (bytes + 1) * 3 / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_as_large_as_those_of_the_allocator() {
        assert_eq!([0, 1, 24, 25, 40, 41, 104].map(piece), [0, 32, 32, 48, 48, 64, 112]);
        assert_eq!(shared(24), 48);
    }
}
