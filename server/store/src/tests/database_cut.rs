//! The answer to a commit is lost, or the database crashes: nothing is lost, nothing doubled, nothing acknowledged that is not there.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use plimsoll_support::postgres::PostgresServer;
use tokio::task::JoinSet;

use super::{
    database::{open, value},
    database_proxy::CuttingProxy,
    fixture::one,
};
use crate::Store;

/// Commits a key, with itself as its value; returns the version.
async fn commit_key(store: Store, key: Vec<u8>) -> (u64, Vec<u8>) {
    (store.commit(one(&key, &key)).await.unwrap().version, key)
}

/// Commits one key after the other until `stop` is above 0; returns those that were acknowledged, with their versions.
pub(super) async fn commit_until(store: Store, writer: u32, stop: Arc<AtomicUsize>) -> Vec<(Vec<u8>, u64)> {
    let (mut acknowledged, mut n) = (Vec::new(), 0_u32);
    while stop.load(SeqCst) == 0 {
        n += 1;
        let key = [writer.to_be_bytes(), n.to_be_bytes()].concat();
        match store.commit(one(&key, &key)).await {
            Ok(receipt) => acknowledged.push((key, receipt.version)),
            Err(_unavailable) => tokio::time::sleep(std::time::Duration::from_millis(1)).await,
        }
    }
    acknowledged
}

/// Commits over a proxy until it has cut so many connections.
async fn commit_through_cuts(cuts: usize) {
    let Some((server, database, _url)) = PostgresServer::with_new_database() else { return };
    let proxy = CuttingProxy::start(server.port).await;
    let store = open(&proxy.url(server, &database));
    // the start is not cut: it would fail, as it should
    proxy.arm(cuts);
    let mut acknowledged = Vec::new();
    let mut round = 0_u32;
    while proxy.left() > 0 {
        round += 1;
        // commits of a group, and one key that all rounds overwrite
        let mut commits = JoinSet::new();
        for n in 0..3_u32 {
            let store = store.clone();
            commits.spawn(commit_key(store, [round.to_be_bytes(), n.to_be_bytes()].concat()));
        }
        acknowledged.extend(commits.join_all().await);
        let last = round.to_string().into_bytes();
        acknowledged.push((store.commit(one(b"last", &last)).await.unwrap().version, b"last".to_vec()));
        assert_eq!(value(&store, b"last").await.unwrap(), last);
    }
    proxy.let_late_ones_arrive().await;
    assert_eq!(value(&store, b"last").await.unwrap(), round.to_string().into_bytes());
    let mut versions: Vec<u64> = acknowledged.iter().map(|(version, _)| *version).collect();
    versions.sort_unstable();
    assert!(versions.windows(2).all(|pair| pair[0] != pair[1]), "each commit has its own number");
    for (version, key) in acknowledged.iter().filter(|(_, key)| key != b"last") {
        let found = store.get(key).await.unwrap().unwrap();
        assert_eq!((found.version, &found.value), (*version, key));
    }
    let entries = server.sql(&database, "SELECT count(*) FROM plimsoll.entry");
    assert_eq!(entries, (round * 3 + 1).to_string(), "nothing else is there");
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_connections_neither_lose_nor_duplicate_commits() {
    commit_through_cuts(55).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes about a minute: the same with more cuts"]
async fn five_hundred_cuts_neither_lose_nor_duplicate_commits() {
    commit_through_cuts(500).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_commits_survive_database_crashes() {
    let Some(server) = PostgresServer::start(|_folder| Vec::new()) else { return };
    let (server, stop) = (Arc::new(server), Arc::new(AtomicUsize::new(0)));
    let store = open(&server.url("postgres"));
    let mut writers = JoinSet::new();
    for writer in 0..4_u32 {
        writers.spawn(commit_until(store.clone(), writer, Arc::clone(&stop)));
    }
    for _ in 0..10 {
        let before = store.status().syncs;
        let syncs = async || store.status().syncs;
        plimsoll_support::patience::eventually("commits go on", syncs, |now| *now > before + 20).await;
        let server = Arc::clone(&server);
        let crash = move || {
            server.crash();
            server.start_again();
        };
        tokio::task::spawn_blocking(crash).await.unwrap();
    }
    let before = store.status().syncs;
    let syncs = async || store.status().syncs;
    plimsoll_support::patience::eventually("commits go on", syncs, |now| *now > before + 20).await;
    stop.store(1, SeqCst);
    let acknowledged = writers.join_all().await.concat();
    assert!(acknowledged.len() > 200);
    for (key, version) in &acknowledged {
        let found = store.get(key).await.unwrap().unwrap();
        assert_eq!((found.version, &found.value), (*version, key));
    }
}
