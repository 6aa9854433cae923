//! The series of real builds that the project holds.

use std::{io::Read as _, path::Path};

use anyhow::{Context as _, Result};
use plimsoll_core::domain::{Bytes, CpuMicros, Micros, Millis, Sample};
use plimsoll_proto::counters::PageCounters;

/// Rows of one second, as an agent would send them. Made from what `tests/series` says.
const SERIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/series/lab_1hz.csv.gz");

/// A build by its name, with its samples.
pub(crate) struct Build {
    pub(crate) name: String,
    pub(crate) samples: Vec<Sample>,
}

/// All of them, in the order of the file.
pub(crate) fn builds() -> Result<Vec<Build>> {
    let mut text = String::new();
    let file = std::fs::File::open(Path::new(SERIES)).context(SERIES)?;
    flate2::read::GzDecoder::new(file).read_to_string(&mut text)?;
    let mut builds: Vec<Build> = Vec::new();
    for line in text.lines().skip(1) {
        let (name, numbers) = line.split_once(',').context("a line without a comma")?;
        let numbers: Vec<u64> = numbers.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let [elapsed, memory, need, need_max, peak, cpu] =
            <[u64; 6]>::try_from(numbers).map_err(|_not_six| anyhow::anyhow!("not six numbers: {line}"))?;
        let sample = Sample {
            elapsed: Millis(elapsed),
            memory: Bytes(memory),
            need: Bytes(need),
            need_max: Some(Bytes(need_max)),
            memory_peak: Some(Bytes(peak)),
            cpu: CpuMicros(cpu),
            oom_kill: Some(0),
            memory_stall: Some(Micros(0)),
            pages: PageCounters::all(Some(0)),
            throttled: Some(Micros(0)),
            starved: Some(Millis(0)),
            ..Sample::default()
        };
        match builds.last_mut() {
            Some(build) if build.name == name => build.samples.push(sample),
            _ => builds.push(Build { name: name.to_owned(), samples: vec![sample] }),
        }
    }
    Ok(builds)
}
