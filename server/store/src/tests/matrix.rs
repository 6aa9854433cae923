//! Every file of a store, damaged in every way: what a server, `verify`, `repair` and `backup` say of it, and that what they say is true.
//!
//! A cell is one file and one kind of damage. In each of them: a server that starts has all records, or `verify` said which it misses;
//! `verify` refuses where a server does; a refusal names `repair`; `repair` brings back every record whose bytes were not hit, or counts it
//! among the changes of lost pages, names the rest, and leaves the damaged directory as it was. A checksum of sled covers a message of its log, so a message is the smallest thing
//! that can be hit.

use std::{
    collections::BTreeMap,
    fs, iter,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use plimsoll_core::domain::{Ticket, Verdict};

use super::fixture::{Entries, attempt, entries, id, open, samples, settings, summary, verdict};
use crate::{
    Batch, LogLoss, OfflineStore, OpenError, RepairLoss, RepairReport, Store, StoreSettings, append_fragment,
    backup, compact_samples, each_summary, fixtures, load, open_attempts, put, put_verdict, seal,
    sled::{raw_log::RawLog, repair},
};

/// A store with some of everything, in several segments, changed and shortened, and cleanly closed. Gives the snapshot that a server
/// would find that was killed in its second run.
async fn filled(dir: &Path) -> (PathBuf, Vec<u8>) {
    let mut found = None;
    for round in 0..3 {
        let store = open(dir);
        if round == 1 {
            let path = snapshot(&settings(dir).dir);
            found = Some((path.clone(), fs::read(path).unwrap()));
        }
        for n in round * 40..round * 40 + 40 {
            let name = format!("gitlab.example.com:{n:04}");
            let attempt = attempt(&name);
            let mut batch = Batch::default();
            put(&mut batch, &attempt).unwrap();
            append_fragment(&mut batch, &attempt.id, 1, 0, samples(1, 100)).unwrap();
            put_verdict(&mut batch, 7, &verdict(&name)).unwrap();
            store.commit(batch).await.unwrap();
            if n % 4 == 1 {
                store.commit(compact_samples(&store, &attempt.id).await.unwrap().batch).await.unwrap();
            }
            if n % 4 > 1 {
                seal(&store, &attempt, &summary(&attempt)).await.unwrap();
            }
            if n > 40 && n % 8 == 3 {
                let mut again = summary(&self::attempt(&format!("gitlab.example.com:{:04}", n - 40)));
                again.key.variants = "v".repeat(n * 30);
                let mut batch = Batch::default();
                put(&mut batch, &again).unwrap();
                store.commit(batch).await.unwrap();
            }
        }
        store.close().await.unwrap();
    }
    found.unwrap()
}

fn snapshot(data: &Path) -> PathBuf {
    let files = fs::read_dir(data.join("sled")).unwrap().map(|file| file.unwrap().path());
    files.into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("snap.")).unwrap()
}

/// Copies a data directory to a place where there is none.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
}

#[derive(Debug, Clone, Copy)]
enum Damage {
    Gone,
    Empty,
    /// So many tenths are left, and a little more.
    Cut(u64),
    Bits(u64),
    Zeros,
}

const KINDS: [Damage; 15] = [
    Damage::Gone,
    Damage::Empty,
    Damage::Cut(0),
    Damage::Cut(1),
    Damage::Cut(2),
    Damage::Cut(3),
    Damage::Cut(4),
    Damage::Cut(5),
    Damage::Cut(6),
    Damage::Cut(7),
    Damage::Cut(8),
    Damage::Cut(9),
    Damage::Bits(1),
    Damage::Bits(50),
    Damage::Zeros,
];

impl Damage {
    /// Does it to a file; gives the bytes that were hit.
    fn to(self, path: &Path, draw: &mut u64) -> Vec<Range<u64>> {
        let mut bytes = fs::read(path).unwrap();
        let len = bytes.len() as u64;
        let mut next = |bound: u64| {
            *draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*draw >> 33) % bound.max(1)
        };
        let hit = match self {
            Self::Gone => {
                fs::remove_file(path).unwrap();
                return one(0..len);
            }
            Self::Empty => one(0..len),
            Self::Cut(tenths) => one((len * tenths / 10 + next(len / 10)).min(len.saturating_sub(1))..len),
            Self::Bits(count) => (0..count).map(|_| next(len)).map(|at| at..at + 1).collect(),
            Self::Zeros => {
                let from = next(len.saturating_sub(4096));
                one(from..(from + 4096).min(len))
            }
        };
        for range in &hit {
            let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            match self {
                Self::Bits(_) => bytes[range.start] ^= 1 << next(8),
                Self::Zeros => bytes[range].fill(0),
                _ => bytes.truncate(range.start),
            }
        }
        fs::write(path, bytes).unwrap();
        hit
    }
}

fn one(range: Range<u64>) -> Vec<Range<u64>> {
    iter::once(range).collect()
}

/// Exit status and sentence of `verify`.
fn verify(settings: &StoreSettings) -> (u8, String) {
    let store = match OfflineStore::open_copy(settings, None) {
        Ok(store) => store,
        Err(error) => return (1, error.to_string()),
    };
    let checked = store.check(|_flaw| {}, |_bytes| {});
    match store.server_refusal() {
        Some(refused) => (1, refused.to_string()),
        None if checked.unreadable + checked.damaged > 0 => (3, String::new()),
        None => (0, String::new()),
    }
}

/// What a start of a server reads; what it would say to a refusal.
async fn serve(settings: &StoreSettings) -> Result<u64, OpenError> {
    let store = Store::open(settings)?;
    let read = each_summary(&store, |_| {}).await.unwrap();
    let verdicts = load::<Verdict>(&store, |_| {}).await.unwrap();
    let tickets = load::<Ticket>(&store, |_| {}).await.unwrap();
    let open = open_attempts(&store).await.unwrap();
    for attempt in &open {
        crate::each_run_past_damage(&store, &attempt.id, |_| {}).await.unwrap();
    }
    store.close().await.unwrap();
    Ok(read.records + verdicts.records + tickets.records + open.len() as u64)
}

fn back_up(settings: &StoreSettings) -> Result<u64, String> {
    let store = OfflineStore::open_copy(settings, None).map_err(|error| error.to_string())?;
    backup::write(&store, &mut Vec::new(), |_| {}).map_err(|error| error.to_string())
}

/// The store before the damage.
struct Whole {
    dir: PathBuf,
    entries: Entries,
    /// The bytes of the log that each key needs.
    spans: BTreeMap<Vec<u8>, Range<u64>>,
    records: u64,
}

impl Whole {
    /// Keys that were not hit, where the log was damaged in these places. Of a record with a part that was hit, none.
    fn spared(&self, hit: &[Range<u64>]) -> Vec<&Vec<u8>> {
        let is_hit = |key: &Vec<u8>| {
            self.spans
                .get(key)
                .is_none_or(|span| hit.iter().any(|hit| hit.start < span.end && span.start < hit.end))
        };
        let record = |key: &Vec<u8>| match key.first() {
            Some(b'f' | b'b') => key.clone(),
            _ => key[..key.len() - 1].to_vec(),
        };
        let lost: Vec<Vec<u8>> = self.entries.keys().filter(|key| is_hit(key)).map(record).collect();
        self.entries.keys().filter(|key| !lost.contains(&record(key))).collect()
    }
}

/// What a server and `verify` say must agree and be true.
fn check_served(whole: &Whole, name: &str, served: &Result<u64, OpenError>, (status, sentence): (u8, &str)) {
    match served {
        Ok(records) => {
            assert_ne!(status, 1, "{name}: a server starts, and verify says {sentence}");
            assert!(
                status == 3 || *records == whole.records,
                "{name}: {records} records are there, and verify says nothing"
            );
        }
        Err(error) => {
            assert_eq!(status, 1, "{name}: a server says {error}");
            let text = error.to_string();
            assert!(text.contains("plimsoll-server repair"), "{name}: {text}");
            assert_eq!(sentence, text, "{name}");
        }
    }
}

/// What a repair made must have all that was not hit, and it must have named the rest. Gives what came back.
async fn check_repaired(
    whole: &Whole,
    name: &str,
    (repaired, into): (&Result<RepairReport, OpenError>, &StoreSettings),
    hit: &[Range<u64>],
) -> String {
    match repaired {
        Ok(repaired) => {
            let store = OfflineStore::open(into).unwrap();
            let found = entries(&store);
            let is_counted =
                repaired.losses.iter().any(|loss| matches!(loss, RepairLoss::Log(LogLoss::Changes(_))));
            for key in whole.spared(hit) {
                assert!(
                    found.get(key) == whole.entries.get(key) || is_counted,
                    "{name}: {} {:?}",
                    key.escape_ascii(),
                    repaired.losses
                );
            }
            for open in found.keys().filter(|key| key.first() == Some(&b'a')) {
                let ended = [b"s", &open[1..]].concat();
                assert!(
                    whole.entries.contains_key(open) || !found.contains_key(&ended),
                    "{name}: {} has ended and is open",
                    open.escape_ascii()
                );
            }
            let all = found == whole.entries;
            let differs = |key: &&Vec<u8>| found.get(*key) != whole.entries.get(*key);
            let changed: Vec<String> = whole
                .entries
                .keys()
                .chain(found.keys())
                .filter(differs)
                .map(|key| key.escape_ascii().to_string())
                .collect();
            assert!(
                all || !repaired.losses.is_empty(),
                "{name}: what is lost is named; by the engine: {}, hit {hit:?}: {changed:?}",
                repaired.by_engine
            );
            assert_eq!(repaired.checked.damaged + repaired.checked.unreadable, 0, "{name}");
            drop(store);
            serve(into).await.unwrap();
            format!("{} of {} back", found.len(), whole.entries.len())
        }
        Err(error) => {
            let nothing = name.starts_with("sled/db") && matches!(error, OpenError::NothingLeft { .. });
            assert!(nothing, "{name}: {error}");
            "nothing left".to_owned()
        }
    }
}

/// One cell. Gives the statuses of the four, for people.
async fn cell(whole: &Whole, file: &str, damage: Damage, seed: u64) -> String {
    let mut draw = seed;
    let name = format!("{file}, {damage:?}");
    let scratch = tempfile::tempdir().unwrap();
    let settings = settings(scratch.path());
    copy(&whole.dir, &settings.dir);
    let hit = damage.to(&settings.dir.join(file), &mut draw);
    let hit = if file == "sled/db" { hit } else { Vec::new() };
    let before = fixtures::contents(&settings.dir).unwrap();

    let into = StoreSettings { dir: scratch.path().join("repaired"), ..settings.clone() };
    let repaired = repair(&settings.dir, &into, |_| {});
    let (status, sentence) = verify(&settings);
    let backed_up = back_up(&settings);
    assert_eq!(fixtures::contents(&settings.dir).unwrap(), before, "{name}: nothing was changed");

    let served = serve(&settings).await;
    check_served(whole, &name, &served, (status, &sentence));
    if let Err(refused) = &served {
        let log = settings.dir.join("sled/db");
        let is_same = fs::read(&log).ok().as_ref() == before.get(&log);
        // only the first pages that sled reads may make it refuse after it has written, and then nothing that counts
        assert!(is_same || matches!(refused, OpenError::Engine { .. }), "{name}: {refused} after a change");
        let again = StoreSettings { dir: scratch.path().join("again"), ..settings.clone() };
        let repaired_again = repair(&settings.dir, &again, |_| {});
        assert_eq!(repaired_again.is_ok(), repaired.is_ok(), "{name}");
        if repaired.is_ok() {
            let found = |settings| entries(&OfflineStore::open(settings).unwrap());
            assert!(found(&into) == found(&again), "{name}: a start that refuses costs nothing");
        }
    }
    match &backed_up {
        Ok(count) => assert!(status != 1 && *count == whole.entries.len() as u64, "{name}: {count} entries"),
        Err(error) => {
            assert!(status != 0 && error.contains("plimsoll-server repair"), "{name}: {status}, {error}");
        }
    }
    let lost = check_repaired(whole, &name, (&repaired, &into), &hit).await;
    let outcome = |worked: bool| if worked { "works" } else { "refuses" };
    format!(
        "{name:<32} server {:<8} verify {status}  backup {:<8} repair {lost}",
        outcome(served.is_ok()),
        outcome(backed_up.is_ok())
    )
}

async fn whole(dir: &Path) -> Whole {
    let data = settings(dir).dir;
    let log = RawLog::read(&data.join("sled/db"), false).unwrap();
    let spans = log.spans().into_iter().collect();
    let scratch = tempfile::tempdir().unwrap();
    copy(&data, &settings(scratch.path()).dir);
    let entries = entries(&OfflineStore::open(&settings(scratch.path())).unwrap());
    let records = serve(&settings(scratch.path())).await.unwrap();
    Whole { dir: data, entries, spans, records }
}

/// Cells that are tried at once.
const AT_ONCE: usize = 8;

/// The names of a store's files.
fn files(dir: &Path) -> Vec<String> {
    let mut files = ["plimsoll.json", "plimsoll.last", "plimsoll.lock"].map(str::to_owned).to_vec();
    for file in fs::read_dir(dir.join("sled")).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            files.push(format!("sled/{}", file.file_name().to_str().unwrap()));
        }
    }
    files
}

#[tokio::test]
async fn every_damage_is_reported_and_has_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let (old, bytes) = filled(dir.path()).await;
    let whole = whole(dir.path()).await;
    let summary = [b"sgitlab.example.com:0002".as_slice(), &[0, 0]].concat();
    assert!(whole.entries.contains_key(&summary), "{}", id("x"));
    let files = files(&whole.dir);
    assert_eq!(files.len(), 6, "{files:?}");
    let cells = files.iter().flat_map(|file| KINDS.map(|damage| (file.as_str(), damage)));
    try_all(&whole, &cells.collect::<Vec<_>>());
    // as a killed server leaves it: sled reads most of its log when it opens
    fs::remove_file(snapshot(&whole.dir)).unwrap();
    fs::write(old, bytes).unwrap();
    let cells = KINDS.into_iter().chain([Damage::Bits(1); 10]).map(|damage| ("sled/db", damage));
    try_all(&whole, &cells.collect::<Vec<_>>());
}

/// Tries some cells at a time: most of the time of each is spent waiting for the engine to close.
fn try_all(whole: &Whole, cells: &[(&str, Damage)]) {
    let one_in = |of: usize| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (seed, (file, damage)) in (1..).zip(cells).skip(of).step_by(AT_ONCE) {
            println!("{}", runtime.block_on(cell(whole, file, *damage, seed)));
        }
    };
    thread::scope(|scope| {
        for of in 0..AT_ONCE {
            scope.spawn(move || one_in(of));
        }
    });
}
