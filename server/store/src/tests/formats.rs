//! Stores that earlier versions wrote: each format has one under `tests/stores`, and it still opens and reads the same.
//!
//! Files whose names end in `.zst` are packed. A format's store is written once, when the format is done:
//! `cargo test -p plimsoll-store --lib -- --ignored writes_the_store_of_this_format`.

use std::{fs, path::Path};

use plimsoll_core::domain::{
    Attempt, Bytes, Cause, Cores, CpuMicros, DeliveryOrigin, Exit, Hints, Key, Micros, Millis, OomOrigin,
    Outcome, Phase, Sample, Summary, Ticket, TicketClaim, TicketId,
};
use plimsoll_proto::counters::PageCounters;

use super::fixture::{attempt, open, refusal, settings, summary, verdict};
use crate::{
    Batch, FORMAT_VERSION, SampleRun, Store, append_fragment, fixtures, load_tickets, open_attempts,
    put_attempt, put_summary, put_ticket, put_verdict, read_series, read_summary, read_verdict, roll, seal,
};

/// What a sample could hold in format 1.
fn sample_of_v1(n: u64) -> Sample {
    Sample {
        elapsed: Millis(n * 1000 + n % 3),
        memory: Bytes((n * 37 % 1000) * 4096),
        need: Bytes((n * 31 % 1000) * 4096),
        memory_peak: Some(Bytes(1 << 30)),
        cpu: CpuMicros(n * 800_000),
        oom_kill: Some(n / 100),
        reclaim_failures: (n > 10).then_some(n / 2),
        ..Sample::default()
    }
}

/// The counter of pages that format 2 added.
fn first_page(value: u64) -> PageCounters {
    let mut pages = PageCounters::default();
    (PageCounters::ALL[0].set)(&mut pages, Some(value));
    pages
}

fn summary_of_v1(attempt: &Attempt) -> Summary {
    // what the format of then did not say
    Summary { origin: None, oom_kill: Some(3), samples: 300, ..summary(attempt) }
}

/// What format 2 added: columns of each kind, a row whose mean is no whole page, phases.
fn sample_of_v2(n: u64) -> Sample {
    Sample {
        need: Bytes((n * 31 % 1000) * 4096 + n % 5),
        need_max: (n > 15).then_some(Bytes((n * 31 % 1000 + 7) * 4096)),
        memory_stall: Some(Micros(n * n)),
        pages: first_page(n / 20 * 300),
        throttled: Some(Micros(0)),
        starved: (n > 25).then_some(Millis(n)),
        ..sample_of_v1(n)
    }
}

fn summary_of_v2(attempt: &Attempt) -> Summary {
    let phase = |name: &str, started, need_peak| Phase {
        name: name.into(),
        started: Millis(started),
        wall: Millis(600),
        need_peak: Bytes(need_peak),
        cpu: CpuMicros(5),
    };
    let summary = Summary {
        // the mark was at least the need, also where none was read
        memory_peak: Bytes(1 << 30),
        oom_origin: Some(OomOrigin::LimitAbove),
        oom_group_kill: Some(1),
        memory_stall: Some(Micros(2)),
        pages: first_page(3),
        throttled: Some(Micros(4)),
        starved: Some(Millis(5)),
        starved_at_end: Some(Millis(4)),
        ..summary_of_v1(attempt)
    };
    summary.with_phases(vec![phase("configure", 0, 1 << 20), phase("build \"all\" ü", 600, 1 << 30)])
}

/// What format 3 writes in numbers: every field of a key, a cause, a session.
fn summary_of_v3(attempt: &Attempt) -> Summary {
    let mut summary = summary_of_v2(attempt);
    summary.key = Key {
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
        ..summary.key
    };
    summary.resources.cpu_request = Some(Cores(0.5));
    summary.resources.cpu_limit = Some(Cores(16.0));
    summary.origin = Some(DeliveryOrigin::of(attempt));
    summary.exit = Some(Exit::Code(-1));
    (summary.outcome, summary.cause, summary.censored) = (Outcome::Failed, Some(Cause::Oom), true);
    (summary.cpu_peak, summary.samples_lost) = (Cores(7.25), 3);
    summary
}

/// What format 5 added: one more counter of pages.
fn sample_of_v5(n: u64) -> Sample {
    let pages = PageCounters { pgmajfault: (n > 5).then_some(n / 7), ..sample_of_v2(n).pages };
    Sample { pages, ..sample_of_v2(n) }
}

fn summary_of_v5(attempt: &Attempt) -> Summary {
    let summary = summary_of_v3(attempt);
    Summary { pages: PageCounters { pgmajfault: Some(6), ..summary.pages }, ..summary }
}

/// An attempt that runs, one so long that part of it is sealed, and one that has ended and was judged.
async fn fill(store: &Store, sample: fn(u64) -> Sample, summary: &Summary) {
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
        put_attempt(&mut batch, attempt).unwrap();
    }
    put_verdict(&mut batch, 7, &verdict("ended")).unwrap();
    store.commit(batch).await.unwrap();
    store.commit(roll(store, &long.id).await.unwrap().batch).await.unwrap();
    let mut batch = Batch::default();
    let more: Vec<Sample> = (951..=960).map(sample).collect();
    append_fragment(&mut batch, &long.id, 951, 0, more).unwrap();
    store.commit(batch).await.unwrap();
    seal(store, &ended, summary).await.unwrap();
}

/// What format 4 added: a ticket that waits, and one whose attempt runs.
fn tickets_of_v4() -> [Ticket; 2] {
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
            proven: false,
            asked: u64::MAX,
        },
        round: 7,
        number,
        opened_unix_ms: 1_700_000_000_000,
        granted_unix_ms: None,
        attempt: None,
    };
    let granted_unix_ms = Some(1_700_000_001_000);
    let held = Ticket { granted_unix_ms, attempt: Some(attempt("running").id), ..ticket("held", 1) };
    [held, ticket("waits", 2)]
}

async fn check_tickets(store: &Store) {
    let mut tickets = Vec::new();
    load_tickets(store, |ticket| tickets.push(ticket)).await.unwrap();
    assert_eq!(tickets, tickets_of_v4());
}

/// Checks that a store holds what [`fill`] put there.
async fn check(store: &Store, sample: fn(u64) -> Sample, summary: &Summary) {
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
    assert_eq!(read_summary(store, &ended.id).await.unwrap().as_ref(), Some(summary));
    assert_eq!(read_verdict(store, &ended.id, 7).await.unwrap(), Some(verdict("ended")));
}

/// A copy of the store that a format left, unpacked.
fn unpacked(format: u32) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fixtures::unpack(format, &settings(dir.path()).dir).unwrap();
    dir
}

fn marker(dir: &Path) -> String {
    fs::read_to_string(settings(dir).dir.join("plimsoll.json")).unwrap()
}

#[tokio::test]
#[ignore = "writes tests/stores; run once when a format is done"]
async fn writes_the_store_of_this_format() {
    let to = fixtures::stored(FORMAT_VERSION);
    assert!(!fs::exists(&to).unwrap(), "{} is there: a format that was released never changes", to.display());
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let summary = summary_of_v5(&attempt("ended"));
    fill(&store, sample_of_v5, &summary).await;
    check(&store, sample_of_v5, &summary).await;
    let mut batch = Batch::default();
    for ticket in &tickets_of_v4() {
        put_ticket(&mut batch, ticket).unwrap();
    }
    store.commit(batch).await.unwrap();
    check_tickets(&store).await;
    store.close().await.unwrap();
    fixtures::copy(&settings(dir.path()).dir, &to, true).unwrap();
}

#[tokio::test]
async fn a_store_of_format_1_reads_the_same_and_goes_on_as_one_of_this_format() {
    let dir = unpacked(1);
    assert!(marker(dir.path()).contains("\"format_version\": 1"));
    for _ in 0..2 {
        let store = open(dir.path());
        check(&store, sample_of_v1, &summary_of_v1(&attempt("ended"))).await;
        store.close().await.unwrap();
        assert!(marker(dir.path()).contains(&format!("\"format_version\": {FORMAT_VERSION}")));
    }
    let sled = ::sled::Config::new().path(settings(dir.path()).dir.join("sled")).open().unwrap();
    assert_eq!(sled.get(b"i").unwrap().unwrap()[..4], FORMAT_VERSION.to_be_bytes());
}

#[tokio::test]
async fn an_attempt_that_began_under_format_1_goes_on_with_the_columns_of_format_2() {
    let dir = unpacked(1);
    let (store, running) = (open(dir.path()), attempt("running"));
    let more: Vec<Sample> = (31..=40).map(sample_of_v2).collect();
    let mut batch = Batch::default();
    append_fragment(&mut batch, &running.id, 31, 0, more.as_slice()).unwrap();
    store.commit(batch).await.unwrap();
    seal(&store, &running, &summary(&running)).await.unwrap();
    let read = read_series(&store, &running.id).await.unwrap();
    let all: Vec<Sample> = read.runs.into_iter().flat_map(|run| run.samples).collect();
    let expected = (1..=20).chain(23..=30).map(sample_of_v1).chain(more);
    assert_eq!(all, expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn a_store_of_format_2_reads_the_same() {
    let dir = unpacked(2);
    let store = open(dir.path());
    check(&store, sample_of_v2, &summary_of_v2(&attempt("ended"))).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_store_of_format_3_reads_the_same() {
    let dir = unpacked(3);
    let store = open(dir.path());
    check(&store, sample_of_v2, &summary_of_v3(&attempt("ended"))).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_store_of_format_4_reads_the_same() {
    let dir = unpacked(4);
    let store = open(dir.path());
    check(&store, sample_of_v2, &summary_of_v3(&attempt("ended"))).await;
    check_tickets(&store).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_store_of_format_5_reads_the_same() {
    let dir = unpacked(5);
    let store = open(dir.path());
    check(&store, sample_of_v5, &summary_of_v5(&attempt("ended"))).await;
    check_tickets(&store).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_summary_of_format_2_is_settled_in_the_codec_of_format_3_and_leaves_no_part_behind_that_is_read() {
    let dir = unpacked(2);
    let store = open(dir.path());
    let old = summary_of_v2(&attempt("ended"));
    let key = [b"sended\0".as_slice(), &[0]].concat();
    assert_eq!(store.get(&key).await.unwrap().unwrap().value[1], 1, "JSON");
    let settled = Summary { cause: Some(Cause::Infra), ..old };
    let mut batch = Batch::default();
    put_summary(&mut batch, &settled).unwrap();
    store.commit(batch).await.unwrap();
    assert_eq!(store.get(&key).await.unwrap().unwrap().value[1], 2, "fields with numbers");
    assert_eq!(read_summary(&store, &settled.attempt).await.unwrap(), Some(settled));
    store.close().await.unwrap();
}

#[tokio::test]
async fn an_identity_of_a_newer_format_is_refused_with_the_way_out() {
    let dir = unpacked(1);
    let sled = ::sled::Config::new().path(settings(dir.path()).dir.join("sled")).open().unwrap();
    let newer = [&(FORMAT_VERSION + 1).to_be_bytes()[..], b"all else is new"].concat();
    let crc = crc32fast::hash(&newer).to_be_bytes();
    sled.insert(b"i", [&newer[..], &crc].concat()).unwrap();
    sled.flush().unwrap();
    drop(sled);
    let error = refusal(dir.path());
    let newer = format!("format version {}", FORMAT_VERSION + 1);
    assert!(error.contains(&newer) && error.contains("start the newer server again"), "{error}");
    assert!(marker(dir.path()).contains("\"format_version\": 1"), "nothing was changed");
}
