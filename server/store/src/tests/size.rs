//! What a sealed sample takes on the disk: a promise on the series of real builds.

use std::io::Read as _;

use plimsoll_core::domain::{Bytes, CpuMicros, Millis, Sample};

use super::fixture::id;
use crate::{Batch, KeyKind, PageLimit, Store, append_fragment, compact_samples, read_series};

/// Time, memory and CPU of each build under `tests/series`, a row a second.
fn builds() -> Vec<Vec<Sample>> {
    let packed = include_bytes!("../../../../tests/series/lab_1hz.csv.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    let rows: Vec<(&str, Sample)> = text.lines().skip(1).map(row).collect();
    rows.chunk_by(|a, b| a.0 == b.0).map(|rows| rows.iter().map(|row| row.1).collect()).collect()
}

fn row(line: &str) -> (&str, Sample) {
    let (name, numbers) = line.split_once(',').unwrap();
    let numbers: Vec<u64> = numbers.split(',').map(|number| number.parse().unwrap()).collect();
    let sample = Sample {
        elapsed: Millis(numbers[0]),
        memory: Bytes(numbers[1]),
        cpu: CpuMicros(numbers[5]),
        ..Sample::default()
    };
    (name, sample)
}

/// Blocks as the server makes them: compacted at 900 loose samples, the rest at the end.
async fn sealed(samples: &[Sample]) -> (usize, Vec<Sample>) {
    let (store, job) = (Store::memory(), id("job"));
    let mut next = 1;
    for part in samples.chunks(900) {
        let mut batch = Batch::default();
        append_fragment(&mut batch, &job, next, 0, part).unwrap();
        store.commit(batch).await.unwrap();
        store.commit(compact_samples(&store, &job).await.unwrap().batch).await.unwrap();
        next += part.len() as u64;
    }
    let blocks = store.scan(&KeyKind::Block.prefix_of(&job), None, PageLimit::PAGE).await.unwrap();
    let bytes = blocks.entries.iter().map(|entry| entry.value.value.len()).sum();
    let read = read_series(&store, &job).await.unwrap();
    (bytes, read.runs.into_iter().flat_map(|run| run.samples).collect())
}

#[tokio::test]
async fn sealed_samples_take_four_to_six_bytes() {
    let builds = builds();
    for (wall, tenths) in [(900_000..u64::MAX, 40), (30_000..120_000, 55)] {
        let (mut bytes, mut samples) = (0, 0);
        for build in builds.iter().filter(|build| wall.contains(&build.last().unwrap().elapsed.0)) {
            bytes += sealed(build).await.0;
            samples += build.len();
        }
        assert!(samples > 800 && bytes * 10 <= samples * tenths, "{bytes} bytes for {samples} samples");
    }
}

#[tokio::test]
async fn sealed_samples_are_exact_to_the_millisecond() {
    for build in builds().iter().filter(|build| build.len() > 60) {
        let read = sealed(build).await.1;
        assert_eq!(read.len(), build.len());
        for (read, sent) in read.iter().zip(build) {
            assert_eq!(*read, Sample { cpu: CpuMicros(sent.cpu.0 / 1000 * 1000), ..*sent });
        }
        assert!(read.windows(2).all(|pair| pair[1].check_follows(&pair[0]).is_ok()));
    }
}
