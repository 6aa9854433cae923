//! A proxy in front of a database that cuts connections around a COMMIT.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use plimsoll_support::postgres::PostgresServer;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

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

/// Forwards connections to a database, and cuts one of [`EVERY`] of those in which a COMMIT passes.
pub(super) struct CuttingProxy {
    port: u16,
    database_port: u16,
    /// Cuts that are left.
    left: AtomicUsize,
    commits: AtomicUsize,
    late_cuts: AtomicUsize,
    /// Lets late transactions arrive.
    late: Semaphore,
    arrived: Semaphore,
}

impl CuttingProxy {
    pub(super) async fn start(database_port: u16) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Arc::new(Self {
            port: listener.local_addr().unwrap().port(),
            database_port,
            left: AtomicUsize::new(0),
            commits: AtomicUsize::new(0),
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

    /// The URL of a server with the port of the proxy in it.
    pub(super) fn url(&self, server: &PostgresServer, database: &str) -> String {
        server.url(database).replace(&self.database_port.to_string(), &self.port.to_string())
    }

    /// Cuts so many connections from now on.
    pub(super) fn arm(&self, cuts: usize) {
        self.left.store(cuts, SeqCst);
    }

    /// Cuts that are left.
    pub(super) fn left(&self) -> usize {
        self.left.load(SeqCst)
    }

    /// Lets the transactions arrive that were under way all the time; returns when the database has answered them.
    pub(super) async fn let_late_ones_arrive(&self) {
        let late = self.late_cuts.load(SeqCst);
        self.late.add_permits(late);
        self.arrived.acquire_many(u32::try_from(late).unwrap()).await.unwrap().forget();
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
        if !(self.commits.fetch_add(1, SeqCst) + 1).is_multiple_of(EVERY) {
            return None;
        }
        let left = self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).ok()?;
        let kinds = [Cut::BeforeCommit, Cut::AfterCommit, Cut::AfterAnswer, Cut::Late, Cut::NoBegin];
        let kind = kinds.get(left % kinds.len()).copied()?;
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

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
