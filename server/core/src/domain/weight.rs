//! Estimates the memory that values take in glibc's allocator. Limits given in bytes use these estimates.

/// Bytes of the two counters that an `Arc` stores before its value.
const ARC_COUNTERS: usize = 2 * size_of::<usize>();
/// Least size of an allocation (`MINSIZE` in glibc's malloc.c, 64 bits).
const MIN_ALLOCATION: usize = 32;
/// Sizes of allocations are multiples of this (`MALLOC_ALIGNMENT`), including a header of eight bytes.
pub(super) const ALLOCATION_STEP: usize = 16;

/// Bytes that an allocation of `bytes` takes; 0 for 0.
pub(super) const fn allocation_bytes(bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    let whole = (bytes + size_of::<usize>()).next_multiple_of(ALLOCATION_STEP);
    if whole < MIN_ALLOCATION { MIN_ALLOCATION } else { whole }
}

/// Bytes that the allocation of an `Arc` takes.
pub(super) const fn arc_bytes(bytes: usize) -> usize {
    allocation_bytes(ARC_COUNTERS + bytes)
}

/// Mean bytes that an entry takes in a hash table. The table is between 7/16 and 7/8 full.
pub(super) const fn table_entry_bytes(bytes: usize) -> usize {
    (bytes + 1) * 3 / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimated_allocations_match_the_allocator() {
        assert_eq!([0, 1, 24, 25, 40, 41, 104].map(allocation_bytes), [0, 32, 32, 48, 48, 64, 112]);
        assert_eq!(arc_bytes(24), 48);
    }
}
