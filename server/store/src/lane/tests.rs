//! Every number comes back from every packing, the smallest is chosen, and no bytes ask for memory.

use proptest::{collection::vec, prelude::*};

use super::*;

fn packed(numbers: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    put_lane(&mut out, numbers).unwrap();
    out
}

fn unpacked(bytes: &[u8], count: usize) -> Result<Vec<i64>, Damage> {
    let mut reader = ByteReader(bytes);
    let numbers = read_lane(&mut reader, count)?;
    reader.end().map(|()| numbers)
}

/// A lane of varints with this form, and no unit.
fn form_of(bytes: &[u8]) -> (u8, u8) {
    (bytes[0] & ORDER_BITS, (bytes[0] & !UNIT_BIT) >> 2)
}

proptest! {
    #[test]
    fn every_lane_comes_back(
        numbers in vec(any::<i64>(), 0..200), shift in 0..64_u32, unit in 1..5000_i64, order in 0..3_usize,
    ) {
        let mut numbers: Vec<i64> = numbers.iter().map(|n| (n >> shift).wrapping_mul(unit)).collect();
        for _ in 0..order {
            numbers = sums(7, &numbers);
        }
        let bytes = packed(&numbers);
        prop_assert_eq!(unpacked(&bytes, numbers.len()), Ok(numbers));
    }

    #[test]
    fn a_forged_lane_is_damage_and_no_panic(
        numbers in vec(any::<i64>(), 1..100), shift in 0..64_u32,
        at in any::<prop::sample::Index>(), with in any::<u8>(), count in 0..200_usize,
    ) {
        let mut bytes = packed(&numbers.iter().map(|n| n >> shift).collect::<Vec<_>>());
        let spot = at.index(bytes.len());
        bytes[spot] = with;
        let read = unpacked(&bytes, count).unwrap_or_default();
        prop_assert!(read.is_empty() || read.len() == count);
    }

    #[test]
    fn any_bytes_are_damage_and_no_panic(form in 0..64_u8, body in vec(any::<u8>(), 0..300), count in 0..4097_usize) {
        // with the length that the packings below varints want
        let length = u8::try_from(body.len() % 128).unwrap();
        for bytes in [[&[form], body.as_slice()].concat(), [&[form & !UNIT_BIT, 2, 4, length], body.as_slice()].concat()] {
            prop_assert!(unpacked(&bytes, count).is_ok_and(|read| read.len() == count) || unpacked(&bytes, count).is_err());
        }
    }
}

#[test]
fn the_smallest_lane_encoding_is_chosen() {
    // a fixed sequence without a pattern (Steele, Lea and Flood 2014: SplitMix64)
    let mix = |n: u64| (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let noise = |n: i64, bits: u32| {
        mix(n.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15)).cast_signed() >> (64 - bits)
    };
    let lane = |of: &dyn Fn(i64) -> i64| form_of(&packed(&(0..600).map(of).collect::<Vec<_>>()));
    assert_eq!(lane(&|_| 5), (1, ZEROS), "all equal");
    assert_eq!(lane(&|n| 9 + 1000 * n), (2, ZEROS), "even steps");
    assert_eq!(lane(&|n| noise(n, 12)), (0, PCO_16));
    assert_eq!(lane(&|n| noise(n, 28)), (0, PCO_32));
    assert_eq!(lane(&|n| noise(n, 50)), (0, PCO_64));
    assert_eq!(lane(&|n| if n % 5 == 0 { 3 } else { n % 5 * 90 }).1, ZSTD, "a pattern");
    assert_eq!(form_of(&packed(&[3, -4, 1000])).1, VARINTS);
}

#[test]
fn a_common_factor_is_stored_only_once() {
    let lane = |unit: i64| packed(&(0..300).map(|n| n * n % 97 * unit).collect::<Vec<_>>()).len();
    assert!(lane(1_000_000) <= lane(1) + 8, "{} and {} bytes", lane(1_000_000), lane(1));
}

#[test]
fn omitted_headers_match_what_the_libraries_write() {
    assert_eq!(FileCompressor::default().write_header(Vec::new()).unwrap(), PCO_HEADER);
    assert_eq!(zstd::bulk::compress(b"x", 19).unwrap()[..4], ZSTD_MAGIC);
}

#[test]
fn a_decompression_bomb_is_refused() {
    let bomb = pack_zstd(&vec![0; 64 << 20]).unwrap();
    let mut bytes = vec![ZSTD << 2];
    put_varint(&mut bytes, bomb.len() as u64);
    bytes.extend(bomb);
    assert!(bytes.len() < 4096, "small enough for a value: {}", bytes.len());
    assert!(unpacked(&bytes, 4096).unwrap_err().0.contains("zstd"));
}

#[test]
fn pco_lookback_is_refused_before_it_allocates() {
    let numbers: Vec<i64> = (0..4000).map(|n| n * n % 1009).collect();
    let config = ChunkConfig::default().with_delta_spec(DeltaSpec::TryLookback);
    let mut chunk = FileCompressor::default().chunk_compressor(&numbers, &config).unwrap();
    let body = chunk.write_meta(Vec::new()).unwrap();
    let body = chunk.write_page(0, body).unwrap();
    let error = unpack_pco::<i64>(&body, 4000).unwrap_err();
    assert!(error.0.contains("never written"), "{error}");
}
