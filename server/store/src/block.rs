//! The samples of a sealed block, codec 4: of each value only its difference from a predicted value (the guess)
//! is stored. The numbers of one kind form a lane.
//!
//! A column is split into whole units (pages, milliseconds) and the remainder, because the remainder is nearly
//! always 0 and its lane then takes no byte. Lossless for every sample.

use plimsoll_core::domain::{Bytes, CpuMicros, Micros, Millis, Sample};

use super::{
    bytes::{ByteReader, Damage, put_varint},
    columns::{field, page, put_presence, read_presence, set_page},
    grid::{Grid, SamplePositions},
    lane::{put_lane, read_lane},
};

/// Most samples of one block: more than an hour at one sample a second. The limit bounds how much memory a
/// damaged block can make the reader allocate.
pub(super) const MAX_BLOCK_SAMPLES: usize = 4096;

/// Memory is stored as whole pages of this many bytes, plus a remainder.
const PAGE_BYTES: u64 = 4096;
/// CPU time is stored as whole milliseconds of this many microseconds, plus a remainder.
const MICROS_PER_MILLI: u64 = 1000;

type Getter = fn(&Sample) -> Option<u64>;
type Setter = fn(&mut Sample, u64);

/// A column of a block: a field of a sample, and the unit in which it is stored.
struct SampleField {
    unit: u64,
    get: Getter,
    set: Setter,
    /// Predicts the field in whole units, from the fields already decoded of this sample and from the field's
    /// value in the sample before.
    guess: fn(&Sample, u64) -> u64,
}

impl SampleField {
    const fn new(unit: u64, (get, set): (Getter, Setter), guess: fn(&Sample, u64) -> u64) -> Self {
        Self { unit, get, set, guess }
    }
}

/// A guess for columns that repeat no other column: 0, so that the values are stored as they are.
fn guess_zero(_row: &Sample, _before: u64) -> u64 {
    0
}

fn guess_need(row: &Sample, _before: u64) -> u64 {
    row.need.0 / PAGE_BYTES
}

/// The peak of memory stays the same, or rises to the memory in use.
fn guess_mark(row: &Sample, before: u64) -> u64 {
    before.max(row.memory.0 / PAGE_BYTES)
}

/// The columns of a block, in the order of `FORMAT.md`. Every sample has the first [`REQUIRED_COLUMNS`]; the others
/// have the order of the presence bits.
const COLUMNS: [SampleField; 12] = [
    SampleField::new(PAGE_BYTES, field!(need: Bytes), guess_zero),
    SampleField::new(PAGE_BYTES, field!(memory: Bytes), guess_need),
    SampleField::new(MICROS_PER_MILLI, field!(cpu: CpuMicros), guess_zero),
    SampleField::new(PAGE_BYTES, field!(memory_peak?: Bytes), guess_mark),
    SampleField::new(1, field!(oom_kill?), guess_zero),
    SampleField::new(1, field!(reclaim_failures?), guess_zero),
    SampleField::new(PAGE_BYTES, field!(need_max?: Bytes), guess_need),
    SampleField::new(1, field!(memory_stall?: Micros), guess_zero),
    SampleField::new(1, (page::<0>, set_page::<0>), guess_zero),
    SampleField::new(1, field!(throttled?: Micros), guess_zero),
    SampleField::new(1, field!(starved?: Millis), guess_zero),
    SampleField::new(1, (page::<1>, set_page::<1>), guess_zero),
];
const REQUIRED_COLUMNS: usize = 3;
/// Number of lanes: the skipped ticks, the lateness in ms, and for each column its whole units and its
/// remainders.
const LANE_COUNT: usize = 2 + 2 * COLUMNS.len();

/// Appends the presence bits, the time grid and the lanes of at most [`MAX_BLOCK_SAMPLES`] samples.
pub(super) fn put_block(out: &mut Vec<u8>, samples: &[Sample]) -> Result<(), Damage> {
    put_presence(out, samples);
    if samples.is_empty() {
        return Ok(());
    }
    let times: Vec<u64> = samples.iter().map(|sample| sample.elapsed.0).collect();
    let grid = Grid::of(&times);
    put_varint(out, grid.origin);
    put_varint(out, grid.period);
    let SamplePositions { skipped, late } = grid.positions(&times);
    let (whole, rest): (Vec<_>, Vec<_>) = COLUMNS.iter().map(|column| column.split_units(samples)).unzip();
    let lanes: Vec<Vec<i64>> = [skipped, late].into_iter().chain(whole).chain(rest).collect();
    let filled = |lane: &&Vec<i64>| lane.iter().any(|number| *number != 0);
    let places = lanes.iter().enumerate().filter(|(_, lane)| filled(lane));
    put_varint(out, places.fold(0, |mask, (place, _)| mask | 1 << place));
    lanes.iter().filter(filled).try_for_each(|lane| put_lane(out, lane))
}

/// Reads what [`put_block`] wrote for `count` samples.
pub(super) fn read_block(reader: &mut ByteReader<'_>, count: usize) -> Result<Vec<Sample>, Damage> {
    let holders = read_presence(reader, count)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    let grid = Grid { origin: reader.varint()?, period: reader.varint()? };
    let mask = reader.varint()?;
    if mask >> LANE_COUNT != 0 {
        return Err(Damage::new("unknown lanes"));
    }
    let holders: Vec<Vec<bool>> =
        std::iter::repeat_n(vec![true; count], REQUIRED_COLUMNS).chain(holders).collect();
    let counts: Vec<usize> =
        holders.iter().map(|holds| holds.iter().filter(|holds| **holds).count()).collect();
    let lengths = [count, count].into_iter().chain(counts.repeat(2));
    let mut lanes = Vec::with_capacity(LANE_COUNT);
    for (place, length) in lengths.enumerate() {
        lanes.push(if mask >> place & 1 == 1 { read_lane(reader, length)? } else { vec![0; length] });
    }
    let mut lanes = lanes.into_iter();
    let mut next = || lanes.next().unwrap_or_default();
    let times = grid.times(&SamplePositions { skipped: next(), late: next() });
    let mut samples: Vec<Sample> =
        times.into_iter().map(|time| Sample { elapsed: Millis(time), ..Sample::default() }).collect();
    let whole: Vec<Vec<i64>> = COLUMNS.iter().map(|_| next()).collect();
    for ((column, holds), whole) in COLUMNS.iter().zip(&holders).zip(whole) {
        column.join_units(rows_with(&mut samples, holds), &whole, &next());
    }
    Ok(samples)
}

/// The samples for which `holds` is true: those with a value in a column.
fn rows_with<'a>(samples: &'a mut [Sample], holds: &'a [bool]) -> impl Iterator<Item = &'a mut Sample> {
    samples.iter_mut().zip(holds).filter(|(_, holds)| **holds).map(|(row, _)| row)
}

impl SampleField {
    /// Splits this column: for each sample that has a value, the whole units above the guess, and the
    /// remainder.
    fn split_units(&self, samples: &[Sample]) -> (Vec<i64>, Vec<i64>) {
        let mut before = 0;
        let parts = samples.iter().filter_map(|row| (self.get)(row).map(|value| (row, value)));
        let cut = parts.map(|(row, value)| {
            let (units, rest) = (value / self.unit, value % self.unit);
            let above = units.wrapping_sub((self.guess)(row, before)).cast_signed();
            before = units;
            (above, rest.cast_signed())
        });
        cut.unzip()
    }

    /// Reverses [`Self::split_units`].
    fn join_units<'a>(&self, rows: impl Iterator<Item = &'a mut Sample>, whole: &[i64], rest: &[i64]) {
        let mut before = 0;
        for (row, (above, rest)) in rows.zip(whole.iter().zip(rest)) {
            let units = (self.guess)(row, before).wrapping_add(above.cast_unsigned());
            (self.set)(row, units.wrapping_mul(self.unit).wrapping_add(rest.cast_unsigned()));
            before = units;
        }
    }
}
