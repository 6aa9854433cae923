//! A spool file that was shortened.

use std::os::unix::fs::MetadataExt as _;

use plimsoll_proto::v1::{Hello, Sample};
use tempfile::TempDir;

use super::*;
use crate::delivery::{backlog::Backlog, quota::list_files, spool::AdoptedSpool};

fn hello() -> Hello {
    Hello { attempt: "a".to_owned(), session: "s".to_owned(), ..Hello::default() }
}

fn backlog(dir: &Path, bound: u64) -> Backlog {
    Backlog::new(hello(), Some(Spool::create(dir, bound, &hello()).unwrap()))
}

fn sample(number: u64) -> Sample {
    Sample { elapsed_ms: number * 1000, need_bytes: 1 << 30, cpu_usec: number << 20, ..Sample::default() }
}

fn file_bytes(backlog: &Backlog) -> u64 {
    fs::metadata(backlog.path().unwrap()).unwrap().size()
}

#[test]
fn the_spool_stays_small_while_acknowledgements_keep_up() {
    let dir = TempDir::new().unwrap();
    let mut backlog = backlog(dir.path(), 1 << 20);
    for number in 1..=100_000 {
        backlog.push(sample(number));
        // the server is ten samples behind
        backlog.acknowledge(number.saturating_sub(10));
        if number % 100 == 0 {
            assert!(file_bytes(&backlog) < 2 * WORTH_DROPPING_BYTES, "{number}: {}", file_bytes(&backlog));
        }
    }
    assert_eq!((backlog.lost(), backlog.unspooled()), (0, 0));
    assert!(list_files(dir.path(), DRAFT_SUFFIX).is_empty());
}

#[test]
fn compaction_keeps_unacknowledged_samples_and_old_cursors() {
    let dir = TempDir::new().unwrap();
    let mut backlog = backlog(dir.path(), 64 << 20);
    (1..=30_000).for_each(|number| backlog.push(sample(number)));
    let mut cursor = backlog.begin(0);
    let mut numbers = Vec::new();
    let whole = file_bytes(&backlog);
    while let Some(batch) = backlog.next_batch(&mut cursor) {
        numbers.extend(batch.first_sequence..batch.first_sequence + batch.samples.len() as u64);
        // acknowledged late, so that the cursor stands in the middle when the front goes
        backlog.acknowledge(cursor.sent.saturating_sub(3000));
    }
    assert!(file_bytes(&backlog) < whole / 2);
    assert_eq!(numbers, (1..=30_000).collect::<Vec<_>>());
    assert_eq!(backlog.lost(), 0);
}

#[test]
fn a_killed_agent_leaves_unacknowledged_samples_and_end() {
    let dir = TempDir::new().unwrap();
    let mut left = backlog(dir.path(), 1 << 20);
    (1..=5000).for_each(|number| left.push(sample(number)));
    left.acknowledge(5000);
    assert!(file_bytes(&left) < WORTH_DROPPING_BYTES);
    let path = left.path().unwrap().to_owned();
    assert!(matches!(Spool::adopt(&path).unwrap(), AdoptedSpool::Busy), "the new file is locked too");
    drop(left);
    let AdoptedSpool::Orphan(spool, mut contents) = Spool::adopt(&path).unwrap() else { panic!("no orphan") };
    while spool.look_through(&mut contents, 10) {}
    let mut orphan = Backlog::of_earlier_run(spool, *contents);
    let mut cursor = orphan.begin(5000);
    assert_eq!(orphan.next_batch(&mut cursor), None);
    let finish = orphan.finish_after(5000).unwrap();
    assert_eq!((finish.last_sequence, finish.lost, finish.wall_ms), (5000, 0, 5_000_000));
}

#[test]
fn failed_compaction_costs_only_disk_space() {
    let dir = TempDir::new().unwrap();
    let mut backlog = backlog(dir.path(), 64 << 20);
    // in the way of the draft
    fs::create_dir(backlog.path().unwrap().with_extension(DRAFT_SUFFIX)).unwrap();
    (1..=5000).for_each(|number| backlog.push(sample(number)));
    backlog.acknowledge(4000);
    assert!(file_bytes(&backlog) > 2 * WORTH_DROPPING_BYTES);
    let mut cursor = backlog.begin(4000);
    let batch = backlog.next_batch(&mut cursor).unwrap();
    assert_eq!((batch.first_sequence, batch.samples.len(), batch.lost), (4001, 1000, 0));
}
