//! What is read, what is refused and how that is said.

use std::{fmt::Write as _, io::Write as _, path::PathBuf};

use plimsoll_core::domain::{Bytes, Millis, Outcome, Summary};
use plimsoll_store::{self as store, Store};

use super::*;

struct File {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn file(bytes: &[u8]) -> File {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history");
    std::fs::write(&path, bytes).unwrap();
    File { _dir: dir, path }
}

fn gzip(text: &str) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

/// More than one buffer full, packed.
fn many_rows() -> Vec<u8> {
    let mut text = "package,wall_ms,peak_bytes\n".to_owned();
    for n in 0..5000 {
        writeln!(text, "zlib{n},{n},{}", 1_000_000 + n * n).unwrap();
    }
    gzip(&text)
}

fn read(bytes: &[u8]) -> (Vec<Record>, Refusals) {
    let file = file(bytes);
    let mut reader = Reader::open(&file.path).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        records.push(record);
    }
    (records, reader.refusals)
}

const CSV: &str = "attempt,package,wall_ms,peak_bytes,outcome,cores\n1,zlib,1000,1000000,success,4\n2,zlib,2000,2000000.0,oom,\n";

#[test]
fn all_csv_and_json_encodings_import_equally() {
    let json = r#"{"attempt":"1","package":"zlib","wall_ms":1000,"peak_bytes":1000000,"cores":4}
{"attempt":"2","package":"zlib","wall_ms":2000,"peak_bytes":2000000,"outcome":"oom","owner":null}
"#;
    let (records, refusals) = read(CSV.as_bytes());
    assert_eq!((records.len(), refusals.count), (2, 0));
    let summaries = |bytes: &[u8]| read(bytes).0.into_iter().map(|r| r.summary).collect::<Vec<_>>();
    let plain = summaries(CSV.as_bytes());
    assert_eq!((plain[0].need_peak, plain[0].wall), (Bytes(1_000_000), Millis(1000)));
    assert_eq!(plain[0].key.hints.build_jobs, Some(4));
    assert!(plain[1].censored && plain[1].outcome == Outcome::Failed);
    for other in [gzip(CSV), json.as_bytes().to_vec(), gzip(json)] {
        assert_eq!(summaries(&other), plain);
    }
}

#[test]
fn invalid_rows_are_refused_with_line_and_column() {
    let text = "attempt,package,wall_ms,peak_bytes,submitted_ms,outcome\n\
        1,zlib,1000,1,1700000000000,success\n\
        2,zlib,1000,100000000000000,1700000000000,success\n\
        3,zlib,-5,1000000,1700000000000,success\n\
        4,zlib,1000,1GiB,1700000000000,success\n\
        5,,1000,1000000,1700000000000,success\n\
        6,zlib,1000,1000000,1700000000,success\n\
        7,zlib,1000,1000000,1700000000000,exploded\n\
        8,zlib,1000,1000000,1700000000000,success\n\
        8,zlib,1000,1000000,1700000000000,success\n\
        9,zlib,1000,1000000,,success\n";
    let (records, refusals) = read(text.as_bytes());
    assert_eq!(records.len(), 1);
    let found: Vec<(u64, &str)> = refusals.first.iter().map(|r| (r.line, r.column)).collect();
    let expected = [
        (2, "peak_bytes"),
        (3, "peak_bytes"),
        (4, "wall_ms"),
        (5, "peak_bytes"),
        (6, "package"),
        (7, "submitted_ms"),
        (8, "outcome"),
        (10, "attempt"),
        (11, "submitted_ms"),
    ];
    assert_eq!(found, expected);
    assert!(refusals.to_string().ends_with("9 rows refused"), "{refusals}");
    let (records, refusals) = read(b"{\"package\":\"a\",\"wall_ms\":1,\"peak_bytes\":1000000}\nnot json\n");
    assert_eq!((records.len(), refusals.first[0].line), (1, 2));
}

#[test]
fn ambiguous_rows_and_files_are_refused() {
    let head = "package,cores,wall_ms,peak_bytes";
    let rows = [
        (
            format!("{head}\nhdf5 libs=shared,8,65536,70000,900000000\n"),
            "row: has 5 cells, and line 1 names 4",
        ),
        (
            r#"{"package":"a","wall_ms":1,"peak_bytes":1000000,"Outcom":"oom"}"#.to_owned(),
            r#"outcome: is not there, but the unknown field "Outcom""#,
        ),
    ];
    for (text, named) in rows {
        let (records, refusals) = read(format!("{text}\n").as_bytes());
        assert!(records.is_empty() && refusals.to_string().contains(named), "{refusals}");
    }
    let files: [(&[u8], &str); 9] = [
        (b"package,wall_ms,peak_bytes,cpu_usecs\n", r#"the unknown column "cpu_usecs"; if it is cpu_usec"#),
        (b"package,wall_ms,peak_bytes,Mean-Bytes\n", "if it is mean_bytes"),
        (b"package,wall_ms,peak_bytes,outcoem\n", "if it is outcome"),
        (b"package,wall_ms,peak_bytes, wall_ms\n", "has the column wall_ms twice"),
        (b"\xef\xbb\xbf[{}]", "is a JSON array; write one object on each line"),
        (b"{\n \"package\": \"a\"\n}", "objects of several lines"),
        (b"\xff\xfep\0", "is UTF-16; save it as UTF-8"),
        (b"\xfd7zXZ\0", "is packed with xz; unpack it first (xz -dc)"),
        (&gzip("SQLite format 3\0"), "is a SQLite database; write its rows as CSV"),
    ];
    for (bytes, named) in files {
        let error = Reader::open(&file(bytes).path).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    let harmless = b"\xef\xbb\xbfpackage,wall_ms,peak_bytes,rev,ref,x,x\na,1,1000000,r,main,,\n";
    assert_eq!(read(harmless).0.len(), 1, "rev stands beside ref");
}

#[test]
fn what_was_not_measured_is_unknown() {
    for word in ["-", "NaN", "null", "NA", "N/A", "None", "<NA>", "NaT", "\\N"] {
        let text = format!(
            "package,version,wall_ms,peak_bytes,mean_bytes,cpu_usec,cores,outcome,submitted_ms\n\
             a,{word},1,1000000,{word},{word},{word},{word},{word}\n"
        );
        let (records, refusals) = read(text.as_bytes());
        assert_eq!(records.len(), 1, "{word}: {refusals}");
        let summary = &records[0].summary;
        let found =
            (summary.need_mean.0, summary.cpu.0, summary.key.hints.build_jobs, summary.key.version.as_str());
        assert_eq!((found, records[0].timed), ((0, 0, None, ""), false));
    }
    let (records, refusals) =
        read(br#"{"package":"a\"NaN","wall_ms":1,"peak_bytes":1000000,"cpu_usec":NaN}"#);
    assert_eq!(records[0].summary.key.package, "a\"NaN", "{refusals}");
    let (records, refusals) = read(b"package,wall_ms,peak_bytes\na,1,-\n");
    assert!(records.is_empty() && refusals.first[0].column == "peak_bytes", "{refusals}");
}

#[test]
fn all_refusals_are_counted_and_ten_listed() {
    let rows = "zlib,1,1\n".repeat(50);
    let (_, refusals) = read(format!("package,wall_ms,peak_bytes\n{rows}").as_bytes());
    assert_eq!((refusals.count, refusals.first.len()), (50, 10));
    assert!(refusals.to_string().contains(".. and 40 more"), "{refusals}");
}

#[test]
fn a_missing_column_error_lists_the_present_ones() {
    let file = file(b"package,wall_ms,peak_mb\nzlib,1,1\n");
    let error = Reader::open(&file.path).unwrap_err().to_string();
    assert!(error.contains("line 1 lacks the column peak_bytes"), "{error}");
    assert!(error.contains("package, wall_ms, peak_mb"), "{error}");
}

#[test]
fn all_missing_columns_are_named_in_one_error() {
    let opened = Reader::open(&file(b"name,seconds\nzlib,1\n").path).unwrap_err().to_string();
    let all = "package, wall_ms, peak_bytes";
    assert!(opened.contains(&format!("lacks the column {all} (required: {all})")), "{opened}");
    // a row, too: also where another column is wrong
    let (records, refusals) = read(b"{\"version\":\"1\",\"wall_ms\":7,\"cores\":\"many\"}\n");
    assert!(records.is_empty());
    let found = refusals.to_string();
    let expected = format!(
        "line 1, package: is empty, and so is peak_bytes; nothing can be learnt without the required columns: {all}"
    );
    assert!(found.starts_with(&expected), "{found}");
}

#[test]
fn an_endless_row_is_refused_in_bounded_memory() {
    // a quote that is never closed makes one field of the whole file, however little it takes when it is packed
    let mut text = "package,wall_ms,peak_bytes\nzlib,1,1000000\n\"".to_owned();
    text.push_str(&"x".repeat(8 << 20));
    for bytes in [gzip(&text), text.replace('x', "\n").into_bytes()] {
        let file = file(&bytes);
        let mut reader = Reader::open(&file.path).unwrap();
        assert!(reader.next_record().unwrap().is_some());
        let error = reader.next_record().unwrap_err().to_string();
        assert!(
            error.contains("unreadable behind line 2: the next row has more than 1048576 bytes"),
            "{error}"
        );
        assert!(reader.position.share() < 0.7 || bytes.len() < 1 << 16, "it is not read to its end");
    }
    let head = format!("package,{}\n", "x".repeat(2 << 20));
    let error = Reader::open(&file(head.as_bytes()).path).unwrap_err().to_string();
    assert!(error.contains("1048576 bytes"), "{error}");
    let long = format!("package,wall_ms,peak_bytes,x\nzlib,1,1000000,{}\n", "x".repeat(1_000_000));
    assert_eq!(read(long.as_bytes()).0.len(), 1, "a long row that is within the bound");
}

#[test]
fn a_truncated_gzip_import_is_an_error() {
    let whole = many_rows();
    let file = file(&whole[..whole.len() / 2]);
    let mut reader = Reader::open(&file.path).unwrap();
    let error = loop {
        match reader.next_record() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("half a file was taken for a whole one"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("ends in the middle"), "{error}");
}

#[test]
fn rows_without_ids_get_stable_ids() {
    let text = b"package,wall_ms,peak_bytes\nzlib,1,1000000\nzlib,1,1000000\n";
    let ids = || read(text).0.into_iter().map(|r| r.summary.attempt).collect::<Vec<_>>();
    assert_eq!((ids().len(), ids()), (2, ids()));
    assert_ne!(ids()[0], ids()[1]);
}

#[tokio::test]
async fn an_import_adds_each_attempt_once() {
    let store = Store::memory();
    let (first, more) =
        (file(CSV.as_bytes()), file(format!("{CSV}3,zlib,1,3000000,success,1\n1,x,1,1,,\n").as_bytes()));
    let imported = commit(&first.path, &store, &RecordDefaults::default(), |_| {}).await.unwrap();
    assert_eq!((imported.added, imported.known), (2, 0));
    let imported = commit(&more.path, &store, &RecordDefaults::default(), |_| {}).await.unwrap();
    assert_eq!((imported.added, imported.known, imported.refusals.count), (1, 2, 1));
    let mut found = Vec::new();
    store::load::<Summary>(&store, |summary| found.push((summary.attempt.to_string(), summary.need_peak.0)))
        .await
        .unwrap();
    found.sort();
    let expected = [("1", 1_000_000), ("2", 2_000_000), ("3", 3_000_000)];
    assert_eq!(found, expected.map(|(id, need)| (id.to_owned(), need)));
}

#[tokio::test]
async fn a_truncated_import_leaves_the_store_unchanged() {
    let store = Store::memory();
    let whole = many_rows();
    let half = file(&whole[..whole.len() / 2]);
    assert!(commit(&half.path, &store, &RecordDefaults::default(), |_| {}).await.is_err());
    let loaded = store::load::<Summary>(&store, |_| {}).await.unwrap();
    assert_eq!(loaded.records, 0);
}

#[tokio::test]
async fn rows_without_times_end_at_import_time() {
    let store = Store::memory();
    // the first one took longest, so that it started first and still ended first
    let rows = file(b"attempt,package,wall_ms,peak_bytes\nb,zlib,5000,1000000\na,zlib,1000,1000000\nx,,1,1\nc,zlib,9,1000000\n");
    let now_unix_ms = 1_800_000_000_000;
    let unsaid = RecordDefaults { now_unix_ms, project: "group/name".to_owned() };
    let imported = commit(&rows.path, &store, &unsaid, |_| {}).await.unwrap();
    assert_eq!((imported.added, imported.refusals.count), (3, 1));
    let mut found = Vec::new();
    store::load::<Summary>(&store, |summary| {
        assert_eq!(summary.key.project, "group/name");
        found.push((summary.ended_unix_ms(), summary.attempt.to_string()));
    })
    .await
    .unwrap();
    found.sort();
    let expected = [(2, "b"), (1, "a"), (0, "c")];
    assert_eq!(found, expected.map(|(before, id)| (now_unix_ms - before, id.to_owned())));
}

#[tokio::test]
async fn a_later_import_fills_in_missing_projects() {
    let (store, file) = (Store::memory(), file(CSV.as_bytes()));
    let rounds = [
        ("", [2, 0, 2, 0, 0]),
        ("", [0, 2, 2, 0, 0]),
        ("group/name", [0, 2, 0, 2, 0]),
        ("group/name", [0, 2, 0, 0, 0]),
        ("other", [0, 2, 0, 0, 2]),
    ];
    for (project, counts) in rounds {
        let unsaid = RecordDefaults { project: project.to_owned(), ..RecordDefaults::default() };
        let imported = commit(&file.path, &store, &unsaid, |_| {}).await.unwrap();
        let found = [
            imported.added,
            imported.known,
            imported.without_project,
            imported.projects_filled,
            imported.of_other_project,
        ];
        assert_eq!(found, counts, "{project}");
    }
    let mut projects = Vec::new();
    store::load::<Summary>(&store, |summary| projects.push(summary.key.project)).await.unwrap();
    assert_eq!(projects, ["group/name"; 2]);
}

#[tokio::test]
async fn keys_exceeding_the_prediction_history_are_counted() {
    let row = |n: usize| format!("{n},{},1,1000000,success,1\n", if n < 129 { "zlib" } else { "hdf5" });
    let first = CSV.lines().next().unwrap();
    let text: String = [format!("{first}\n")].into_iter().chain((0..200).map(row)).collect();
    let many = file(text.as_bytes());
    let imported = commit(&many.path, &Store::memory(), &RecordDefaults::default(), |_| {}).await.unwrap();
    assert_eq!((imported.added, imported.crowded_keys), (200, 1), "{:?}", imported.refusals);
}

const UNNAMED: &str = "package,wall_ms,peak_bytes,submitted_ms\n";
const ROWS: &str =
    "zlib,1,1000000,1700000000000\nzlib,1,1000000,1700000000000\nhdf5,2,1000000,1700000000000\n";

async fn import(store: &Store, rows: &str) -> (u64, u64) {
    let rows = file(format!("{UNNAMED}{rows}").as_bytes());
    let imported = commit(&rows.path, store, &RecordDefaults::default(), |_| {}).await.unwrap();
    (imported.added, imported.known)
}

#[tokio::test]
async fn rows_without_ids_are_never_imported_twice() {
    let store = Store::memory();
    assert_eq!(import(&store, ROWS).await, (3, 0));
    assert_eq!(import(&store, ROWS).await, (0, 3));
    assert_eq!(import(&store, &format!("curl,3,1000000,1700000000000\n{ROWS}")).await, (1, 3));
    // one more that says the same as two others is one more
    assert_eq!(import(&store, &format!("zlib,1,1000000,1700000000000\n{ROWS}")).await, (1, 3));
    let other = import(&store, "hdf5,2,1000000,1700000000001\n").await;
    assert_eq!(other, (1, 0), "another time, another attempt");
}

#[test]
fn an_empty_pool_keeps_the_row_id() {
    let ids = |text: &str| {
        let (records, _) = read(text.as_bytes());
        let record = |record: &Record| (record.unnamed_rows.unwrap(), record.summary.opening.pool.clone());
        records.iter().map(record).collect::<Vec<_>>()
    };
    let without = ids("package,wall_ms,peak_bytes\nzlib,1,1000000\n");
    let with = ids("package,wall_ms,peak_bytes,pool\nzlib,1,1000000,\nzlib,1,1000000, x86 \n");
    assert_eq!(with[0], without[0]);
    // what a store of an earlier version has
    assert_eq!(without[0].0.id().unwrap().as_str(), "row-2d20fa3376755f56-1");
    assert_eq!((with[1].1.as_str(), with[1].0.fingerprint == without[0].0.fingerprint), ("x86", false));
    let (_, refusals) =
        read(format!("package,wall_ms,peak_bytes,pool\nz,1,1000000,{}\n", "x".repeat(257)).as_bytes());
    assert_eq!(refusals.first[0].column, "pool");
}

#[test]
fn imported_keys_have_the_wire_limits() {
    let row = |package: usize, variants: usize| {
        let [package, variants] = [package, variants].map(|length| "x".repeat(length));
        read(format!("package,variants,wall_ms,peak_bytes\n{package},{variants},1,1000000\n").as_bytes())
    };
    assert_eq!(row(256, 2048).0.len(), 1);
    for (package, variants, column) in [(257, 1, "package"), (1, 2049, "variants")] {
        assert_eq!(row(package, variants).1.first[0].column, column);
    }
}
