//! An HTTP server for tests of clients: each request gets the response that a function has for its head.

#![expect(clippy::unwrap_used, reason = "a server that cannot do its work must fail the test")]

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_util::task::TaskTracker;

/// A server on a free port. It stops when this is dropped.
#[derive(Debug)]
pub struct FakeServer {
    /// The server's address.
    pub address: SocketAddr,
    /// Heads of the requests so far.
    heads: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl FakeServer {
    /// Starts a server. `respond` gets the head of a request, and returns the whole response; `None`: there is never one.
    pub async fn start(respond: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (respond, heads) = (Arc::new(respond), Arc::new(Mutex::new(Vec::new())));
        let all_heads = Arc::clone(&heads);
        let serving = TaskTracker::new().spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let respond = recorded(Arc::clone(&respond), Arc::clone(&all_heads));
                TaskTracker::new().spawn(respond_once(stream, respond));
            }
        });
        Self { address, heads, serving }
    }

    /// An address on this server.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Heads of the requests so far.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// `respond`, which also adds each head to `heads`.
fn recorded(
    respond: Arc<impl Fn(&str) -> Option<String>>,
    heads: Arc<Mutex<Vec<String>>>,
) -> impl FnOnce(&str) -> Option<String> {
    move |head| {
        heads.lock().unwrap().push(head.to_owned());
        respond(head)
    }
}

/// Reads the head of one request, and responds. A request that breaks off gets no response.
pub async fn respond_once<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    respond: impl FnOnce(&str) -> Option<String>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let Some(response) = respond(&String::from_utf8(head).unwrap()) else {
        return std::future::pending().await;
    };
    // the other end may be gone already
    let _sent = stream.write_all(response.as_bytes()).await;
    let _closed = stream.shutdown().await;
}
