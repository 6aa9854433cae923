//! A lane: signed integers in few bytes, the building block of codec 4.
//!
//! The numbers are replaced by their differences (of order 0, 1 or 2, whichever needs the fewest bits), divided
//! by their common unit, and stored in the smallest form: varints, varints in a zstd frame, or pco. Lossless
//! for every `i64`: all arithmetic wraps. The reader knows the count, so no count in the bytes can cause an
//! allocation.

use std::num::NonZeroU64;

use pco::{
    ChunkConfig, DeltaSpec, ModeSpec,
    data_types::Number,
    metadata::{DeltaEncoding, Mode},
    wrapped::{FileCompressor, FileDecompressor},
};

use super::bytes::{ByteReader, Damage, put_varint, unzigzag, zigzag};

/// Highest order of differences. A counter that grows evenly is smallest with order 1, one that accelerates
/// with order 2.
const MAX_ORDER: u8 = 2;
/// Bits of a lane's first byte that contain the order.
const ORDER_BITS: u8 = 0b11;
/// Bit of a lane's first byte: the unit follows as a varint. Without this bit the unit is 1.
const UNIT_BIT: u8 = 0b10_0000;

/// Form of a lane with all differences 0: no bytes follow.
const ZEROS: u8 = 0;
const VARINTS: u8 = 1;
const ZSTD: u8 = 2;
/// Form of a lane packed by pco as i16, i32 or i64. For numbers that fit into i16, pco's tables take a third of
/// the bytes that they take for i64.
const PCO_16: u8 = 3;
const PCO_32: u8 = 4;
const PCO_64: u8 = 5;

/// Fewer numbers than this are stored as varints: the headers of pco and zstd are larger.
const MIN_PACKED_NUMBERS: usize = 12;
/// Higher levels of zstd save nothing measurable for so few numbers.
const ZSTD_LEVEL: i32 = 6;
/// The first bytes of every zstd frame (RFC 8878, 3.1.1), which are not stored.
const ZSTD_MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// The header that pco 1.1 writes (format 4.1); not stored.
const PCO_HEADER: [u8; 2] = [4, 1];
/// Bytes of a varint of 64 bits.
const LONGEST_VARINT: usize = 10;

/// Appends a lane: the form, the first numbers, then the packed differences. The number of differences is not
/// stored.
pub(super) fn put_lane(out: &mut Vec<u8>, numbers: &[i64]) -> Result<(), Damage> {
    let (order, head, rest) = best_order(numbers);
    let unit = unit_of(&rest);
    let rest: Vec<i64> = if unit == 1 { rest } else { rest.iter().map(|number| number / unit).collect() };
    let (packing, body) = pack(&rest)?;
    out.push(order | packing << 2 | if unit == 1 { 0 } else { UNIT_BIT });
    if unit != 1 {
        put_varint(out, unit.cast_unsigned());
    }
    for number in head {
        put_varint(out, zigzag(number));
    }
    if matches!(packing, ZSTD | PCO_16 | PCO_32 | PCO_64) {
        put_varint(out, body.len() as u64);
    }
    out.extend(body);
    Ok(())
}

/// Reads the output of [`put_lane`] for `count` numbers.
pub(super) fn read_lane(reader: &mut ByteReader<'_>, count: usize) -> Result<Vec<i64>, Damage> {
    let form = reader.byte()?;
    let (order, packing) = (usize::from(form & ORDER_BITS), (form & !UNIT_BIT) >> 2);
    if order > usize::from(MAX_ORDER) || order > count {
        return Err(Damage::new(format!("{count} numbers have no differences of order {order}")));
    }
    let unit = if form & UNIT_BIT == 0 { 1 } else { reader.varint()? };
    let unit = i64::try_from(unit).ok().filter(|unit| *unit > 0);
    let unit = unit.ok_or_else(|| Damage::new("the unit of a lane is 0 or too large"))?;
    let head: Vec<i64> = (0..order).map(|_| reader.varint().map(unzigzag)).collect::<Result<_, _>>()?;
    let mut numbers = unpack(reader, packing, count - order)?;
    for number in &mut numbers {
        *number = number.wrapping_mul(unit);
    }
    for first in head.into_iter().rev() {
        numbers = sums(first, &numbers);
    }
    Ok(numbers)
}

/// The order of differences with the fewest bits, the first number of each order below it, and the differences.
fn best_order(numbers: &[i64]) -> (u8, Vec<i64>, Vec<i64>) {
    let (mut head, mut rest) = (Vec::new(), numbers.to_vec());
    let mut best = (bits_needed(&rest), (0, head.clone(), rest.clone()));
    for order in 1..=MAX_ORDER {
        let Some(first) = rest.first() else { break };
        head.push(*first);
        rest = rest.iter().zip(rest.iter().skip(1)).map(|(a, b)| b.wrapping_sub(*a)).collect();
        let cost = bits_needed(&rest) + bits_needed(&head);
        if cost < best.0 {
            best = (cost, (order, head.clone(), rest.clone()));
        }
    }
    best.1
}

fn bits_needed(numbers: &[i64]) -> u64 {
    numbers.iter().map(|number| u64::from(u64::BITS - zigzag(*number).leading_zeros())).sum()
}

/// Adds up the differences, starting from `first`: reverses one order.
fn sums(first: i64, differences: &[i64]) -> Vec<i64> {
    let next = |sum: &mut i64, difference: &i64| {
        *sum = sum.wrapping_add(*difference);
        Some(*sum)
    };
    std::iter::once(first).chain(differences.iter().scan(first, next)).collect()
}

/// The greatest common divisor of `numbers`; 1 if it is 0 or does not fit into `i64`.
pub(super) fn unit_of(numbers: &[i64]) -> i64 {
    let mut unit = 0;
    for number in numbers {
        unit = gcd(unit, number.unsigned_abs());
        if unit == 1 {
            break;
        }
    }
    i64::try_from(unit).unwrap_or(1).max(1)
}

fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while let Some(divisor) = NonZeroU64::new(b) {
        (a, b) = (b, a % divisor);
    }
    a
}

/// The numbers in the form with the fewest bytes.
fn pack(numbers: &[i64]) -> Result<(u8, Vec<u8>), Damage> {
    if numbers.iter().all(|number| *number == 0) {
        return Ok((ZEROS, Vec::new()));
    }
    let mut varints = Vec::with_capacity(numbers.len() * 2);
    for number in numbers {
        put_varint(&mut varints, zigzag(*number));
    }
    if numbers.len() < MIN_PACKED_NUMBERS {
        return Ok((VARINTS, varints));
    }
    let (zstd, pco) = (pack_zstd(&varints)?, pack_pco(numbers)?);
    let mut best = (VARINTS, varints);
    for (packing, body) in [(ZSTD, zstd), pco] {
        // this form also stores its length, which varints do not
        if body.len() + 2 < best.1.len() {
            best = (packing, body);
        }
    }
    Ok(best)
}

fn unpack(reader: &mut ByteReader<'_>, packing: u8, count: usize) -> Result<Vec<i64>, Damage> {
    let varints = |reader: &mut ByteReader<'_>| (0..count).map(|_| reader.varint().map(unzigzag)).collect();
    match packing {
        ZEROS => return Ok(vec![0; count]),
        VARINTS => return varints(reader),
        _ => {}
    }
    let length = reader.count("bytes of a lane", super::bounds::MAX_VALUE)?;
    let body = reader.take(length)?;
    match packing {
        ZSTD => {
            let frame = [&ZSTD_MAGIC, body].concat();
            let unpacked = zstd::bulk::decompress(&frame, count * LONGEST_VARINT);
            let unpacked =
                unpacked.map_err(|error| Damage::new(format!("zstd cannot unpack it: {error}")))?;
            let mut reader = ByteReader(&unpacked);
            let numbers = varints(&mut reader)?;
            reader.end()?;
            Ok(numbers)
        }
        PCO_16 => unpack_pco::<i16>(body, count),
        PCO_32 => unpack_pco::<i32>(body, count),
        PCO_64 => unpack_pco::<i64>(body, count),
        _ => Err(Damage::new(format!("packing {packing} is not known"))),
    }
}

fn pack_zstd(varints: &[u8]) -> Result<Vec<u8>, Damage> {
    let frame = zstd::bulk::compress(varints, ZSTD_LEVEL);
    let frame = frame.map_err(|error| Damage::new(format!("zstd cannot pack it: {error}")))?;
    let body = frame.strip_prefix(&ZSTD_MAGIC).map(<[u8]>::to_vec);
    body.ok_or_else(|| Damage::new("zstd begins its frames in another way"))
}

fn pack_pco(numbers: &[i64]) -> Result<(u8, Vec<u8>), Damage> {
    let failed = |error: pco::errors::PcoError| Damage::new(format!("pco cannot pack it: {error}"));
    if let Some(short) = narrowed::<i16>(numbers) {
        return Ok((PCO_16, compress(&short).map_err(failed)?));
    }
    if let Some(middle) = narrowed::<i32>(numbers) {
        return Ok((PCO_32, compress(&middle).map_err(failed)?));
    }
    Ok((PCO_64, compress(numbers).map_err(failed)?))
}

/// The numbers as a shorter type; `None` if one of them does not fit.
fn narrowed<T: TryFrom<i64>>(numbers: &[i64]) -> Option<Vec<T>> {
    numbers.iter().map(|number| T::try_from(*number).ok()).collect()
}

/// A pco chunk with one page. The numbers are already differences in their unit, so pco only sorts them into
/// bins.
fn compress<T: Number>(numbers: &[T]) -> Result<Vec<u8>, pco::errors::PcoError> {
    let config = ChunkConfig::default().with_mode_spec(ModeSpec::Classic).with_delta_spec(DeltaSpec::NoOp);
    let mut chunk = FileCompressor::default().chunk_compressor(numbers, &config)?;
    let mut out = chunk.write_meta(Vec::new())?;
    out = chunk.write_page(0, out)?;
    Ok(out)
}

fn unpack_pco<T: Number + Into<i64>>(body: &[u8], count: usize) -> Result<Vec<i64>, Damage> {
    let failed = |error: pco::errors::PcoError| Damage::new(format!("pco cannot unpack it: {error}"));
    let (file, _) = FileDecompressor::new(&PCO_HEADER[..]).map_err(failed)?;
    let (mut chunk, rest) = file.chunk_decompressor::<T, _>(body).map_err(failed)?;
    // refuse modes that this store never writes: bytes of another writer could ask for a window of any size
    if chunk.meta().mode != Mode::Classic || chunk.meta().delta_encoding != DeltaEncoding::NoOp {
        return Err(Damage::new("a lane is packed in a way that is never written"));
    }
    let mut numbers = vec![T::default(); count];
    let mut page = chunk.page_decompressor(rest, count).map_err(failed)?;
    let progress = page.read(&mut numbers).map_err(failed)?;
    if progress.n_processed != count || !progress.finished {
        return Err(Damage::new(format!("pco holds {} numbers of {count}", progress.n_processed)));
    }
    ByteReader(page.into_src()).end()?;
    Ok(numbers.into_iter().map(Into::into).collect())
}

#[cfg(test)]
mod tests;
