//! Clients of HTTP/2 that ask for much and take none of it.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use axum::body::Bytes;
use hyper::client::conn::http2::{Builder, SendRequest};
use tokio::task::JoinHandle;

use super::*;

const PAGE: usize = 1 << 20;
/// Pages that are in memory.
static PAGES: AtomicUsize = AtomicUsize::new(0);

/// A page that is counted until its memory is given back.
struct Page(Vec<u8>);

impl Page {
    fn bytes() -> Bytes {
        PAGES.fetch_add(1, SeqCst);
        Bytes::from_owner(Self(vec![b'x'; PAGE]))
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        PAGES.fetch_sub(1, SeqCst);
    }
}

/// The routes of this file, where every caller is let in.
fn pages() -> Router {
    let of_all = axum::middleware::from_fn(async |request: Request, next: axum::middleware::Next| {
        super::super::super::guarded::make_slot_permanent(request.extensions(), None);
        next.run(request).await
    });
    Router::new().route("/", get(async || Page::bytes())).layer(of_all)
}

/// A client that gives each answer a window of so many bytes, and sends pings all the time.
async fn client(server: &Running, window: u32) -> (SendRequest<Body>, JoinHandle<()>) {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (client, connection) = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(window)
        .keep_alive_interval(Duration::from_millis(20))
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let ended = TaskTracker::new().spawn(async move { drop(connection.await) });
    (client, ended)
}

fn ask() -> axum::http::Request<Body> {
    axum::http::Request::get("http://host/").body(Body::empty()).unwrap()
}

/// The answer's body, behind its head.
async fn asked(client: &mut SendRequest<Body>) -> Incoming {
    client.ready().await.unwrap();
    client.send_request(ask()).await.unwrap().into_body()
}

#[tokio::test]
async fn answers_that_are_not_read_fill_no_memory_and_keep_no_connection() {
    let server = start(Bounds { idle: NEVER, ..PATIENT }, pages()).await;
    let mut unread = Vec::new();
    for _ in 0..4 {
        let (mut client, ended) = client(&server, 1).await;
        let mut bodies = Vec::new();
        for _ in 0..20 {
            bodies.push(asked(&mut client).await);
        }
        unread.push((client, ended, bodies));
    }
    // the head of each answer has come, so each page was there
    let pages = PAGES.load(SeqCst);
    assert!(pages <= 25, "{pages} pages of 1 MiB wait for clients that read nothing");
    let (mut reader, _ended) = client(&server, 1 << 16).await;
    let read = http_body_util::BodyExt::collect(asked(&mut reader).await).await.unwrap().to_bytes();
    assert_eq!(read.len(), PAGE, "a client that reads gets the whole answer");
}

#[tokio::test]
async fn a_client_that_answers_pings_and_reads_nothing_is_cut_off() {
    let server = start(Bounds { head: 20 * SOON, idle: 4 * SOON, ..PATIENT }, pages()).await;
    let (mut client, ended) = client(&server, 1).await;
    let _body = asked(&mut client).await;
    ended.await.unwrap();
    assert_eq!(server.cut("unread"), 1);
}
