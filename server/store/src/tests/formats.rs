//! The present format: a store that was kept under `tests/stores` opens and reads the same. Every other format: refused, as it is.
//!
//! Files whose names end in `.zst` are packed. The store is written once for each format, when the number of the format changes:
//! `cargo test -p plimsoll-store --lib -- --ignored writes_the_store_of_this_format`.

use std::{fs, path::Path};

use plimsoll_core::domain::{
    Attempt, Bytes, Cause, Cores, CpuMicros, DeliveryOrigin, Exit, Hints, Key, Micros, Millis, OomOrigin,
    Outcome, Phase, Sample, Summary, Ticket, TicketClaim, TicketId,
};
use plimsoll_proto::counters::PageCounters;

use super::fixture::{attempt, open, settings, summary, verdict};
use crate::{
    Batch, FORMAT_VERSION, OfflineStore, OpenError, SampleRun, Store, StoreCopy, StoreSettings,
    append_fragment, compact_samples, fixtures, load, open_attempts, put, put_verdict, read_series,
    read_summary, read_verdict, repair, seal, store_id_at, store_id_of,
};

/// Columns of each kind, and a row whose mean is no whole page.
fn sample(n: u64) -> Sample {
    Sample {
        elapsed: Millis(n * 1000 + n % 3),
        memory: Bytes((n * 37 % 1000) * 4096),
        need: Bytes((n * 31 % 1000) * 4096 + n % 5),
        memory_peak: Some(Bytes(1 << 30)),
        cpu: CpuMicros(n * 800_000),
        oom_kill: Some(n / 100),
        reclaim_failures: (n > 10).then_some(n / 2),
        need_max: (n > 15).then_some(Bytes((n * 31 % 1000 + 7) * 4096)),
        memory_stall: Some(Micros(n * n)),
        pages: PageCounters { refaults: Some(n / 20 * 300), pgmajfault: (n > 5).then_some(n / 7) },
        throttled: Some(Micros(0)),
        starved: (n > 25).then_some(Millis(n)),
    }
}

/// Every field of a key, a cause, a session, phases.
fn ended_summary(attempt: &Attempt) -> Summary {
    let phase = |name: &str, started, need_peak| Phase {
        name: name.into(),
        started: Millis(started),
        wall: Millis(600),
        need_peak: Bytes(need_peak),
        cpu: CpuMicros(5),
    };
    let mut ended = summary(attempt);
    ended.key = Key {
        project: "group/project".into(),
        stack: "e4s".into(),
        version: "1.3".into(),
        variants: "+shared build_type=Release".into(),
        compiler: "gcc".into(),
        compiler_version: "12.2".into(),
        arch: "linux-x86_64_v3".into(),
        build_system: "cmake".into(),
        git_ref: "prüfung".into(),
        owner: "team".into(),
        labels: [("pipeline".into(), "7".into()), ("job".into(), "build".into())].into(),
        hints: Hints { build_jobs: Some(8), input_bytes: Some(1 << 20) },
        ..ended.key
    };
    ended.resources.cpu_request = Some(Cores(0.5));
    ended.resources.cpu_limit = Some(Cores(16.0));
    let ended = Summary {
        origin: Some(DeliveryOrigin::of(attempt)),
        exit: Some(Exit::Code(-1)),
        outcome: Outcome::Failed,
        cause: Some(Cause::Oom),
        censored: true,
        cpu_peak: Cores(7.25),
        samples: 300,
        samples_lost: 3,
        memory_peak: Bytes(1 << 30),
        oom_kill: Some(3),
        oom_origin: Some(OomOrigin::LimitAbove),
        oom_group_kill: Some(1),
        memory_stall: Some(Micros(2)),
        pages: PageCounters { refaults: Some(3), pgmajfault: Some(6) },
        throttled: Some(Micros(4)),
        starved: Some(Millis(5)),
        starved_at_end: Some(Millis(4)),
        ..ended
    };
    ended.with_phases(vec![phase("configure", 0, 1 << 20), phase("build \"all\" ü", 600, 1 << 30)])
}

/// A ticket that waits, and one whose attempt runs.
fn tickets() -> [Ticket; 2] {
    let ticket = |id: &str, number| Ticket {
        id: TicketId::parse(id).unwrap(),
        claim: TicketClaim {
            owner: "team \"a\" ü".into(),
            pool: "big".into(),
            arch: "x86_64".into(),
            kind: "auto".into(),
            tags: vec!["beefy".into(), "licence".into()],
            raised: true,
            memory: Bytes(1 << 30),
            milli_cores: 2500,
            wall: Millis(60_000),
            project: "group/project".into(),
            by: "runner".into(),
            asked: u64::MAX,
            sandbox: String::new(),
            on_host: false,
            upstream_tags: Vec::new(),
            proven: false,
            job_token_ends_unix_ms: None,
        },
        round: 7,
        number,
        opened_unix_ms: 1_700_000_000_000,
        granted_unix_ms: None,
        attempt: None,
        collected: None,
        host: None,
        machine: None,
    };
    let granted_unix_ms = Some(1_700_000_001_000);
    let held = Ticket { granted_unix_ms, attempt: Some(attempt("running").id), ..ticket("held", 1) };
    [held, ticket("waits", 2)]
}

/// An attempt that runs, one so long that part of it is sealed, and one that has ended and was judged; tickets.
async fn fill(store: &Store) {
    let (running, long, ended) = (attempt("running"), attempt("long"), attempt("ended"));
    let mut batch = Batch::default();
    let mut append = |id, from: u64, lost, to| {
        let samples: Vec<Sample> = (from..=to).map(sample).collect();
        append_fragment(&mut batch, id, from, lost, samples).unwrap();
    };
    append(&running.id, 1, 0, 20);
    append(&running.id, 23, 2, 30);
    append(&long.id, 1, 0, 950);
    append(&ended.id, 1, 0, 300);
    for attempt in [&running, &long, &ended] {
        put(&mut batch, attempt).unwrap();
    }
    put_verdict(&mut batch, 7, &verdict("ended")).unwrap();
    store.commit(batch).await.unwrap();
    store.commit(compact_samples(store, &long.id).await.unwrap().batch).await.unwrap();
    let mut batch = Batch::default();
    let more: Vec<Sample> = (951..=960).map(sample).collect();
    append_fragment(&mut batch, &long.id, 951, 0, more).unwrap();
    for ticket in &tickets() {
        put(&mut batch, ticket).unwrap();
    }
    store.commit(batch).await.unwrap();
    seal(store, &ended, &ended_summary(&ended)).await.unwrap();
}

/// Checks that a store holds what [`fill`] put there.
async fn check(store: &Store) {
    let run = |first_sequence, lost, to| {
        let samples = (first_sequence..=to).map(sample).collect();
        SampleRun { first_sequence, lost, samples }
    };
    let (running, long, ended) = (attempt("running"), attempt("long"), attempt("ended"));
    let mut open = open_attempts(store).await.unwrap();
    open.sort_by(|a, b| b.id.cmp(&a.id));
    assert_eq!(open, [running.clone(), long.clone()]);
    let series = [
        (running.id, vec![run(1, 0, 20), run(23, 2, 30)]),
        (long.id, vec![run(1, 0, 960)]),
        (ended.id.clone(), vec![run(1, 0, 300)]),
    ];
    for (id, runs) in series {
        let read = read_series(store, &id).await.unwrap();
        assert_eq!((read.runs, read.extent.damaged), (runs, 0), "{id}");
    }
    let summary = ended_summary(&ended);
    assert_eq!(read_summary(store, &ended.id).await.unwrap(), Some(summary));
    assert_eq!(read_verdict(store, &ended.id, 7).await.unwrap(), Some(verdict("ended")));
    let mut found = Vec::new();
    load::<Ticket>(store, |ticket| found.push(ticket)).await.unwrap();
    assert_eq!(found, tickets());
}

/// A copy of the store that was kept, unpacked.
fn unpacked() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fixtures::unpack(&settings(dir.path()).dir).unwrap();
    dir
}

#[tokio::test]
#[ignore = "writes tests/stores; run once when the number of the format changes"]
async fn writes_the_store_of_this_format() {
    let to = fixtures::stored();
    assert!(!fs::exists(&to).unwrap(), "{} is there: remove it first", to.display());
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store).await;
    check(&store).await;
    store.close().await.unwrap();
    fixtures::copy(&settings(dir.path()).dir, &to, true).unwrap();
}

#[tokio::test]
async fn every_start_reads_this_format_the_same() {
    let dir = unpacked();
    for _ in 0..2 {
        let store = open(dir.path());
        check(&store).await;
        store.close().await.unwrap();
    }
}

/// Changes the number of the format in the marker.
fn mark(dir: &Path, format: u32) {
    let path = settings(dir).dir.join("plimsoll.json");
    let [own, other] = [FORMAT_VERSION, format].map(|n| format!("\"format_version\": {n},"));
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(&own));
    fs::write(path, text.replace(&own, &other)).unwrap();
}

/// A store with these bytes as its newest identity, behind valid ones.
fn with_identity(identity: &[u8]) -> tempfile::TempDir {
    let (made, dir) = (unpacked(), tempfile::tempdir().unwrap());
    let sled = ::sled::Config::new().path(settings(made.path()).dir.join("sled")).open().unwrap();
    sled.insert(b"i", identity).unwrap();
    sled.flush().unwrap();
    drop(sled);
    // sled may still write into the first one in the background
    fixtures::copy(made.path(), dir.path(), false).unwrap();
    dir
}

/// As long as the rest of our own identity: id, sequence.
const REST: &[u8] = b"another id, and a number";

/// A store whose log has an identity of this format, with our marker or one of the same format.
fn of_format(format: u32, rest: &[u8], is_marked: bool) -> tempfile::TempDir {
    let other = [&format.to_be_bytes()[..], rest].concat();
    let dir = with_identity(&[&other[..], &crc32fast::hash(&other).to_be_bytes()].concat());
    if is_marked {
        mark(dir.path(), format);
    }
    dir
}

fn assert_refused_unchanged(dir: &Path, format: u32) {
    let before = fixtures::contents(dir).unwrap();
    for (way, refusal) in refusals(dir) {
        let text = refusal.unwrap_or_else(|| panic!("{way} opened format {format}")).to_string();
        let formats =
            format!("a store of format {format}, and this program reads format {FORMAT_VERSION} only");
        assert!(text.contains(&formats), "{way}: {text}");
        let has_way_out = text.contains("plimsoll-server export") && text.contains("name an empty directory");
        assert!(has_way_out && text.lines().count() == 1, "{way}: {text}");
        assert!(fixtures::contents(dir).unwrap() == before, "{way} changed a store of format {format}");
    }
}

/// What each way to open a store says to the one in `dir`.
fn refusals(dir: &Path) -> Vec<(&'static str, Option<OpenError>)> {
    let (store, into) = (settings(dir), dir.join("repaired"));
    let into = StoreSettings { dir: into, ..settings(dir) };
    vec![
        ("open", Store::open(&store).err()),
        ("open at rest", OfflineStore::open(&store).err()),
        ("look", OfflineStore::open_copy(&store, None).err()),
        ("accept loss", OfflineStore::accept_loss(&store, None).err()),
        ("copy", StoreCopy::of(&store, None).err()),
        ("doctor", store_id_at(&store.dir).err()),
        ("repair", repair(&store.dir, &into, |_| {}).err()),
    ]
}

#[test]
fn other_store_formats_are_refused_unchanged() {
    for format in (0..FORMAT_VERSION + 3).filter(|format| *format != FORMAT_VERSION).chain([u32::MAX]) {
        for is_marked in [true, false] {
            let dir = of_format(format, REST, is_marked);
            assert_refused_unchanged(dir.path(), format);
            let is_locked = fs::exists(settings(dir.path()).dir.join("plimsoll.lock")).unwrap();
            assert!(!(is_marked && is_locked), "not even a lock is left");
        }
        let dir = unpacked();
        mark(dir.path(), format);
        assert!(matches!(store_id_of(&settings(dir.path()).dir), Err(OpenError::OtherFormat { .. })));
    }
}

#[test]
fn identities_of_other_lengths_are_refused_before_opening() {
    for rest in [&b""[..], &REST[1..], b"a longer id, a number, and what a later format adds"] {
        let dir = of_format(FORMAT_VERSION + 1, rest, false);
        assert_refused_unchanged(dir.path(), FORMAT_VERSION + 1);
    }
}

#[test]
fn identities_with_wrong_checksums_are_refused_until_repaired() {
    let dir = with_identity(&[7; 32]);
    let store = settings(dir.path()).dir;
    let before = fixtures::contents(&store).unwrap();
    for (way, refusal) in refusals(dir.path()) {
        if way == "repair" {
            assert!(refusal.is_none(), "{refusal:?}");
            continue;
        }
        let text = refusal.unwrap_or_else(|| panic!("{way} opened it")).to_string();
        for part in
            [store.to_str().unwrap(), "the identity of the store is damaged", "plimsoll-server repair"]
        {
            assert!(text.contains(part) && text.lines().count() == 1, "{way}: {text}");
        }
    }
    assert!(fixtures::contents(&store).unwrap() == before, "no way to open it changes it");
}

#[tokio::test]
async fn a_wrong_marker_number_is_repairable() {
    let dir = unpacked();
    mark(dir.path(), FORMAT_VERSION + 1);
    let into = StoreSettings { dir: dir.path().join("repaired"), ..settings(dir.path()) };
    let report = repair(&settings(dir.path()).dir, &into, |_| {}).unwrap();
    assert!(report.losses.is_empty(), "{report:?}");
    let store = Store::open(&into).unwrap();
    check(&store).await;
    store.close().await.unwrap();
}
