//! What a store in a real PostgreSQL promises beyond what all stores do.

use std::{collections::BTreeMap, thread};

use plimsoll_support::{patience::eventually, postgres::PostgresServer};
use tokio::sync::mpsc::{Receiver, channel};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

use super::fixture::one;
use crate::{Batch, CommitError, PageLimit, PostgresError, PostgresSettings, Store, StoreMode};

/// Opens the store in a database.
pub(crate) fn open(url: &str) -> Store {
    let is_late = |error: &PostgresError| error.to_string().contains("no answer within 3 s");
    let mut opened = (0..20).map(|_again| Store::open_postgres(&settings(url)));
    opened.find(|opened| !opened.as_ref().is_err_and(is_late)).unwrap().unwrap()
}

pub(crate) fn settings(url: &str) -> PostgresSettings {
    PostgresSettings { url: url.to_owned(), password_file: None, ca_file: None, position_file: None }
}

/// A store in a new database.
pub(crate) fn new_store() -> Option<Store> {
    PostgresServer::with_new_database().map(|(_server, _database, url)| open(&url))
}

/// The value under a key.
pub(crate) async fn value(store: &Store, key: &[u8]) -> Option<Vec<u8>> {
    store.get(key).await.unwrap().map(|found| found.value)
}

#[tokio::test]
async fn a_reopened_database_store_keeps_everything() {
    let Some((_server, _database, url)) = PostgresServer::with_new_database() else { return };
    let store = open(&url);
    let mut batch = one(b"k\0\xff", &[0; 4000]);
    batch.put(b"k".to_vec(), b"first".to_vec());
    batch.put(b"k".to_vec(), b"last".to_vec());
    assert_eq!(store.commit(batch).await.unwrap().version, 1);
    store.close().await.unwrap();
    assert!(store.get(b"k").await.unwrap_err().to_string().contains("closed"));
    let again = open(&url);
    assert_eq!(again.status().commits, 1);
    assert_eq!(value(&again, b"k").await.unwrap(), b"last", "the last write to a key of a batch counts");
    assert_eq!(value(&again, b"k\0\xff").await.unwrap(), [0; 4000]);
    assert_eq!(again.commit(one(b"k", b"v")).await.unwrap().version, 2);
}

#[tokio::test]
async fn a_newer_server_fences_the_older_one() {
    let Some((_server, _database, url)) = PostgresServer::with_new_database() else { return };
    let older = open(&url);
    older.commit(one(b"k", b"older")).await.unwrap();
    let newer = open(&url);
    for _ in 0..2 {
        let error = older.commit(one(b"k", b"too late")).await.unwrap_err().to_string();
        assert!(error.contains("another server has taken the store"), "{error}");
    }
    assert!(matches!(older.status().mode, StoreMode::Taken { .. }));
    assert_eq!(value(&older, b"k").await.unwrap(), b"older");
    newer.commit(one(b"k", b"newer")).await.unwrap();
    assert_eq!(value(&older, b"k").await.unwrap(), b"newer");
}

#[tokio::test]
async fn an_edited_lease_stops_the_writer() {
    let Some((server, database, url)) = PostgresServer::with_new_database() else { return };
    for edit in [
        "DELETE FROM plimsoll.lease",
        "UPDATE plimsoll.lease SET epoch = 0",
        "UPDATE plimsoll.lease SET epoch = 100",
    ] {
        let store = open(&url);
        let epoch = server.sql(&database, "SELECT epoch FROM plimsoll.lease");
        server.sql(&database, edit);
        let error = store.commit(one(b"k", b"after")).await.unwrap_err().to_string();
        assert!(error.contains("restart this"), "{edit}: {error}");
        let _reopened = open(&url);
        let next = server.sql(&database, "SELECT epoch FROM plimsoll.lease");
        assert!(next.parse::<i64>().unwrap() > epoch.parse().unwrap(), "{edit}: {next} after {epoch}");
    }
}

/// A store that waits for the lease, and the holders that it waited for.
pub(crate) fn wait_for(settings: &PostgresSettings) -> (AbortOnDropHandle<Store>, Receiver<String>) {
    let (settings, (tell, held_by)) = (settings.clone(), channel(8));
    let waiting = async move {
        let tell = move |holder: &str| tell.try_send(holder.to_owned()).unwrap_or_default();
        Store::open_postgres_when_free(&settings, tell, &CancellationToken::new()).await.unwrap().unwrap()
    };
    (AbortOnDropHandle::new(TaskTracker::new().spawn(waiting)), held_by)
}

#[tokio::test]
async fn waiting_servers_take_a_released_store_in_turn() {
    let Some((server, database, url)) = PostgresServer::with_new_database() else { return };
    let (free, _none) = wait_for(&settings(&url));
    let holder = free.await.unwrap();
    let mut waiting = [wait_for(&settings(&url)), wait_for(&settings(&url))];
    for (_, held_by) in &mut waiting {
        assert!(held_by.recv().await.unwrap().contains("since"));
    }
    assert_eq!(holder.commit(one(b"k", b"held")).await.unwrap().version, 1);
    let beats = async || server.sql(&database, "SELECT n FROM plimsoll.beat").parse::<i64>().unwrap();
    eventually("more beats than a dead one would get seconds", beats, |n| *n > 8).await;
    assert!(waiting.iter().all(|(waiting, _)| !waiting.is_finished()), "the holder is alive");
    holder.close().await.unwrap();
    let [(mut one_waits, mut told_one), (mut other_waits, mut told_other)] = waiting;
    let (next, next_holder) = tokio::select! {
        next = &mut one_waits => (next.unwrap(), told_other.recv().await),
        next = &mut other_waits => (next.unwrap(), told_one.recv().await),
    };
    assert!(next_holder.is_some(), "the other one waits for the new holder");
    assert_eq!(value(&next, b"k").await.unwrap(), b"held");
    assert_eq!(next.commit(one(b"k", b"next")).await.unwrap().version, 2);
    assert_eq!(next.status().lease_epoch, 2);
}

#[tokio::test]
async fn the_schema_changes_only_after_older_servers_stop() {
    let Some((server, database, url)) = PostgresServer::with_new_database() else { return };
    let older = open(&url);
    older.commit(one(b"k", b"older")).await.unwrap();
    // as an older version leaves the schema
    server.sql(&database, "DROP TABLE plimsoll.lost; UPDATE plimsoll.identity SET schema_step = 2");
    let schema = "SELECT schema_step, to_regclass('plimsoll.lost') FROM plimsoll.identity";
    let (waiting, mut held_by) = wait_for(&settings(&url));
    assert!(held_by.recv().await.is_some());
    assert_eq!(server.sql(&database, schema), "2|");
    older.commit(one(b"k", b"older still")).await.unwrap();
    older.close().await.unwrap();
    let newer = waiting.await.unwrap();
    assert_eq!(server.sql(&database, schema), "3|lost");
    assert_eq!(value(&newer, b"k").await.unwrap(), b"older still");
}

#[tokio::test]
async fn a_waiting_server_takes_a_dead_holders_store() {
    let Some((server, database, url)) = PostgresServer::with_new_database() else { return };
    open(&url).close().await.unwrap();
    assert_eq!(server.sql(&database, "SELECT n FROM plimsoll.beat"), "-1", "given up");
    // as a holder leaves it that was killed
    server.sql(&database, "UPDATE plimsoll.beat SET n = 7");
    let (waiting, mut held_by) = wait_for(&settings(&url));
    assert!(held_by.recv().await.is_some());
    assert_eq!(waiting.await.unwrap().status().lease_epoch, 2);
}

#[tokio::test]
async fn an_idle_older_server_notices_its_lost_lease() {
    let Some((_server, _database, url)) = PostgresServer::with_new_database() else { return };
    let (older, _newer) = (open(&url), open(&url));
    let mode = async || older.status().mode;
    eventually("the older one knows", mode, |mode| matches!(mode, StoreMode::Taken { .. })).await;
}

/// Counts the transactions that insert a number, also those that give one up.
fn count_numbers(server: &PostgresServer, database: &str) {
    let sql = "CREATE SEQUENCE public.numbers; \
               CREATE FUNCTION public.count() RETURNS trigger LANGUAGE plpgsql AS \
               $$ BEGIN PERFORM nextval('public.numbers'); RETURN new; END $$; \
               CREATE TRIGGER count BEFORE INSERT ON plimsoll.feed FOR EACH ROW EXECUTE FUNCTION public.count()";
    server.sql(database, sql);
}

#[tokio::test]
async fn a_commit_with_warnings_is_repeated_before_acknowledgement() {
    let Some((server, database, url)) = PostgresServer::with_new_database() else { return };
    let store = open(&url);
    count_numbers(server, &database);
    let sql = "CREATE FUNCTION public.warn() RETURNS trigger LANGUAGE plpgsql AS \
               $$ BEGIN RAISE WARNING 'simulated'; RETURN new; END $$; \
               CREATE TRIGGER warn BEFORE INSERT ON plimsoll.entry FOR EACH ROW EXECUTE FUNCTION public.warn()";
    server.sql(&database, sql);
    assert_eq!(store.commit(one(b"k", b"v")).await.unwrap().version, 1);
    assert_eq!(server.sql(&database, "SELECT last_value FROM public.numbers"), "2");
    assert_eq!(server.sql(&database, "SELECT count(*) FROM plimsoll.feed WHERE applied"), "1");
}

#[tokio::test]
async fn concurrent_first_starts_create_the_tables_once() {
    let Some((server, database, _url)) = PostgresServer::with_new_database() else { return };
    let starts: Vec<_> = (0..4)
        .map(|_| {
            let url = server.url(&database);
            thread::spawn(move || open(&url))
        })
        .collect();
    let stores: Vec<Store> = starts.into_iter().map(|start| start.join().unwrap()).collect();
    let mut written = 0;
    for store in stores {
        written += u32::from(store.commit(one(b"k", b"v")).await.is_ok());
    }
    assert_eq!((written, server.sql(&database, "SELECT epoch FROM plimsoll.lease")), (1, "4".to_owned()));
}

#[tokio::test]
async fn a_snapshot_is_consistent_under_concurrent_commits() {
    let Some(store) = new_store() else { return };
    for half in 0..2_u16 {
        let mut batch = Batch::default();
        (0..800_u16).for_each(|n| batch.put((half * 800 + n).to_be_bytes().to_vec(), vec![1; 900]));
        store.commit(batch).await.unwrap();
    }
    let mut snapshot = store.snapshot().await.unwrap();
    assert!(store.snapshot().await.unwrap_err().to_string().contains("another snapshot"));
    let mut change = one(&5_u16.to_be_bytes(), b"changed");
    change.delete(1500_u16.to_be_bytes().to_vec());
    store.commit(change).await.unwrap();
    let mut found = BTreeMap::new();
    while let Some(entries) = snapshot.next().await.unwrap() {
        assert!(entries.len() <= 1000);
        found.extend(entries.into_iter().map(|entry| (entry.key, entry.value.value)));
    }
    assert_eq!((snapshot.identity().sequence, found.len()), (2, 1600));
    assert!(found.values().all(|value| *value == [1; 900]));
    drop(snapshot);
    assert_eq!(store.snapshot().await.unwrap().identity().sequence, 3);
    assert_eq!(store.scan(b"", None, PageLimit { items: 1, bytes: 1 }).await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn settings_of_the_role_do_not_matter() {
    let Some((server, database, _url)) = PostgresServer::with_new_database() else { return };
    server.sql("postgres", &format!("CREATE ROLE {database}_role LOGIN"));
    server.sql("postgres", &format!("ALTER DATABASE {database} OWNER TO {database}_role"));
    for setting in [
        "statement_timeout = '1ms'",
        "lock_timeout = '1ms'",
        "default_transaction_isolation = 'serializable'",
        "default_transaction_read_only = on",
        "search_path = 'nowhere'",
        "synchronous_commit = off",
        "client_min_messages = error",
        "enable_indexscan = off",
        "bytea_output = 'escape'",
    ] {
        server.sql("postgres", &format!("ALTER ROLE {database}_role SET {setting}"));
    }
    let store = open(&server.url(&database).replace("//plimsoll@", &format!("//{database}_role@")));
    store.commit(one(b"k", &[0xff; 1000])).await.unwrap();
    assert_eq!(value(&store, b"k").await.unwrap(), [0xff; 1000]);
    assert_eq!(store.scan(b"k", None, PageLimit::PAGE).await.unwrap().entries.len(), 1);
}

const WRITING: &str = "TRIGGER fail BEFORE INSERT OR UPDATE ON plimsoll.entry";
const COMMITTING: &str =
    "CONSTRAINT TRIGGER fail AFTER INSERT OR UPDATE ON plimsoll.entry DEFERRABLE INITIALLY DEFERRED";

/// Makes the next `times` writes of entries fail with an error code, as they are written or as their transaction commits.
fn fail_writes(server: &PostgresServer, database: &str, when: &str, code: &str, times: u32) {
    let body = format!(
        "BEGIN IF nextval('public.failures') <= {times} THEN RAISE EXCEPTION USING ERRCODE = '{code}', MESSAGE = 'simulated'; END IF; RETURN new; END"
    );
    let sql = format!(
        "DROP TRIGGER IF EXISTS fail ON plimsoll.entry; DROP SEQUENCE IF EXISTS public.failures; CREATE SEQUENCE public.failures; \
         CREATE OR REPLACE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$; \
         CREATE {when} FOR EACH ROW EXECUTE FUNCTION public.fail()"
    );
    server.sql(database, &sql);
}

#[tokio::test]
async fn a_transaction_that_fails_once_is_repeated() {
    let Some((server, database, url)) = PostgresServer::with_new_database() else { return };
    let store = open(&url);
    for when in [WRITING, COMMITTING] {
        for code in ["40001", "40P01", "53100", "53200", "53300", "57014", "57P01"] {
            fail_writes(server, &database, when, code, 2);
            let version = store.commit(one(b"k", code.as_bytes())).await.unwrap().version;
            let found = store.get(b"k").await.unwrap().unwrap();
            assert_eq!((found.value.as_slice(), found.version), (code.as_bytes(), version));
            // a beat may be late on a slow machine
            let mode = async || store.status().mode;
            eventually("it is writable", mode, |mode| *mode == StoreMode::Writable).await;
        }
    }
}

#[tokio::test]
async fn a_full_disk_makes_the_store_read_only() {
    let Some((server, database, url)) = PostgresServer::with_new_database() else { return };
    let store = open(&url);
    store.commit(one(b"k", b"before")).await.unwrap();
    fail_writes(server, &database, WRITING, "53100", 1_000_000);
    let error = store.commit(one(b"k", b"lost")).await.unwrap_err();
    assert!(matches!(&error, CommitError::Unavailable(text) if text.contains("make room")), "{error}");
    let StoreMode::ReadOnly { reason } = store.status().mode else { panic!("it is writable") };
    assert!(reason.contains(&database), "{reason}");
    assert_eq!(value(&store, b"k").await.unwrap(), b"before");
    server.sql(&database, "DROP TRIGGER fail ON plimsoll.entry");
    let again = async || store.commit(one(b"k", b"after")).await.is_ok();
    eventually("the store is writable", again, |written| *written).await;
    assert_eq!(value(&store, b"k").await.unwrap(), b"after");
}

#[tokio::test]
async fn old_commit_numbers_are_pruned_except_the_last() {
    let Some((server, database, url)) = PostgresServer::with_new_database() else { return };
    let store = open(&url);
    for n in 0..5 {
        store.commit(one(b"k", &[n])).await.unwrap();
    }
    store.close().await.unwrap();
    let idle = open(&server.url(&database));
    server.sql(&database, "UPDATE plimsoll.feed SET at = at - interval '2 hours'");
    let numbers =
        async || server.sql(&database, "SELECT string_agg(applied || ' ' || n, ',') FROM plimsoll.feed");
    eventually("old numbers are gone", numbers, |numbers| !numbers.contains("true 4")).await;
    idle.close().await.unwrap();
    let again = open(&server.url(&database));
    assert_eq!(again.commit(one(b"k", b"v")).await.unwrap().version, 6);
}
