//! The database fails over to a standby: nothing acknowledged is lost with a synchronous one, losses are counted with another one, and
//! an old primary that comes back is not used.

use std::{
    net::TcpListener,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use plimsoll_support::{patience::eventually, postgres::PostgresServer};
use tokio::{
    sync::mpsc::channel,
    task::{JoinSet, spawn_blocking},
};
use tokio_util::sync::CancellationToken;

use super::{
    database::{open, settings, value, wait_for},
    database_cut::commit_until,
    fixture::one,
};
use crate::{PostgresSettings, Store, StoreMode};

const WAIT: [&str; 1] = ["synchronous_standby_names=ANY 1 (*)"];

/// A primary with these settings, and a standby of it.
fn pair(settings: &'static [&str]) -> Option<[Arc<PostgresServer>; 2]> {
    let settings = |_: &Path| settings.iter().map(|setting| (*setting).to_owned()).collect();
    let primary = PostgresServer::start(settings)?;
    let standby = primary.new_standby();
    Some([Arc::new(primary), Arc::new(standby)])
}

/// A URL with both hosts.
fn url_of([first, second]: &[Arc<PostgresServer>; 2]) -> String {
    format!("postgres://plimsoll@127.0.0.1:{},127.0.0.1:{}/postgres", first.port, second.port)
}

async fn on_thread(server: &Arc<PostgresServer>, call: impl FnOnce(&PostgresServer) + Send + 'static) {
    let server = Arc::clone(server);
    spawn_blocking(move || call(&server)).await.unwrap();
}

async fn commits_go_on(store: &Store) {
    let before = store.status().syncs;
    let syncs = async || store.status().syncs;
    eventually("commits go on", syncs, |now| *now > before + 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unresponsive_host_does_not_block_the_next() {
    let Some((server, database, _url)) = PostgresServer::with_new_database() else { return };
    let frozen = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = frozen.local_addr().unwrap().port();
    let store = open(&format!("postgres://plimsoll@127.0.0.1:{port},127.0.0.1:{}/{database}", server.port));
    assert_eq!(store.commit(one(b"k", b"v")).await.unwrap().version, 1);
    let beats = async || server.sql(&database, "SELECT coalesce(max(n), 0) FROM plimsoll.beat");
    eventually("the holder beats", beats, |n| n.parse::<i64>().unwrap() > 0).await;
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_commits_survive_five_promotions() {
    let Some(servers) = pair(&WAIT) else { return };
    let (store, stop) = (open(&url_of(&servers)), Arc::new(AtomicUsize::new(0)));
    let [mut primary, mut standby] = servers;
    let mut writers = JoinSet::new();
    for writer in 0..4_u32 {
        writers.spawn(commit_until(store.clone(), writer, Arc::clone(&stop)));
    }
    for _promotion in 0..5 {
        commits_go_on(&store).await;
        on_thread(&primary, PostgresServer::crash).await;
        on_thread(&standby, PostgresServer::promote).await;
        let new_primary = Arc::clone(&standby);
        on_thread(&primary, move |old| old.follow(&new_primary)).await;
        (primary, standby) = (standby, primary);
    }
    commits_go_on(&store).await;
    stop.store(1, SeqCst);
    let acknowledged = writers.join_all().await.concat();
    for (key, version) in &acknowledged {
        let found = store.get(key).await.unwrap().unwrap();
        assert_eq!((found.version, &found.value), (*version, key));
    }
    assert_eq!(store.status().commits_lost, 0);
}

/// The reason why a store is read-only, once it has `words` in it.
async fn reason_with(store: &Store, words: &str) {
    let mode = async || store.status().mode;
    let is_found = |mode: &StoreMode| mode.refusal().is_some_and(|reason| reason.contains(words));
    eventually(words, mode, is_found).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_commits_are_counted_and_old_primaries_refused() {
    let Some(servers) = pair(&[]) else { return };
    let url = url_of(&servers);
    let [old, new] = servers;
    let store = open(&url);
    store.commit(one(b"k", b"kept")).await.unwrap();
    // until the standby has the schema, its answer is an error
    let entries = async || new.psql("postgres", "SELECT count(*) FROM plimsoll.entry").stdout;
    eventually("the standby has the first commit", entries, |count| count == b"1\n").await;
    on_thread(&new, PostgresServer::crash).await;
    for _lost in 0..5 {
        store.commit(one(b"k", b"lost")).await.unwrap();
    }
    on_thread(&old, PostgresServer::crash).await;
    on_thread(&new, PostgresServer::start_again).await;
    on_thread(&new, PostgresServer::promote).await;
    reason_with(&store, "without commits that were acknowledged (the last 5 of 6)").await;
    assert_eq!(store.status().commits_lost, 5);

    let again = open(&url);
    assert_eq!((again.status().commits_lost, value(&again, b"k").await.unwrap()), (5, b"kept".to_vec()));
    again.commit(one(b"k", b"new")).await.unwrap();
    on_thread(&old, PostgresServer::start_again).await;
    on_thread(&new, PostgresServer::crash).await;
    reason_with(&again, "an old primary that was replaced").await;
    on_thread(&new, PostgresServer::start_again).await;
    let written = async || again.commit(one(b"k", b"newer")).await.is_ok();
    eventually("the store is writable", written, |written| *written).await;
    assert_eq!(value(&again, b"k").await.unwrap(), b"newer");

    // both take writes now
    let third = async || value(&open(&url), b"k").await.unwrap();
    eventually("the one with the later timeline counts", third, |value| value == b"newer").await;
    assert_eq!(old.sql("postgres", "SELECT convert_from(v, 'UTF8') FROM plimsoll.entry"), "lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_servers_refuse_an_old_primary() {
    let Some(servers) = pair(&[]) else { return };
    let (url, dir) = (url_of(&servers), tempfile::tempdir().unwrap());
    let [old, new] = servers;
    let with_file =
        |server: &str| PostgresSettings { position_file: Some(dir.path().join(server)), ..settings(&url) };
    let store = Store::open_postgres(&with_file("serves")).unwrap();
    store.commit(one(b"k", b"before")).await.unwrap();
    let entries = async || new.psql("postgres", "SELECT count(*) FROM plimsoll.entry").stdout;
    eventually("the standby has the first commit", entries, |count| count == b"1\n").await;
    on_thread(&old, PostgresServer::crash).await;
    on_thread(&new, PostgresServer::promote).await;
    let written = async || store.commit(one(b"k", b"acknowledged")).await.is_ok();
    eventually("the store is writable", written, |written| *written).await;
    // a server that waits learns from the feed how far the other one has come
    let ((seen, mut holders), stop) = (channel(1), CancellationToken::new());
    let note = move |holder: &str| seen.try_send(holder.to_owned()).unwrap_or_default();
    let waits = with_file("waits");
    let waiting = Store::open_postgres_when_free(&waits, note, &stop);
    tokio::select! {
        opened = waiting => panic!("{opened:?}"),
        holder = holders.recv() => assert!(holder.is_some()),
    }
    store.close().await.unwrap();
    on_thread(&new, PostgresServer::crash).await;
    on_thread(&old, PostgresServer::start_again).await;
    for server in ["serves", "waits"] {
        let refusal = Store::open_postgres(&with_file(server)).unwrap_err().to_string();
        let file = dir.path().join(server);
        let way_out = format!("remove {} on each server", file.display());
        assert!(refusal.contains("an old primary") && refusal.contains(&way_out), "{refusal}");
    }
    on_thread(&new, PostgresServer::start_again).await;
    let again = Store::open_postgres(&with_file("waits")).unwrap();
    assert_eq!(value(&again, b"k").await.unwrap(), b"acknowledged");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfenced_old_primary_keeps_no_lease() {
    let Some(servers) = pair(&[]) else { return };
    let url = url_of(&servers);
    let [old, new] = servers;
    let store = open(&url);
    store.commit(one(b"k", b"before")).await.unwrap();
    // from now on a commit there waits for the standby; the standby itself waits for none once it is promoted
    old.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'");
    old.sql("postgres", "SELECT pg_reload_conf()");
    let (waiting, mut holders) = wait_for(&settings(&url));
    assert!(holders.recv().await.is_some());
    on_thread(&new, PostgresServer::promote).await;
    let written = async || store.commit(one(b"k", b"newer")).await.is_ok();
    eventually("the store is writable", written, |written| *written).await;
    let beats = async || new.sql("postgres", "SELECT n FROM plimsoll.beat").parse::<i64>().unwrap();
    let before = beats().await;
    eventually("the holder beats at the new primary", beats, |n| *n > before + 2).await;
    assert!(!waiting.is_finished(), "the holder is alive");
    store.close().await.unwrap();
    assert_eq!(value(&waiting.await.unwrap(), b"k").await.unwrap(), b"newer");
}
