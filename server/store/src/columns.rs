//! The samples of a fragment as columns, codec 1: the differences between successive values are divided by a
//! common unit and stored as varints. Lossless for every `u64`.

use plimsoll_core::domain::{Bytes, CpuMicros, Micros, Millis, Sample};
use plimsoll_proto::counters::PageCounters;

use super::{
    bytes::{ByteReader, Damage, put_varint, unzigzag, zigzag},
    lane::unit_of,
};

/// Most samples of one fragment. The limit bounds how much memory a damaged fragment can make the reader
/// allocate.
pub(super) const MAX_SAMPLES: usize = 900;

/// A field that every sample has. `read` gets the field of all samples in one call, which is fast: every
/// incoming batch is encoded with it.
struct RequiredColumn {
    read: fn(&[Sample], &mut Vec<u64>),
    set: fn(&mut Sample, u64),
    /// Whether to store differences of differences, which are mostly 0 for a clock that ticks evenly.
    second_order: bool,
}

/// A field that may be absent in a sample; only existing values are stored.
struct OptionalColumn {
    read: fn(&[Sample], &mut Vec<u64>),
    get: fn(&Sample) -> Option<u64>,
    set: fn(&mut Sample, u64),
}

/// The getter and the setter of a field of [`Sample`], as numbers. The type, if it has one, is that of the field's unit; `?`: a sample may lack the field.
macro_rules! field {
    ($name:ident: $Unit:ident) => {
        (|s: &Sample| Some(s.$name.0), |s: &mut Sample, v: u64| s.$name = $Unit(v))
    };
    ($name:ident ? : $Unit:ident) => {
        (|s: &Sample| s.$name.map(|value| value.0), |s: &mut Sample, v: u64| s.$name = Some($Unit(v)))
    };
    ($name:ident ?) => {
        (|s: &Sample| s.$name, |s: &mut Sample, v: u64| s.$name = Some(v))
    };
}
pub(super) use field;

macro_rules! required {
    ($name:ident: $Unit:ident, $second_order:literal) => {
        RequiredColumn {
            read: |all, out| out.extend(all.iter().map(|s| s.$name.0)),
            set: field!($name: $Unit).1,
            second_order: $second_order,
        }
    };
}

macro_rules! optional {
    ($($field:tt)+) => {
        OptionalColumn {
            // the getter is written out here, so that it is compiled into the loop
            read: |all, out| out.extend(all.iter().filter_map(field!($($field)+).0)),
            get: field!($($field)+).0,
            set: field!($($field)+).1,
        }
    };
}

/// The required columns, in the order of `FORMAT.md`.
const REQUIRED: [RequiredColumn; 4] = [
    required!(elapsed: Millis, true),
    required!(memory: Bytes, false),
    required!(need: Bytes, false),
    required!(cpu: CpuMicros, false),
];

/// The optional columns, in the order of `FORMAT.md`.
const OPTIONAL: [OptionalColumn; 9] = [
    optional!(memory_peak?: Bytes),
    optional!(oom_kill?),
    optional!(reclaim_failures?),
    // Stored as the difference from the page in which `need` (the mean, not a whole page) lies. The highest
    // reading is a whole page, a little above the mean. Measured: 1 to 2 % smaller than plain values, and 12 %
    // smaller than the difference from the mean itself. `need` is decoded before, because it is required.
    OptionalColumn {
        read: |all, out| {
            out.extend(
                all.iter().filter_map(|s| s.need_max.map(|max| max.0.wrapping_sub(page_number(s.need)))),
            );
        },
        get: |s| s.need_max.map(|b| b.0),
        set: |s, above| s.need_max = Some(Bytes(page_number(s.need).wrapping_add(above))),
    },
    optional!(memory_stall?: Micros),
    page_column::<0>(),
    optional!(throttled?: Micros),
    optional!(starved?: Millis),
    page_column::<1>(),
];

/// The column of the page counter with the index `PLACE`.
const fn page_column<const PLACE: usize>() -> OptionalColumn {
    OptionalColumn {
        read: |all, out| out.extend(all.iter().filter_map(page::<PLACE>)),
        get: page::<PLACE>,
        set: set_page::<PLACE>,
    }
}

/// The value of the page counter with the index `PLACE`.
pub(super) fn page<const PLACE: usize>(sample: &Sample) -> Option<u64> {
    PageCounters::ALL.get(PLACE).and_then(|counter| (counter.get)(&sample.pages))
}

/// Sets the page counter with the index `PLACE`.
pub(super) fn set_page<const PLACE: usize>(sample: &mut Sample, value: u64) {
    if let Some(counter) = PageCounters::ALL.get(PLACE) {
        (counter.set)(&mut sample.pages, Some(value));
    }
}

/// Number of optional columns. If only some samples have a column, the chunk has a bit map for it.
const OPTIONAL_COLUMNS: usize = OPTIONAL.len();

/// Unit of a column with all values equal: no differences follow.
const EQUAL_UNIT: u64 = 0;

/// State of an optional column, two bits: no sample, every sample, or some samples have a value.
const ABSENT: u64 = 0;
const PRESENT: u64 = 1;
const MIXED: u64 = 2;

/// Start of the memory page that contains this number of bytes.
fn page_number(bytes: Bytes) -> u64 {
    bytes.0 & !0xfff
}

/// Appends the presence bits of the optional columns.
pub(super) fn put_presence(out: &mut Vec<u8>, samples: &[Sample]) {
    let count =
        |column: &OptionalColumn| samples.iter().filter(|sample| (column.get)(sample).is_some()).count();
    put_states(out, samples, OPTIONAL.each_ref().map(count));
}

/// Appends the presence bits. `present` is the number of samples that have each optional column.
fn put_states(out: &mut Vec<u8>, samples: &[Sample], present: [usize; OPTIONAL_COLUMNS]) {
    let mut presence = 0;
    let mut maps = Vec::new();
    for (index, (column, present)) in OPTIONAL.iter().zip(present).enumerate() {
        let state = match present {
            0 => ABSENT,
            all if all == samples.len() => PRESENT,
            _ => MIXED,
        };
        presence |= state << (2 * index);
        if state == MIXED {
            maps.extend(samples.chunks(8).map(|eight| bits_of(eight, column)));
        }
    }
    put_varint(out, presence);
    out.extend(maps);
}

/// Appends presence bits and columns of at most [`MAX_SAMPLES`] samples.
pub(super) fn put_columns(out: &mut Vec<u8>, samples: &[Sample]) {
    let read = |column: &OptionalColumn| {
        let mut values = Vec::with_capacity(samples.len());
        (column.read)(samples, &mut values);
        values
    };
    let optional = OPTIONAL.each_ref().map(read);
    put_states(out, samples, optional.each_ref().map(Vec::len));
    let mut values = Vec::with_capacity(samples.len());
    for column in &REQUIRED {
        values.clear();
        (column.read)(samples, &mut values);
        put_column(out, &values, column.second_order);
    }
    for values in &optional {
        put_column(out, values, false);
    }
}

fn bits_of(eight: &[Sample], column: &OptionalColumn) -> u8 {
    let bits = eight.iter().enumerate().filter(|(_, sample)| (column.get)(sample).is_some());
    bits.fold(0, |map, (bit, _)| map | 1 << bit)
}

/// For each optional column, which of the `count` samples have a value.
pub(super) fn read_presence(reader: &mut ByteReader<'_>, count: usize) -> Result<Vec<Vec<bool>>, Damage> {
    let presence = reader.varint()?;
    if presence >> (2 * OPTIONAL.len()) != 0 {
        return Err(Damage::new("unknown columns"));
    }
    (0..OPTIONAL.len()).map(|index| read_holders(reader, count, presence >> (2 * index) & 3)).collect()
}

/// Reads the output of [`put_columns`] for `count` samples.
pub(super) fn read_columns(reader: &mut ByteReader<'_>, count: usize) -> Result<Vec<Sample>, Damage> {
    let holders = read_presence(reader, count)?;
    let mut samples = vec![Sample::default(); count];
    for column in &REQUIRED {
        let values = read_column(reader, count, column.second_order)?;
        samples.iter_mut().zip(values).for_each(|(sample, value)| (column.set)(sample, value));
    }
    for (column, holders) in OPTIONAL.iter().zip(holders) {
        let present = holders.iter().filter(|holds| **holds).count();
        let values = read_column(reader, present, false)?;
        let with_value = samples.iter_mut().zip(holders).filter(|(_, holds)| *holds);
        with_value.zip(values).for_each(|((sample, _), value)| (column.set)(sample, value));
    }
    Ok(samples)
}

/// Which of the `count` samples have a value in the optional column with this presence state.
fn read_holders(reader: &mut ByteReader<'_>, count: usize, state: u64) -> Result<Vec<bool>, Damage> {
    match state {
        ABSENT | PRESENT => Ok(vec![state == PRESENT; count]),
        MIXED => {
            let map = reader.take(count.div_ceil(8))?;
            Ok(map.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)).take(count).collect())
        }
        _ => Err(Damage::new("a column is neither absent nor present nor mixed")),
    }
}

fn put_column(out: &mut Vec<u8>, values: &[u64], second: bool) {
    let Some(first) = values.first() else { return };
    put_varint(out, *first);
    if values.len() == 1 {
        return;
    }
    let steps: Vec<i64> =
        values.iter().zip(values.iter().skip(1)).map(|(a, b)| b.wrapping_sub(*a).cast_signed()).collect();
    if steps.iter().all(|step| *step == 0) {
        put_varint(out, EQUAL_UNIT);
        return;
    }
    let unit = unit_of(&steps);
    put_varint(out, unit.cast_unsigned());
    // a division is slow: it is left out when the unit is 1
    let steps = steps.iter().map(|step| if unit == 1 { *step } else { step / unit });
    let mut before = 0;
    for step in steps {
        put_varint(out, zigzag(step.wrapping_sub(before)));
        before = if second { step } else { 0 };
    }
}

fn read_column(reader: &mut ByteReader<'_>, count: usize, second: bool) -> Result<Vec<u64>, Damage> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut value = reader.varint()?;
    if count == 1 {
        return Ok(vec![value]);
    }
    let unit = reader.varint()?;
    if unit == EQUAL_UNIT {
        return Ok(vec![value; count]);
    }
    let unit = i64::try_from(unit).ok().filter(|unit| *unit > 0);
    let unit = unit.ok_or_else(|| Damage::new("a column's unit is too large"))?;
    let mut values = Vec::with_capacity(count);
    values.push(value);
    let mut step = 0_i64;
    for _ in 1..count {
        let read = unzigzag(reader.varint()?);
        step = if second { step.wrapping_add(read) } else { read };
        value = value.wrapping_add(step.wrapping_mul(unit).cast_unsigned());
        values.push(value);
    }
    Ok(values)
}
