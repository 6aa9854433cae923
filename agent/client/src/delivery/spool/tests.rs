//! The promises of the spool file: damage, full disks, other agents, bounds.

use std::{
    fs,
    os::unix::fs::{FileExt as _, PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
};

use plimsoll_proto::{
    counters::PageCounters,
    limits,
    v1::{AgentMessage, Sample, agent_message},
};
use plimsoll_support::{
    collector::{CollectorFaults, FakeCollector},
    small_disk::SmallDisk,
};
use prost::Message as _;
use tempfile::TempDir;

use crate::delivery::{
    Delivery, Settings,
    backlog::{Backlog, MEMORY_SAMPLES, SPOOLED_SAMPLES, StreamCursor},
    quota::list_files,
    spool::{AdoptedSpool, BatchBounds, Spool, is_file_at, own_dir},
    tests::{assert_in_order_once, files, finish, hello, leave_behind, run_until_finished, sample, settings},
};

fn adopted(path: &Path) -> Backlog {
    match Spool::adopt(path).unwrap() {
        AdoptedSpool::Orphan(spool, mut contents) => {
            while spool.look_through(&mut contents, 3) {}
            Backlog::of_earlier_run(spool, *contents)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_torn_tail_costs_only_the_torn_record() {
    let dir = TempDir::new().unwrap();
    let path = leave_behind(&dir, "torn", 10);
    let whole = fs::metadata(&path).unwrap().len();
    for cut in 1..12 {
        fs::File::options().write(true).open(&path).unwrap().set_len(whole - cut).unwrap();
        let mut backlog = adopted(&path);
        let batch = backlog.next_batch(&mut StreamCursor::default()).unwrap();
        assert_eq!(batch.samples.len(), 9, "cut {cut}");
        assert_eq!(backlog.finish_after(9).unwrap().last_sequence, 9, "cut {cut}");
    }
}

#[test]
fn a_damaged_record_keeps_those_before_it() {
    let dir = TempDir::new().unwrap();
    let path = leave_behind(&dir, "damaged", 10);
    let whole = fs::metadata(&path).unwrap().len();
    let record = (whole - 12) / 11;
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0xff; 3], whole - 3 * record).unwrap();
    drop(file);
    let mut backlog = adopted(&path);
    let samples = backlog.next_batch(&mut StreamCursor::default()).unwrap().samples.len() as u64;
    assert!((5..8).contains(&samples), "{samples}");
    assert_eq!(backlog.finish_after(samples).unwrap().last_sequence, samples);
    // the server may have more than the damaged file still knows
    assert_eq!(backlog.finish_after(10).unwrap().last_sequence, 10);
}

#[test]
fn headless_files_are_damaged_and_newer_versions_skipped() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.spool");
    fs::write(&path, "plim").unwrap();
    assert!(matches!(Spool::adopt(&path).unwrap(), AdoptedSpool::Damaged(_)));
    fs::write(&path, b"plimsoll\0\0\0\x02 whatever").unwrap();
    assert!(matches!(Spool::adopt(&path).unwrap(), AdoptedSpool::Busy));
}

#[test]
fn the_file_of_a_live_agent_is_skipped() {
    let dir = TempDir::new().unwrap();
    let alive = Spool::create(dir.path(), 1 << 20, &hello("alive")).unwrap();
    assert!(matches!(Spool::adopt(alive.path()).unwrap(), AdoptedSpool::Busy));
    let mode = fs::metadata(alive.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "others may not read what is built");
}

#[test]
fn older_samples_are_reread_from_the_file() {
    let dir = TempDir::new().unwrap();
    let spool = Spool::create(dir.path(), 1 << 30, &hello("long")).unwrap();
    let mut backlog = Backlog::new(hello("long"), Some(spool));
    let last = 2 * MEMORY_SAMPLES as u64 + 345;
    (1..=last).for_each(|number| backlog.push(sample(number)));
    assert_eq!(backlog.in_memory(), SPOOLED_SAMPLES);
    let (mut cursor, mut numbers) = (backlog.begin(0), Vec::new());
    while let Some(batch) = backlog.next_batch(&mut cursor) {
        assert_eq!(batch.lost, 0);
        numbers.extend((batch.first_sequence..).zip(batch.samples).map(|(number, s)| (number, s.need_bytes)));
    }
    assert_eq!(numbers, (1..=last).map(|number| (number, number)).collect::<Vec<_>>());
    assert_eq!(backlog.lost(), 0);
}

#[test]
fn all_files_together_stay_within_the_bound() {
    let dir = TempDir::new().unwrap();
    let bound = 3 * 4096;
    for attempt in ["a", "b", "c"] {
        fs::write(dir.path().join(format!("{attempt}.refused")), [0; 10]).unwrap();
    }
    // room is made by what was refused, and by nothing else
    let spool = Spool::create(dir.path(), bound, &hello("own")).unwrap();
    assert_eq!(list_files(dir.path(), "refused").len(), 2);
    let mut backlog = Backlog::new(hello("own"), Some(spool));
    (1..=5000).for_each(|number| backlog.push(sample(number)));
    let total: u64 =
        ["spool", "refused"].iter().flat_map(|s| list_files(dir.path(), s)).map(|e| e.bytes).sum();
    assert!(total <= bound, "{total}");
    assert!(backlog.unspooled() > 4000);
    let mut cursor = backlog.begin(0);
    while backlog.next_batch(&mut cursor).is_some() {}
    assert_eq!((cursor.sent, backlog.lost()), (5000, 0), "what has no room in the file is in memory");
    assert!(backlog.spool().unwrap().write_error().unwrap().contains("the spool is full"));
}

#[test]
fn a_full_disk_loses_no_samples_in_memory() {
    let dir = TempDir::new().unwrap();
    let mut spool = Spool::create(dir.path(), 1 << 20, &hello("full")).unwrap();
    // a device that has no room for anything
    spool.file = fs::File::options().read(true).write(true).open("/dev/full").unwrap();
    let mut backlog = Backlog::new(hello("full"), Some(spool));
    let last = MEMORY_SAMPLES as u64 + 7;
    (1..=last).for_each(|number| backlog.push(sample(number)));
    assert_eq!((backlog.lost(), backlog.unspooled()), (7, MEMORY_SAMPLES as u64));
    let trouble = backlog.spool().unwrap().write_error().unwrap().to_owned();
    assert!(trouble.contains("No space left"), "{trouble}");
    let mut cursor = backlog.begin(0);
    let batch = backlog.next_batch(&mut cursor).unwrap();
    assert_eq!((batch.first_sequence, batch.lost, batch.samples.len()), (8, 7, 1000));
}

#[tokio::test]
async fn a_disk_filling_up_does_not_prevent_delivery() {
    let dir = TempDir::new().unwrap();
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let Some(_mounted) = SmallDisk::mount(&disk, "256k") else { return };
    let fake = FakeCollector::start(CollectorFaults::default()).await;
    let settings = Settings { spool_dir: disk.join("spool"), ..settings(&dir, &fake.url) };
    let mut delivery = Delivery::start(&settings, hello("a"));
    delivery.push(sample(1));
    fs::write(disk.join("other"), vec![0; 1 << 20]).unwrap_err();
    (2..=3000).for_each(|number| delivery.push(sample(number)));
    let report = finish(delivery).await;
    assert_eq!((report.delivered, report.lost), (true, 0));
    assert!(report.problem.unwrap().contains("cannot keep samples in"));
    assert_in_order_once(&fake.attempt("a"), 3000);
}

#[test]
fn bit_flips_never_produce_false_samples() {
    let dir = TempDir::new().unwrap();
    let path = leave_behind(&dir, "flipped", 20);
    let good = fs::read(&path).unwrap();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &bad).unwrap();
        let AdoptedSpool::Orphan(spool, mut contents) = Spool::adopt(&path).unwrap() else {
            continue;
        };
        while spool.look_through(&mut contents, 100) {}
        assert_eq!(contents.hello, hello("flipped"), "bit {bit}");
        let mut backlog = Backlog::of_earlier_run(spool, *contents);
        let mut cursor = backlog.begin(0);
        while let Some(batch) = backlog.next_batch(&mut cursor) {
            let numbered = (batch.first_sequence..).zip(batch.samples);
            assert!(numbered.into_iter().all(|(number, got)| got == sample(number)), "bit {bit}");
        }
    }
}

#[tokio::test]
async fn foreign_files_are_skipped() {
    let dir = TempDir::new().unwrap();
    let spool = dir.path().join("spool");
    fs::create_dir_all(spool.join("a-folder.spool")).unwrap();
    fs::write(spool.join("foreign.spool"), "#!/bin/sh\n").unwrap();
    fs::File::create(spool.join("huge.spool")).unwrap().set_len(1 << 40).unwrap();
    fs::write(spool.join("empty.spool"), "").unwrap();
    leave_behind(&dir, "good", 3);
    let mut fake = FakeCollector::start(CollectorFaults::default()).await;
    run_until_finished(&dir, &mut fake, "good").await;
    assert_eq!(files(&dir, "refused").len(), 3);
    assert_eq!(files(&dir, "spool"), Vec::<PathBuf>::new());
}

#[test]
fn two_agents_never_take_over_the_same_file() {
    let dir = TempDir::new().unwrap();
    let path = leave_behind(&dir, "orphan", 3);
    let first = Spool::adopt(&path).unwrap();
    assert!(matches!(first, AdoptedSpool::Orphan(..)));
    assert!(matches!(Spool::adopt(&path).unwrap(), AdoptedSpool::Busy));
    // opened before the first was done with it, locked after: it is not the file that stands there any more
    let late = fs::File::open(&path).unwrap();
    let AdoptedSpool::Orphan(spool, _) = first else { panic!() };
    spool.remove();
    drop(spool);
    late.try_lock().unwrap();
    assert!(!is_file_at(&late, &path).unwrap_or(false));
    assert!(Spool::adopt(&path).is_err());
}

#[test]
fn batches_never_exceed_the_message_size() {
    let dir = TempDir::new().unwrap();
    let max = Some(u64::MAX);
    let large = |number| Sample {
        elapsed_ms: u64::MAX - 3000 + number,
        memory_bytes: u64::MAX,
        need_bytes: u64::MAX,
        memory_peak_bytes: max,
        cpu_usec: u64::MAX,
        oom_kill: max,
        reclaim_failures: max,
        need_max_bytes: max,
        memory_stall_usec: max,
        throttled_usec: max,
        starved_ms: max,
        ..Sample::default()
    };
    let large = |number| large(number).with_pages(PageCounters::all(max));
    let attempt = "x".repeat(limits::ATTEMPT_BYTES);
    for spool in [None, Spool::create(dir.path(), 1 << 30, &hello("large")).ok()] {
        let mut backlog = Backlog::new(hello(&attempt), spool);
        (1..=2500).for_each(|number| backlog.push(large(number)));
        let mut cursor = backlog.begin(0);
        while let Some(batch) = backlog.next_batch(&mut cursor) {
            let message = AgentMessage { message: Some(agent_message::Message::Batch(batch)) };
            assert!(message.encoded_len() <= limits::MESSAGE_BYTES, "{}", message.encoded_len());
        }
        assert_eq!(cursor.sent, 2500);
    }
    let (mut left, bytes) = (BatchBounds { samples: 10, bytes: 300 }, large(1).encoded_len());
    let taken = (1..=10).take_while(|number| left.admit(&large(*number))).count();
    assert!(taken * bytes <= 300 && (taken + 1) * (bytes + 4) > 300, "{taken} of {bytes} bytes");
}

#[test]
fn spool_files_are_never_written_through_links() {
    for hard in [false, true] {
        let dir = TempDir::new().unwrap();
        let (other, hello) = (dir.path().join("other"), hello("own"));
        fs::write(&other, "of another program").unwrap();
        let spool = Spool::create(dir.path(), 1 << 20, &hello).unwrap();
        let path = spool.path().to_owned();
        spool.remove();
        for name in [path.with_extension("draft"), path.clone()] {
            if hard { fs::hard_link(&other, &name) } else { symlink(&other, &name) }.unwrap();
            let mut made = Spool::create(dir.path(), 1 << 20, &hello);
            if let Ok(spool) = &mut made {
                assert!(spool.append_sample(1, sample(1)));
            }
            assert_eq!(fs::read(&other).unwrap(), b"of another program", "{}, hard: {hard}", name.display());
            fs::remove_file(&name).unwrap();
        }
    }
}

#[test]
fn links_and_other_users_files_are_not_adopted() {
    let dir = TempDir::new().unwrap();
    let path = leave_behind(&dir, "own", 3);
    assert!(matches!(Spool::adopt(&path).unwrap(), AdoptedSpool::Orphan(..)));
    let link = path.with_file_name("link.spool");
    symlink(&path, &link).unwrap();
    assert!(Spool::adopt(&link).is_err());
    fs::remove_file(&link).unwrap();
    fs::hard_link(&path, &link).unwrap();
    let refused = Spool::adopt(&path).unwrap_err().to_string();
    assert!(refused.contains("second name"), "{refused}");
    fs::remove_file(&link).unwrap();
    // only root can give files away
    if chown(&path, Some(12_345), None).is_ok() {
        let refused = Spool::adopt(&path).unwrap_err().to_string();
        assert!(refused.contains("belongs to user 12345"), "{refused}");
        assert!(refused.contains("directory of its own"), "{refused}");
    }
}

#[test]
fn unsafe_spool_directories_are_refused_with_the_reason() {
    let dir = TempDir::new().unwrap();
    let made = |mode: u32| {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
        Spool::create(dir.path(), 1 << 20, &hello(&format!("mode-{mode:o}")))
            .map_err(|error| error.to_string())
    };
    assert!(made(0o700).is_ok() && made(0o1777).is_ok());
    let refused = made(0o777).unwrap_err();
    assert!(refused.contains("every user can replace") && refused.contains("sticky bit"), "{refused}");
    if chown(dir.path(), Some(12_345), None).is_ok() {
        let refused = made(0o1777).unwrap_err();
        assert!(refused.contains("belongs to user 12345"), "{refused}");
    }
}

#[test]
fn shared_directories_get_a_private_one_per_user() {
    let dir = TempDir::new().unwrap();
    let mode = |mode: u32| fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o1777);
    assert_eq!(own_dir(dir.path()), dir.path());
    mode(0o777);
    let own = own_dir(dir.path());
    assert_eq!(own, dir.path().join(format!("user-{}", nix::unistd::geteuid())));
    assert!(Spool::create(&own, 1 << 20, &hello("a")).is_ok());
    assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o700);
    fs::remove_dir_all(&own).unwrap();
    symlink("/tmp", &own).unwrap();
    assert_eq!(own_dir(dir.path()), dir.path(), "a link that another user laid there is not followed");
}
