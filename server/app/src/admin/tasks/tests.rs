//! Archives: complete, cut short, damaged, of others.

use ulid::Ulid;

mod reading;

use plimsoll_core::domain::{
    Attempt, AttemptId, Bytes, Cause, Exit, FinalTotals, Hints, Millis, OpeningRecord, Outcome,
    PredictionSnapshot, Sample, SampleAccumulator, Summary, UpstreamServer, UpstreamTicket, test_attempt,
    test_summary,
};
use plimsoll_lab::import;
use plimsoll_store::{
    Batch, FORMAT_VERSION, KeyValue, OfflineStore, Store, StoreIdentity, StoreSettings, VersionedValue,
    append_fragment,
    archive::{ArchiveError, Packer, Unpacker},
    backup::{self, RestoreScope},
    load, put, seal,
};

use super::export;

fn identity() -> StoreIdentity {
    StoreIdentity { format: FORMAT_VERSION, id: Ulid::from_parts(1, 2), sequence: 99 }
}

fn entries(count: u64) -> Vec<KeyValue> {
    let value = |n: u64| VersionedValue {
        version: n,
        value: n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().repeat(400),
    };
    (0..count).map(|n| KeyValue { key: format!("b{n:06}").into_bytes(), value: value(n) }).collect()
}

fn archive(entries: Vec<KeyValue>) -> Vec<u8> {
    let (mut packer, mut bytes) = Packer::begin(identity());
    bytes.extend(packer.add_entries(entries).unwrap());
    bytes.extend(packer.end().unwrap());
    bytes
}

fn unpack(bytes: &[u8]) -> Result<Vec<KeyValue>, ArchiveError> {
    let mut unpacker = Unpacker::begin(bytes)?;
    let mut all = Vec::new();
    while let Some(entries) = unpacker.next_entries()? {
        all.extend(entries);
    }
    Ok(all)
}

#[test]
fn an_archive_gives_back_what_was_put_in() {
    let bytes = archive(entries(1000));
    assert_eq!(unpack(&bytes).unwrap(), entries(1000));
    assert_eq!(Unpacker::begin(bytes.as_slice()).unwrap().identity, identity());
    assert!(unpack(&archive(Vec::new())).unwrap().is_empty());
}

#[test]
fn truncated_archives_are_refused() {
    let bytes = archive(entries(500));
    for length in (0..bytes.len()).step_by(997).chain([bytes.len() - 1]) {
        assert!(unpack(&bytes[..length]).is_err(), "cut at {length}");
    }
}

#[test]
fn data_after_an_archives_end_is_refused() {
    let bytes = [archive(entries(20)), b"xxxx".to_vec()].concat();
    assert!(unpack(&bytes).unwrap_err().to_string().contains("something follows its end"));
}

#[test]
fn one_wrong_byte_is_found_wherever_it_is() {
    let bytes = archive(entries(20));
    for spot in (0..bytes.len()).step_by(31) {
        let mut damaged = bytes.clone();
        damaged[spot] ^= 0x20;
        assert!(unpack(&damaged).is_err(), "byte {spot}");
    }
}

#[test]
fn foreign_archives_and_other_formats_are_refused() {
    assert!(matches!(unpack(b"something else entirely"), Err(ArchiveError::Foreign)));
    for format in [0, FORMAT_VERSION - 1, FORMAT_VERSION + 1] {
        let (_, head) = Packer::begin(StoreIdentity { format, ..identity() });
        let error = unpack(&head).unwrap_err().to_string();
        let other = format!("store format {format}, and this program reads {FORMAT_VERSION} only");
        assert!(error.contains(&other));
        assert!(error.contains("restore it with the program that wrote it"), "{error}");
    }
}

fn settings(dir: &std::path::Path, name: &str) -> StoreSettings {
    StoreSettings { dir: dir.join(name), cache_bytes: 4 << 20 }
}

fn attempt(name: &str) -> Attempt {
    let mut attempt = test_attempt(name);
    attempt.key.version = "1.3".into();
    attempt
}

/// A store with one ended attempt of a hundred samples, the third of which is lost.
async fn filled(settings: &StoreSettings) -> Store {
    let (store, attempt) = (Store::open(settings).unwrap(), attempt("a"));
    let sample = |n: u64| Sample { elapsed: Millis(n * 1000), ..Sample::default() };
    let mut batch = Batch::default();
    put(&mut batch, &attempt).unwrap();
    append_fragment(&mut batch, &attempt.id, 1, 0, [sample(1), sample(2)]).unwrap();
    let rest: Vec<Sample> = (4..=100).map(sample).collect();
    append_fragment(&mut batch, &attempt.id, 4, 1, rest).unwrap();
    store.commit(batch).await.unwrap();
    let (progress, totals) = (SampleAccumulator::default(), FinalTotals::default());
    let summary = Summary::of(&attempt, &progress, &totals, Millis(100_000), Some(Exit::Code(0)));
    seal(&store, &attempt, &summary).await.unwrap();
    store
}

#[tokio::test]
async fn live_and_offline_backups_restore_the_same_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&settings(dir.path(), "data")).await;
    let mut live = Vec::new();
    let mut archive = backup::BackupStream::new(store.snapshot().await.unwrap());
    while let Some(bytes) = archive.next().await.unwrap() {
        live.extend(bytes);
    }
    drop(archive);
    store.close().await.unwrap();
    let offline = OfflineStore::open(&settings(dir.path(), "data")).unwrap();
    let mut rest = Vec::new();
    backup::write(&offline, &mut rest, |_| {}).unwrap();
    assert_eq!(unpack(&live).unwrap(), unpack(&rest).unwrap());
    let all = RestoreScope::All;
    let half = backup::restore(None::<&[u8]>, &live[..live.len() - 3], &settings(dir.path(), "half"), all);
    assert!(half.is_err());
    assert!(Store::open(&settings(dir.path(), "half")).unwrap_err().to_string().contains("half restored"));
    backup::restore(Some(live.as_slice()), live.as_slice(), &settings(dir.path(), "again"), all).unwrap();
    let again = OfflineStore::open(&settings(dir.path(), "again")).unwrap();
    let mut second = Vec::new();
    backup::write(&again, &mut second, |_| {}).unwrap();
    assert_eq!(unpack(&second).unwrap(), unpack(&rest).unwrap());
    assert_eq!(again.identity(), offline.identity());
}

#[tokio::test]
async fn a_copy_without_tickets_has_no_upstream_tickets() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&settings(dir.path(), "data")).await;
    let upstream = UpstreamTicket {
        address: "http://r/RPC2".to_owned(),
        number: 7,
        holder: None,
        // of several parts
        output: Some("m".repeat(8192)),
        failed: false,
    };
    let server = UpstreamServer { address: upstream.address.clone(), ..UpstreamServer::default() };
    let mut batch = Batch::default();
    put(&mut batch, &upstream).unwrap();
    put(&mut batch, &server).unwrap();
    store.commit(batch).await.unwrap();
    store.close().await.unwrap();
    let mut archive = Vec::new();
    backup::write(&OfflineStore::open(&settings(dir.path(), "data")).unwrap(), &mut archive, |_| {}).unwrap();
    for (scope, left) in [(RestoreScope::All, 1), (RestoreScope::WithoutTickets, 0)] {
        let copy = settings(dir.path(), &format!("{scope:?}"));
        let restored = backup::restore(Some(archive.as_slice()), archive.as_slice(), &copy, scope).unwrap();
        assert_eq!(restored.upstream_tickets, left, "{scope:?}");
        let (store, mut tickets, mut servers, mut attempts) = (Store::open(&copy).unwrap(), 0, 0, 0);
        load::<UpstreamTicket>(&store, |_ticket| tickets += 1).await.unwrap();
        load::<UpstreamServer>(&store, |_server| servers += 1).await.unwrap();
        load::<Summary>(&store, |_summary| attempts += 1).await.unwrap();
        assert_eq!((tickets, servers, attempts), (left, left, 1), "{scope:?}");
    }
}

#[tokio::test]
async fn an_export_has_all_history_columns_and_samples() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&settings(dir.path(), "data")).await;
    let (mut history, mut series, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    let gap = |gap| panic!("{gap}");
    export::history(&store, &mut history, |id| ids.push(id), gap).await.unwrap();
    assert_eq!(export::series(&store, &ids[0], &mut series).await.unwrap(), Ok(99));
    let lines = |bytes: &[u8]| -> Vec<serde_json::Value> {
        let text = std::str::from_utf8(bytes).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let [row] = &lines(&history)[..] else { panic!("one attempt, one line") };
    assert_eq!(row["attempt"], "a");
    assert_eq!(row["package"], "zlib");
    assert_eq!(row["outcome"], "success");
    assert_eq!((&row["wall_ms"], &row["submitted_ms"]), (&100_000.into(), &1_700_000_000_000_u64.into()));
    let summary: Summary = serde_json::from_value(row["summary"].clone()).unwrap();
    assert_eq!(summary.key.version, "1.3");
    let [first, second] = &lines(&series)[..] else { panic!("a gap, two lines") };
    assert_eq!(first["first_sequence"], 1);
    assert_eq!(second["first_sequence"], 4);
    assert_eq!(second["lost"], 1);
    assert_eq!(second["samples"][96]["elapsed_ms"], 100_000);
}

#[tokio::test]
async fn exported_history_imports_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let (store, again) = (Store::memory(), Store::memory());
    let id = |text: &str| AttemptId::parse(text).unwrap();
    let mut labelled = test_summary("gitlab.example.org:2", "hdf5", "1.14", 100);
    labelled.key.labels =
        [("pipeline", "7"), ("job", "build")].map(|(n, v)| (n.to_owned(), v.to_owned())).into();
    labelled.key.hints = Hints { build_jobs: Some(8), input_bytes: Some(1 << 30) };
    let killed = Summary {
        outcome: Outcome::Failed,
        cause: Some(Cause::Oom),
        censored: true,
        oom_kill: Some(3),
        exit: Some(Exit::Code(137)),
        retries: Some(id("gitlab.example.org:2")),
        number: 2,
        ..labelled.clone()
    };
    let predicted = PredictionSnapshot {
        memory_limit: Bytes(1 << 30),
        wall_p95: Millis(9),
        ..PredictionSnapshot::default()
    };
    let opening = OpeningRecord {
        pool: "big".to_owned(),
        untrusted: true,
        predicted: Some(predicted),
        ..OpeningRecord::default()
    };
    // in the order of their ids, as they are read
    let all = [
        test_summary("1", "zlib", "1", 10),
        Summary { opening, unneeded: true, ..test_summary("4", "zlib", "2", 10) },
        Summary {
            outcome: Outcome::Lost,
            exit: None,
            need_peak: Bytes(0),
            ..test_summary("5", "zlib", "3", 10)
        },
        labelled,
        Summary { attempt: id("gitlab.example.org:3"), ..killed },
    ];
    let mut batch = Batch::default();
    for summary in &all {
        put(&mut batch, summary).unwrap();
    }
    store.commit(batch).await.unwrap();
    let file = dir.path().join("history.jsonl");
    let mut exported = Vec::new();
    export::history(&store, &mut exported, |_| {}, |gap| panic!("{gap}")).await.unwrap();
    std::fs::write(&file, &exported).unwrap();
    for added in [5, 0] {
        let imported =
            import::commit(&file, &again, &import::RecordDefaults::default(), |_| {}).await.unwrap();
        assert_eq!((imported.added, imported.known, imported.refusals.count), (added, 5 - added, 0));
    }
    let mut found = Vec::new();
    load::<Summary>(&again, |summary| found.push(summary)).await.unwrap();
    assert_eq!(found, all);
}
