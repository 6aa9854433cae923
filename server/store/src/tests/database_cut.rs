//! The answer to a commit is lost, or the database crashes: nothing is lost, nothing doubled, nothing acknowledged that is not there.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use plimsoll_support::postgres::PostgresServer;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

use super::{
    database::{open, value},
    fixture::one,
};
use crate::Store;

/// Connections that are cut in the whole test.
const CUTS: usize = 55;
/// One of so many commits is cut.
const EVERY: usize = 3;

/// What happens to the bytes of a transaction that ends with a COMMIT.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// The server gets all but the COMMIT.
    BeforeCommit,
    /// The server gets all; both sides are closed at once.
    AfterCommit,
    /// The server has answered; the client does not get the answer.
    AfterAnswer,
    /// The server gets all when everything else is over.
    Late,
    /// The server does not understand the BEGIN, and gets all else, so that each statement is a transaction of its own.
    NoBegin,
}

/// Forwards connections to a database, and cuts some of those in which a COMMIT passes.
struct CuttingProxy {
    port: u16,
    database_port: u16,
    is_armed: AtomicBool,
    commits: AtomicUsize,
    cuts: AtomicUsize,
    late_cuts: AtomicUsize,
    /// Lets late transactions arrive.
    late: Semaphore,
    arrived: Semaphore,
}

impl CuttingProxy {
    async fn start(database_port: u16) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Arc::new(Self {
            port: listener.local_addr().unwrap().port(),
            database_port,
            is_armed: AtomicBool::new(false),
            commits: AtomicUsize::new(0),
            cuts: AtomicUsize::new(0),
            late_cuts: AtomicUsize::new(0),
            late: Semaphore::new(0),
            arrived: Semaphore::new(0),
        });
        let accepting = Arc::clone(&proxy);
        #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&accepting).forward(client));
            }
        });
        proxy
    }

    /// Forwards one connection until a side closes it, or it is cut.
    async fn forward(self: Arc<Self>, mut client: TcpStream) {
        let mut database = TcpStream::connect(("127.0.0.1", self.database_port)).await.unwrap();
        let (mut up, mut down) = (vec![0; 1 << 20], vec![0; 1 << 16]);
        loop {
            tokio::select! {
                read = client.read(&mut up) => {
                    let Some(bytes) = read.ok().and_then(|count| up.get(..count)).filter(|bytes| !bytes.is_empty()) else { return };
                    match self.cut(bytes) {
                        Some(cut) => return self.end(cut, bytes.to_vec(), database, client).await,
                        None => if database.write_all(bytes).await.is_err() { return },
                    }
                }
                read = database.read(&mut down) => {
                    let Some(bytes) = read.ok().and_then(|count| down.get(..count)).filter(|bytes| !bytes.is_empty()) else { return };
                    if client.write_all(bytes).await.is_err() { return }
                }
            }
        }
    }

    /// How the connection that sends these bytes is cut, if it is.
    fn cut(&self, bytes: &[u8]) -> Option<Cut> {
        position(bytes, b"COMMIT\0")?;
        // the start is not cut: it would fail, as it should
        let is_due =
            self.is_armed.load(SeqCst) && (self.commits.fetch_add(1, SeqCst) + 1).is_multiple_of(EVERY);
        if !is_due || self.cuts.load(SeqCst) >= CUTS {
            return None;
        }
        let kinds = [Cut::BeforeCommit, Cut::AfterCommit, Cut::AfterAnswer, Cut::Late, Cut::NoBegin];
        let kind = kinds.get(self.cuts.fetch_add(1, SeqCst) % kinds.len()).copied()?;
        let is_whole = position(bytes, b"BEGIN").is_some();
        match kind {
            // a part of it is at the server already, which would wait for the rest for as long as the client does
            Cut::Late | Cut::NoBegin if !is_whole => return Some(Cut::AfterAnswer),
            Cut::Late => {
                self.late_cuts.fetch_add(1, SeqCst);
            }
            _ => {}
        }
        Some(kind)
    }

    async fn end(&self, cut: Cut, mut bytes: Vec<u8>, mut database: TcpStream, client: TcpStream) {
        // the message begins with its type and its length
        let commit = position(&bytes, b"COMMIT\0").unwrap() - 5;
        match cut {
            Cut::BeforeCommit => drop(database.write_all(&bytes[..commit]).await),
            Cut::AfterCommit => drop(database.write_all(&bytes).await),
            Cut::AfterAnswer => {
                database.write_all(&bytes).await.unwrap();
                read_until_answer(&mut database).await;
            }
            Cut::NoBegin => {
                let begin = position(&bytes, b"BEGIN").unwrap();
                bytes[begin] = b'X';
                database.write_all(&bytes).await.unwrap();
                read_until_answer(&mut database).await;
            }
            Cut::Late => {
                drop(client);
                self.late.acquire().await.unwrap().forget();
                database.write_all(&bytes).await.unwrap();
                read_until_answer(&mut database).await;
                self.arrived.add_permits(1);
            }
        }
    }
}

/// Reads until the server has answered the COMMIT, whatever it answers.
async fn read_until_answer(database: &mut TcpStream) {
    let (mut all, mut part) = (Vec::new(), vec![0; 1 << 16]);
    while position(&all, b"COMMIT\0").or_else(|| position(&all, b"ROLLBACK\0")).is_none() {
        let count = database.read(&mut part).await.unwrap_or(0);
        if count == 0 {
            return;
        }
        all.extend_from_slice(&part[..count]);
    }
}

/// Commits a key, with itself as its value; returns the version.
async fn commit_key(store: Store, key: Vec<u8>) -> (u64, Vec<u8>) {
    (store.commit(one(&key, &key)).await.unwrap().version, key)
}

/// Commits one key after the other until `stop` is above 0; returns those that were acknowledged, with their versions.
async fn commit_until(store: Store, writer: u32, stop: Arc<AtomicUsize>) -> Vec<(Vec<u8>, u64)> {
    let (mut acknowledged, mut n) = (Vec::new(), 0_u32);
    while stop.load(SeqCst) == 0 {
        n += 1;
        let key = [writer.to_be_bytes(), n.to_be_bytes()].concat();
        match store.commit(one(&key, &key)).await {
            Ok(receipt) => acknowledged.push((key, receipt.version)),
            Err(_unavailable) => tokio::task::yield_now().await,
        }
    }
    acknowledged
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_cut_around_a_commit_loses_nothing_and_doubles_nothing() {
    let Some(server) = PostgresServer::shared() else { return };
    let database = server.new_database();
    let proxy = CuttingProxy::start(server.port).await;
    let store = open(&server.url(&database).replace(&server.port.to_string(), &proxy.port.to_string()));
    proxy.is_armed.store(true, SeqCst);
    let direct = "SELECT convert_from(v, 'UTF8') FROM plimsoll.entry WHERE k = 'last'";
    let mut acknowledged = Vec::new();
    let mut round = 0_u32;
    while proxy.cuts.load(SeqCst) < CUTS {
        round += 1;
        // commits of a group, and one key that all rounds overwrite
        let mut commits = JoinSet::new();
        for n in 0..3_u32 {
            let store = store.clone();
            commits.spawn(commit_key(store, [round.to_be_bytes(), n.to_be_bytes()].concat()));
        }
        acknowledged.extend(commits.join_all().await);
        let value = round.to_string().into_bytes();
        acknowledged.push((store.commit(one(b"last", &value)).await.unwrap().version, b"last".to_vec()));
        let seen = server.sql(&database, direct);
        assert_eq!(seen, round.to_string());
    }
    // transactions that were under way all the time arrive now
    let late = proxy.late_cuts.load(SeqCst);
    proxy.late.add_permits(late);
    proxy.arrived.acquire_many(u32::try_from(late).unwrap()).await.unwrap().forget();
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
async fn a_database_that_crashes_under_commits_keeps_what_was_acknowledged() {
    let Some(server) = PostgresServer::start(|_folder| Vec::new()) else { return };
    let (server, stop) = (Arc::new(server), Arc::new(AtomicUsize::new(0)));
    let store = open(&server.url("postgres"));
    let mut writers = JoinSet::new();
    for writer in 0..4_u32 {
        writers.spawn(commit_until(store.clone(), writer, Arc::clone(&stop)));
    }
    for _ in 0..5 {
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
