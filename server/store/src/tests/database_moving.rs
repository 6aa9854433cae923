//! A store moved into a database and back by backups: whole or not at all.

use std::io::{self, Read};

use plimsoll_support::postgres::PostgresServer;
use tokio::runtime::Builder;

use super::{
    database::{open, settings},
    fixture::{self, one},
};
use crate::{
    BATCH_OPERATIONS, Batch, CheckFinding, CheckReport, FORMAT_VERSION, KeyValue, OfflineStore, Store,
    StoreIdentity, VersionedValue, archive,
    backup::{self, BackupError, RestoreScope, RestoredEntries},
    check_store, fixtures,
};

const TABLES: &str = "SELECT c.relname, c.relkind, c.reloptions, a.attname, a.atttypid, a.attnotnull, a.attstorage \
     FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid \
     WHERE c.relnamespace = 'plimsoll'::regnamespace AND a.attnum > 0 ORDER BY c.relname, a.attname; \
     SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'plimsoll'::regnamespace ORDER BY conname; \
     SELECT schema_step, format FROM plimsoll.identity";

fn block_on<T>(task: impl Future<Output = T>) -> T {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(task)
}

fn restore(archive: impl Read, url: &str) -> Result<RestoredEntries, BackupError> {
    backup::restore_into_database(archive, &settings(url), RestoreScope::All)
}

/// The backup of a database.
fn backup(url: &str) -> Vec<u8> {
    let mut archive = Vec::new();
    block_on(async {
        let view = Store::view_postgres(&settings(url)).await.unwrap();
        backup::write_snapshot(view.snapshot().await.unwrap(), &mut archive, |_| {}).await.unwrap();
    });
    archive
}

/// The backup of a store in files with records of all kinds.
fn archive_of_files() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let data = fixture::settings(dir.path());
    fixtures::unpack(&data.dir).unwrap();
    let mut archive = Vec::new();
    backup::write(&OfflineStore::open(&data).unwrap(), &mut archive, |_| {}).unwrap();
    archive
}

fn entry(n: u64) -> KeyValue {
    KeyValue {
        key: format!("sjob-{n:09}\0\0").into_bytes(),
        value: VersionedValue { version: n, value: vec![7; 900] },
    }
}

/// An archive of these entries.
fn packed(entries: Vec<KeyValue>) -> Vec<u8> {
    let identity = StoreIdentity { format: FORMAT_VERSION, id: ulid::Ulid::new(), sequence: 1 << 40 };
    let (mut packer, mut bytes) = archive::Packer::begin(identity);
    bytes.extend(packer.add_entries(entries).unwrap());
    bytes.extend(packer.end().unwrap());
    bytes
}

#[test]
fn moves_between_files_and_database_are_lossless() {
    let Some(server) = PostgresServer::shared() else { return };
    let (made, started) = (server.new_database(), server.new_database());
    let (url, archive) = (server.url(&made), archive_of_files());
    assert!(restore(archive.as_slice(), &url).unwrap().entries > 10);
    assert_eq!(backup(&url), archive);
    drop(open(&server.url(&started)));
    assert_eq!(server.sql(&made, TABLES), server.sql(&started, TABLES));

    let store = open(&url);
    let last = store.status().commits;
    let receipt = block_on(store.commit(one(b"sk\0\0", b"v"))).unwrap();
    assert_eq!(receipt.version, last + 1, "commits go on where the store in files ended");
    let archive = backup(&url);
    let dir = tempfile::tempdir().unwrap();
    let data = fixture::settings(dir.path());
    backup::restore(Some(archive.as_slice()), archive.as_slice(), &data, RestoreScope::All).unwrap();
    let mut again = Vec::new();
    backup::write(&OfflineStore::open(&data).unwrap(), &mut again, |_| {}).unwrap();
    assert_eq!(again, archive);
}

#[test]
fn duplicate_backup_entries_are_restored_once() {
    let Some((_server, _database, url)) = PostgresServer::with_new_database() else { return };
    let entries: Vec<_> = (1..=2000).map(entry).collect();
    let twice = [entries.as_slice(), &entries[500..700], &entries[..1]].concat();
    restore(packed(twice).as_slice(), &url).unwrap();
    let store = open(&url);
    let page = block_on(store.scan(b"s", None, crate::PageLimit::PAGE)).unwrap();
    assert!(page.more && page.entries == entries[..1000]);
    let rest = block_on(store.scan(b"s", Some(&entries[999].key), crate::PageLimit::PAGE)).unwrap();
    assert!(!rest.more && rest.entries == entries[1000..]);
}

#[test]
fn a_failed_restore_leaves_the_database_unchanged() {
    let Some(server) = PostgresServer::shared() else { return };
    let archive = archive_of_files();
    let database = server.new_database();
    let url = server.url(&database);
    let schemas = || server.sql(&database, "SELECT to_regnamespace('plimsoll') IS NOT NULL");
    let cut = restore(&archive[..archive.len() - 3], &url).unwrap_err().to_string();
    assert!(cut.contains("it was cut short"), "{cut}");
    assert_eq!(schemas(), "f", "a backup that was cut short");
    assert!(restore(&b"no backup"[..], &url).unwrap_err().to_string().contains("this is no backup"));

    // the connection ends in the middle, and a killed process leaves no more than that
    let ends = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'COPY%'";
    let long = packed((1..=20_000).map(entry).collect());
    let (first, rest) = long.split_at(long.len() / 2);
    let end = EndsBackend { end: || assert_eq!(server.sql(&database, ends), "1"), is_done: false };
    let broken = restore(first.chain(end).chain(rest), &url).unwrap_err().to_string();
    assert!(broken.contains("PostgreSQL at 127.0.0.1"), "{broken}");
    assert_eq!(schemas(), "f", "a connection that broke");

    restore(archive.as_slice(), &url).unwrap();
    let taken = restore(long.as_slice(), &url).unwrap_err().to_string();
    assert!(taken.contains("has a store already") && taken.contains("DROP SCHEMA plimsoll"), "{taken}");
    assert_eq!(backup(&url), archive, "the store that was there");
    let other = server.new_database();
    server.sql(&other, "CREATE SCHEMA plimsoll; CREATE TABLE plimsoll.entry (x int)");
    let foreign = restore(archive.as_slice(), &server.url(&other)).unwrap_err().to_string();
    assert!(foreign.contains("tables of another program"), "{foreign}");
}

/// Is read as nothing, and ends the connection that writes.
struct EndsBackend<F> {
    end: F,
    is_done: bool,
}

impl<F: Fn()> Read for EndsBackend<F> {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        if !self.is_done {
            (self.end)();
            self.is_done = true;
        }
        Ok(0)
    }
}

fn check(url: &str) -> (CheckReport, Vec<CheckFinding>) {
    let mut findings = Vec::new();
    let report = block_on(async {
        let view = Store::view_postgres(&settings(url)).await.unwrap();
        let last = view.status().commits;
        check_store(&view, last, Some(0), |finding| findings.push(finding), |_| {}).await.unwrap()
    });
    (report, findings)
}

#[test]
fn deleted_rows_of_a_database_are_noticed() {
    let Some(server) = PostgresServer::shared() else { return };
    let archive = archive_of_files();
    for (deleted, expected) in [
        ("get_byte(k, 0) = ascii('b')", "and none is there"),
        ("get_byte(k, 0) = ascii('s')", "its summary is missing"),
        (
            "k = (SELECT b.k FROM plimsoll.entry AS b, plimsoll.entry AS s \
             WHERE get_byte(b.k, 0) = ascii('b') AND get_byte(s.k, 0) = ascii('s') \
               AND substr(b.k, 2, length(b.k) - 10) = substr(s.k, 2, length(s.k) - 3) ORDER BY b.k DESC LIMIT 1)",
            "samples",
        ),
    ] {
        let database = server.new_database();
        let url = server.url(&database);
        restore(archive.as_slice(), &url).unwrap();
        assert_eq!(check(&url).1, []);
        server.sql(&database, &format!("DELETE FROM plimsoll.entry WHERE {deleted}"));
        let (report, findings) = check(&url);
        assert!(report.damaged > 0, "{deleted}");
        assert!(findings.iter().all(|finding| finding.reason.contains(expected)), "{deleted}: {findings:?}");
    }
}

#[test]
fn each_damaged_row_of_a_database_is_named() {
    let Some((server, database, url)) = PostgresServer::with_new_database() else { return };
    restore(archive_of_files().as_slice(), &url).unwrap();
    let (whole, findings) = check(&url);
    assert_eq!(findings, []);
    assert!(whole.damaged == 0 && whole.summaries > 0 && whole.samples > 0, "{whole:?}");
    let first = |kind: &str| format!("(SELECT k FROM plimsoll.entry WHERE k >= '{kind}' ORDER BY k LIMIT 1)");
    let name = |key: &str| {
        let key = server.sql(&database, &format!("SELECT encode({key}, 'escape')"));
        key.split("\\000").next().unwrap().to_owned()
    };
    let (cut, flipped, old) = (first("s"), first("b"), first("v"));
    let damages = [
        (
            name(&cut),
            format!("UPDATE plimsoll.entry SET v = substr(v, 1, length(v) - 1) WHERE k = {cut}"),
            "checksum",
        ),
        (
            name(&flipped),
            format!("UPDATE plimsoll.entry SET v = set_byte(v, 9, get_byte(v, 9) # 4) WHERE k = {flipped}"),
            "checksum",
        ),
        (name(&old), format!("UPDATE plimsoll.entry SET version = 0 WHERE k = {old}"), "version 0"),
        (
            "xjob".to_owned(),
            "INSERT INTO plimsoll.entry VALUES ('xjob\\000\\000', 1, 'v')".to_owned(),
            "kind that is not known",
        ),
        (
            "s\\xff".to_owned(),
            "INSERT INTO plimsoll.entry VALUES ('s\\377\\000\\000', 1, 'v')".to_owned(),
            "key of this format",
        ),
    ];
    for (_, damage, _) in &damages {
        server.sql(&database, damage);
    }
    let (report, findings) = check(&url);
    assert_eq!(report.damaged, damages.len() as u64, "{findings:?}");
    for (key, damage, reason) in &damages {
        let found = findings.iter().find(|found| found.key.to_string().starts_with(key.as_str()));
        assert!(found.is_some_and(|found| found.reason.contains(reason)), "{damage}: {key} in {findings:?}");
    }
    assert_eq!((report.summaries, report.entries), (whole.summaries - 1, whole.entries + 2));
}

#[test]
fn unreadable_database_rows_are_reported_as_a_range() {
    const BLOCK: usize = 8192;
    let Some(server) = PostgresServer::start(|_folder| Vec::new()) else { return };
    let database = server.new_database();
    let url = server.url(&database);
    restore(packed((1..=2000).map(entry).collect()).as_slice(), &url).unwrap();
    let file = "SELECT current_setting('data_directory') || '/' || pg_relation_filepath('plimsoll.entry')";
    let file = server.sql(&database, file);
    let of_block = |block: u64| {
        let tid = format!("ctid >= '({block},0)' AND ctid < '({},0)'", block + 1);
        let keys = format!(
            "SELECT count(*), min(convert_from(substr(k, 1, 14), 'UTF8')) FROM plimsoll.entry WHERE {tid}"
        );
        let row = server.sql(&database, &format!("SET enable_seqscan = on; {keys}"));
        let (count, first) = row.split_once('|').unwrap();
        (count.parse::<u64>().unwrap(), first.to_owned())
    };
    let (lost, behind) = (of_block(20).0 + of_block(21).0, of_block(22).1);
    assert!(lost > 10);
    // the index alone then says which keys there are
    server.sql(&database, "VACUUM plimsoll.entry");
    server.sql(&database, "CHECKPOINT");
    server.stop_fast();
    let table = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&table, &[0x5a; 2 * BLOCK], 20 * BLOCK as u64).unwrap();
    server.start_again();
    let (report, findings) = check(&url);
    assert_eq!((report.unreadable, report.entries), (1, 2000 - lost), "{findings:?}");
    let reason = &findings.iter().find(|finding| finding.reason.contains("cannot be read")).unwrap().reason;
    assert!(reason.contains(&behind) && reason.contains("invalid page"), "{reason}");
}

#[test]
fn a_database_view_is_a_read_only_snapshot() {
    let Some((_server, _database, url)) = PostgresServer::with_new_database() else { return };
    let none = block_on(Store::view_postgres(&settings(&url))).unwrap_err().to_string();
    assert!(none.contains("has no store"), "{none}");
    let store = open(&url);
    block_on(async {
        let mut batch = Batch::default();
        (0..BATCH_OPERATIONS as u64).for_each(|n| batch.put(entry(n).key, b"before".to_vec()));
        store.commit(batch).await.unwrap();
        let view = Store::view_postgres(&settings(&url)).await.unwrap();
        store.commit(one(&entry(1).key, b"after")).await.unwrap();
        store.commit(one(b"sz\0\0", b"after")).await.unwrap();
        assert_eq!(view.get(&entry(1).key).await.unwrap().unwrap().value, b"before");
        assert_eq!(view.holds(vec![b"sz".to_vec(), b"sj".to_vec()]).await.unwrap(), [false, true]);
        let refused = view.commit(one(b"k", b"v")).await.unwrap_err().to_string();
        assert!(refused.contains("only read"), "{refused}");
        let mut snapshot = view.snapshot().await.unwrap();
        assert_eq!(snapshot.identity().sequence, 1);
        let mut read = 0;
        while let Some(entries) = snapshot.next().await.unwrap() {
            assert!(entries.iter().all(|entry| entry.value.value == b"before"));
            read += entries.len();
        }
        assert_eq!(read, BATCH_OPERATIONS);
    });
}
