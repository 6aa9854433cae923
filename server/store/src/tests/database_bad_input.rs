//! What others do to the database of a store: rows that were changed by hand, and sessions that hold locks.

use std::thread::{self, JoinHandle};

use plimsoll_core::domain::Summary;
use plimsoll_support::{patience::eventually, postgres::PostgresServer};
use tokio_util::sync::CancellationToken;

use super::{
    database::{open, settings, value},
    fixture::{attempt, id, one, summary},
};
use crate::{Batch, CommitError, Store, load, put};

#[tokio::test]
async fn an_edited_row_costs_at_most_its_record() {
    let Some(server) = PostgresServer::shared() else { return };
    let row = "WHERE k >= '\\x736200' AND k < '\\x736201'";
    let cases = [
        ("SET v = substring(v FOR length(v) - 1)", 1),
        ("SET v = ''", 1),
        ("SET v = set_byte(v, length(v) - 1, get_byte(v, length(v) - 1) # 1)", 1),
        ("SET v = v || convert_to(repeat('x', 10000), 'UTF8')", 1),
        ("SET version = 0", 0),
        ("SET version = -1", 0),
        ("SET v = '\\x00'", 1),
        // shorter than any key, of a kind that is not known, and longer than any
        ("SET k = '\\x73'", 0),
        ("SET k = '\\x7a6200'", 0),
        ("SET k = convert_to(repeat('z', 2000), 'UTF8')", 0),
    ];
    for (change, damaged) in cases {
        let database = server.new_database();
        let url = server.url(&database);
        let store = open(&url);
        let mut batch = Batch::default();
        for name in ["a", "b", "c"] {
            put(&mut batch, &summary(&attempt(name))).unwrap();
        }
        store.commit(batch).await.unwrap();
        store.close().await.unwrap();
        server.sql(&database, &format!("UPDATE plimsoll.entry {change} {row}"));
        let again = open(&url);
        let mut found = Vec::new();
        let report = load::<Summary>(&again, |summary| found.push(summary.attempt)).await.unwrap();
        assert_eq!((report.damaged, report.unreadable), (damaged, 0), "{change}");
        assert!(found.contains(&id("a")) && found.contains(&id("c")), "{change}: {found:?}");
        let mut snapshot = again.snapshot().await.unwrap();
        while snapshot.next().await.unwrap().is_some() {}
        let mut batch = Batch::default();
        put(&mut batch, &summary(&attempt("b"))).unwrap();
        again.commit(batch).await.unwrap();
        let report = load::<Summary>(&again, |_| ()).await.unwrap();
        assert_eq!(report.records, 3, "{change}: it can be written again");
    }
}

/// A session of another program that has run a statement and does not end its transaction.
struct ForeignSession<'a> {
    server: &'static PostgresServer,
    database: &'a str,
    thread: JoinHandle<()>,
}

impl<'a> ForeignSession<'a> {
    async fn begin(server: &'static PostgresServer, database: &'a str, statement: &str) -> Self {
        let (name, sql) = (database.to_owned(), format!("BEGIN; {statement}; SELECT pg_sleep(600)"));
        // it is ended, so it does not succeed
        let thread = thread::spawn(move || drop(server.psql(&name, &sql)));
        let this = Self { server, database, thread };
        this.wait_for("wait_event = 'PgSleep'").await;
        this
    }

    /// Waits until a session of this database is in a state.
    async fn wait_for(&self, state: &str) {
        let sql =
            format!("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND {state}");
        let count = async || self.server.sql(self.database, &sql);
        eventually(state, count, |count| count != "0").await;
    }

    fn end(self) {
        let sql = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event = 'PgSleep'";
        self.server.sql(self.database, sql);
        self.thread.join().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_waits_for_locks_of_other_sessions() {
    let Some((server, database, url)) = PostgresServer::with_new_database() else { return };
    let store = open(&url);
    store.commit(one(b"k", b"before")).await.unwrap();
    for statement in [
        "ALTER TABLE plimsoll.entry ADD COLUMN more integer",
        "LOCK TABLE plimsoll.feed",
        "SELECT * FROM plimsoll.entry FOR UPDATE",
        "UPDATE plimsoll.lease SET holder = 'edited'",
    ] {
        let foreign = ForeignSession::begin(server, &database, statement).await;
        let committing = store.begin(one(b"k", statement.as_bytes())).await;
        foreign.wait_for("wait_event_type = 'Lock'").await;
        foreign.end();
        // refused after 10 s, on a slow machine before the lock was gone
        if committing.unwrap().done().await.is_err() {
            let again = async || store.commit(one(b"k", statement.as_bytes())).await.is_ok();
            eventually("it is committed", again, |written| *written).await;
        }
        assert_eq!(value(&store, b"k").await.unwrap(), statement.as_bytes());
    }
    let foreign = ForeignSession::begin(server, &database, "SELECT * FROM plimsoll.entry").await;
    store.commit(one(b"k", b"beside an open transaction")).await.unwrap();
    foreign.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_lock_makes_the_store_read_only() {
    let Some((server, database, url)) = PostgresServer::with_new_database() else { return };
    let store = open(&url);
    let foreign = ForeignSession::begin(server, &database, "LOCK TABLE plimsoll.entry").await;
    let error = store.commit(one(b"k", b"late")).await.unwrap_err();
    assert!(matches!(&error, CommitError::Unavailable(text) if text.contains("pg_stat_activity")), "{error}");
    foreign.end();
    let again = async || store.commit(one(b"k", b"after")).await.is_ok();
    eventually("the store is writable", again, |written| *written).await;
    assert_eq!(value(&store, b"k").await.unwrap(), b"after");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_stopped_during_takeover_releases_the_lease() {
    let Some((server, database, url)) = PostgresServer::with_new_database() else { return };
    let settings = settings(&url);
    open(&settings.url).close().await.unwrap();
    let foreign = ForeignSession::begin(server, &database, "SELECT * FROM plimsoll.lease FOR UPDATE").await;
    let stop = CancellationToken::new();
    let opening = async || Store::open_postgres_when_free(&settings, |_holder| (), &stop).await;
    let stopping = async {
        foreign.wait_for("wait_event_type = 'Lock'").await;
        stop.cancel();
        foreign.end();
    };
    let (opened, ()) = tokio::join!(opening(), stopping);
    assert!(opened.unwrap().is_none());
    let lease = "SELECT lease.epoch, beat.epoch, beat.n FROM plimsoll.lease, plimsoll.beat";
    assert_eq!(server.sql(&database, lease), "2|2|-1");
    assert!(opening().await.unwrap().is_none(), "it does not wait once it is stopped");
}
