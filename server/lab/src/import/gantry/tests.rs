//! A database as Gantry makes it, and ones that are not.

use plimsoll_core::domain::{Cause, Outcome, Summary};
use plimsoll_store::{self as store, Store};
use rusqlite::params;

use super::*;
use crate::import::{Reader, RecordDefaults, Refusals, commit};

/// The two tables with their columns and rules, as version 2 of the database has them.
const SCHEMA: &str = "
    PRAGMA user_version = 2;
    CREATE TABLE nodes (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, hostname TEXT NOT NULL, cores REAL NOT NULL,
        mem REAL NOT NULL, arch TEXT NOT NULL, os TEXT NOT NULL, instance_type TEXT NOT NULL);
    CREATE TABLE jobs (id INTEGER PRIMARY KEY, pod TEXT NOT NULL UNIQUE, node INTEGER NOT NULL, start INTEGER NOT NULL,
        end INTEGER NOT NULL, gitlab_id INTEGER NOT NULL UNIQUE, job_status TEXT NOT NULL, ref TEXT NOT NULL,
        pkg_name TEXT NOT NULL, pkg_version TEXT NOT NULL, pkg_variants TEXT NOT NULL, compiler_name TEXT NOT NULL,
        compiler_version TEXT NOT NULL, arch TEXT NOT NULL, stack TEXT NOT NULL, build_jobs INTEGER NOT NULL,
        cpu_request REAL NOT NULL, cpu_limit REAL, cpu_mean REAL NOT NULL, cpu_median REAL NOT NULL, cpu_max REAL NOT NULL,
        cpu_min REAL NOT NULL, cpu_stddev REAL NOT NULL, mem_request REAL NOT NULL, mem_limit REAL NOT NULL,
        mem_mean REAL NOT NULL, mem_median REAL NOT NULL, mem_max REAL NOT NULL, mem_min REAL NOT NULL,
        mem_stddev REAL NOT NULL, FOREIGN KEY (node) REFERENCES nodes (id) ON UPDATE CASCADE ON DELETE CASCADE);
    CREATE INDEX complete_spec ON jobs (pkg_name, pkg_variants, pkg_version, compiler_name, compiler_version, end);
    INSERT INTO nodes VALUES (1, 'u', 'h', 32.0, 131072000000.0, 'amd64', 'linux', 'm5.8xlarge');";

struct File {
    dir: tempfile::TempDir,
}

impl File {
    fn new(schema: &str) -> Self {
        let file = Self { dir: tempfile::tempdir().unwrap() };
        file.database().execute_batch(schema).unwrap();
        file
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("gantry.db")
    }

    fn database(&self) -> Connection {
        let database = Connection::open(self.path()).unwrap();
        database.pragma_update(None, "synchronous", "OFF").unwrap();
        database
    }

    fn add(&self, id: i64, end: f64, mem_max: f64, variants: &str) {
        let text = "INSERT INTO jobs VALUES (?1, 'pod-' || ?1, 1, 1708919572.983, ?2, 100 + ?1, 'success', 'develop', 'py-torch', \
            '2.2.1', ?4, 'gcc', '11.4.0', 'linux-ubuntu20.04-x86_64_v3', 'e4s', 12, 12.0, NULL, 9.5, 11.9, 12.25, 0.3, 3.8, \
            48000000000.0, 64000000000.0, 965209889.241, 739960832.0, ?3, 85508096.0, 870741989.7)";
        self.database().execute(text, params![id, end, mem_max, variants]).unwrap();
    }

    fn read(&self) -> (Vec<Summary>, Refusals) {
        let mut reader = Reader::open(&self.path()).unwrap();
        let mut summaries = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            assert!(record.timed);
            summaries.push(record.summary);
        }
        assert!((reader.position.share() - 1.0).abs() < 1e-9);
        (summaries, reader.refusals)
    }

    fn refused(&self) -> String {
        Reader::open(&self.path()).unwrap_err().to_string()
    }
}

const END: f64 = 1_708_924_744.811;
const VARIANTS: &str = r#"{"cuda": true, "debug": false, "build_system": "python_pip", "cuda_arch": "80"}"#;

#[test]
fn a_row_becomes_an_attempt_with_its_key_its_sizes_and_its_times() {
    let file = File::new(SCHEMA);
    file.add(1, END, 41_186_873_344.0, VARIANTS);
    let (summaries, refusals) = file.read();
    assert_eq!((summaries.len(), refusals.count), (1, 0), "{refusals}");
    let summary = &summaries[0];
    let key = &summary.key;
    let found = [
        &key.package,
        &key.version,
        &key.variants,
        &key.build_system,
        &key.compiler,
        &key.stack,
        &key.git_ref,
    ];
    assert_eq!(
        found,
        ["py-torch", "2.2.1", "+cuda~debug cuda_arch=80", "python_pip", "gcc", "e4s", "develop"]
    );
    assert_eq!((summary.attempt.as_str(), key.hints.build_jobs), ("101", Some(12)));
    assert_eq!((summary.started_unix_ms, summary.wall), (1_708_919_572_983, Millis(5_171_828)));
    assert_eq!((summary.need_peak, summary.need_mean), (Bytes(41_186_873_344), Bytes(965_209_889)));
    assert_eq!(summary.resources.memory_request, Some(Bytes(48_000_000_000)));
    assert_eq!(summary.resources.memory_limit, Some(Bytes(64_000_000_000)));
    assert_eq!((summary.resources.cpu_request, summary.resources.cpu_limit), (Some(Cores(12.0)), None));
    assert!(
        (summary.cpu.cores_over(summary.wall).0 - 9.5).abs() < 1e-6
            && (summary.cpu_peak.0 - 12.25).abs() < 1e-9
    );
    assert_eq!(summary.outcome, Outcome::Succeeded);
}

#[test]
fn all_pages_are_read_whatever_the_ids() {
    let file = File::new(SCHEMA);
    let database = file.database();
    database.execute_batch("BEGIN").unwrap();
    let text = "INSERT INTO jobs SELECT ?1, 'pod-' || ?1, 1, 1708919572, 1708919573, ?1, 'success', 'develop', 'zlib', '1', '{}', \
        'gcc', '1', 'a', 's', 2, 1, NULL, 1, 1, 1, 1, 1, 1e9, 2e9, 1e8, 1e8, 2e8, 1e8, 1";
    for n in 0..2500_i64 {
        database.execute(text, [n * 7 + 1]).unwrap();
    }
    database.execute_batch("COMMIT").unwrap();
    assert_eq!(file.read().0.len(), 2500);
}

#[test]
fn a_row_that_makes_no_sense_is_refused_with_its_table_row_and_column() {
    let file = File::new(SCHEMA);
    file.add(1, END, 41e9, VARIANTS);
    file.add(2, 1.0, 41e9, VARIANTS);
    file.add(3, END, 1.0, VARIANTS);
    file.add(4, END, 41e9, "not json");
    file.add(5, END, 1e14, VARIANTS);
    let (summaries, refusals) = file.read();
    assert_eq!((summaries.len(), refusals.count), (1, 4));
    let found: Vec<(u64, &str)> = refusals.first.iter().map(|r| (r.line, r.column)).collect();
    assert_eq!(found, [(2, "end"), (3, "mem_max"), (4, "pkg_variants"), (5, "mem_max")]);
    assert!(refusals.to_string().starts_with("table jobs, row 2, end: 1 is before start"), "{refusals}");
}

#[test]
fn columns_of_other_versions_may_be_there_or_not() {
    let later = File::new(SCHEMA);
    later.add(1, END, 41e9, VARIANTS);
    let more = "ALTER TABLE jobs ADD COLUMN oomed BOOLEAN DEFAULT FALSE; UPDATE jobs SET oomed = 1, job_status = 'failed'";
    later.database().execute_batch(more).unwrap();
    let stopped = &later.read().0[0];
    assert!(stopped.censored && stopped.cause == Some(Cause::Oom));
    let few = "CREATE TABLE jobs (pkg_name TEXT, start REAL, end REAL, mem_max REAL);
        INSERT INTO jobs VALUES ('zlib', 1708919572, 1708919582.5, 2e8)";
    let (summaries, refusals) = File::new(few).read();
    assert_eq!((summaries.len(), summaries[0].wall), (1, Millis(10_500)), "{refusals}");
}

#[test]
fn a_database_of_something_else_is_refused_by_what_it_lacks() {
    let other = File::new("CREATE TABLE builds (id INTEGER)").refused();
    assert!(other.contains("lacks the table jobs; the tables there are: builds"), "{other}");
    let old = File::new("CREATE TABLE jobs (pkg_name TEXT, start REAL, end REAL, mem_mean REAL)").refused();
    assert!(
        old.contains("table jobs lacks the column mem_max; the columns there are: pkg_name, start"),
        "{old}"
    );
    let packed = File::new(SCHEMA);
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packer, &std::fs::read(packed.path()).unwrap()).unwrap();
    std::fs::write(packed.path(), packer.finish().unwrap()).unwrap();
    assert!(packed.refused().contains("unpack it first"), "{}", packed.refused());
    let broken = File::new(SCHEMA);
    let bytes = std::fs::read(broken.path()).unwrap();
    std::fs::write(broken.path(), &bytes[..100]).unwrap();
    assert!(broken.refused().contains("cannot be read as a SQLite database"), "{}", broken.refused());
}

#[tokio::test]
async fn a_database_that_breaks_in_the_middle_leaves_the_store_as_it_was() {
    let file = File::new(SCHEMA);
    for id in 1..400 {
        file.add(id, END, 41e9, &VARIANTS.replace("80", &"8".repeat(300)));
    }
    let store = Store::memory();
    let mut bytes = std::fs::read(file.path()).unwrap();
    let whole = bytes.clone();
    let half = bytes.len() / 2;
    bytes[half..].fill(0x55);
    std::fs::write(file.path(), &bytes).unwrap();
    let error =
        commit(&file.path(), &store, &RecordDefaults::default(), |_| {}).await.unwrap_err().to_string();
    assert!(error.contains("gantry.db"), "{error}");
    let count = async || store::load::<Summary>(&store, |_| {}).await.unwrap().records;
    assert_eq!(count().await, 0);
    std::fs::write(file.path(), &whole).unwrap();
    let imported = commit(&file.path(), &store, &RecordDefaults::default(), |_| {}).await.unwrap();
    assert_eq!((imported.added, count().await), (399, 399));
    let again = commit(&file.path(), &store, &RecordDefaults::default(), |_| {}).await.unwrap();
    assert_eq!((again.added, again.known), (0, 399), "the same import again adds nothing");
}

#[tokio::test]
async fn a_job_that_an_agent_measured_is_not_counted_twice() {
    let file = File::new(SCHEMA);
    (1..=5).for_each(|id| file.add(id, END, 41e9, VARIANTS));
    // the jobs 101 to 103 were measured, 103 twice and on another host
    let measured = ["gitlab.com:101", "gitlab.com:102/2", "other.org:103.2", "other.org:103"];
    let imported = async |host: &str| {
        let (store, mut batch) = (Store::memory(), store::Batch::default());
        for id in measured {
            store::put(&mut batch, &plimsoll_core::domain::test_summary(id, "zlib", "1", 10)).unwrap();
        }
        store.commit(batch).await.unwrap();
        let unsaid = RecordDefaults { host: host.to_owned(), ..RecordDefaults::default() };
        let first = commit(&file.path(), &store, &unsaid, |_| {}).await.unwrap();
        let again = commit(&file.path(), &store, &unsaid, |_| {}).await.unwrap();
        assert_eq!((again.added, again.known), (0, 5));
        let mut ids = Vec::new();
        store::load::<Summary>(&store, |summary| ids.push(summary.attempt.to_string())).await.unwrap();
        ids.retain(|id| !measured.contains(&id.as_str()));
        assert_eq!(ids.len() as u64, first.added);
        ids
    };
    assert_eq!(imported("").await, ["104", "105"]);
    let named = ["gitlab.com:103", "gitlab.com:104", "gitlab.com:105"];
    assert_eq!(imported("gitlab.com").await, named);
}

#[test]
fn a_database_beside_its_log_comes_with_the_way_out() {
    let hint = "copy the file, with the one of the same name and -wal behind it";
    assert!(way_out(Some(ffi::SQLITE_CANTOPEN)).contains(hint));
    assert!(way_out(Some(ffi::SQLITE_READONLY_DIRECTORY)).contains(hint));
    assert_eq!(way_out(Some(ffi::SQLITE_NOTADB)), "");
    // a copy that was made in the middle of a write, with its journal
    let (file, copy) = (File::new(SCHEMA), File { dir: tempfile::tempdir().unwrap() });
    (1..=400).for_each(|id| file.add(id, END, 41e9, VARIANTS));
    let writer = file.database();
    writer.execute_batch("PRAGMA cache_size = 1; BEGIN; UPDATE jobs SET pod = 'other-' || pod").unwrap();
    for name in ["gantry.db", "gantry.db-journal"] {
        std::fs::copy(file.dir.path().join(name), copy.dir.path().join(name)).unwrap();
    }
    let refused = copy.refused();
    assert!(refused.contains("a writer of this database was interrupted"), "{refused}");
}
