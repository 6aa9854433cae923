//! When a connection ends by itself, and for another one.

use std::{pin::pin, sync::atomic::Ordering::Relaxed};

use http_body_util::{BodyExt as _, Full, StreamBody};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::Handle,
    sync::Notify,
    time::{Instant, sleep},
};
use tokio_stream::{StreamExt as _, once, pending};
use tokio_util::either::Either;

use super::{conversation::serve_opened, places::Place, *};
use crate::{access::identity::UsageSlot, runtime::tls::Expiry};

const FIRST: Duration = Duration::from_secs(10);
const ADMITTED: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_mins(2);
const BOUNDS: Bounds = Bounds { connections: 8, first: FIRST, admitted: ADMITTED, body: FIRST, idle: IDLE };
/// How a client of HTTP/2 begins: the preface, and empty settings.
const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A request of HTTP/2 without a body: `POST /` (RFC 7541, appendix A, has its headers).
const ASK: &[u8] = b"\0\0\x03\x01\x05\0\0\0\x01\x83\x86\x84";

async fn requests() -> ConnectionRequests {
    ConnectionRequests::new(&Places::new(1).take(IpAddr::from([127, 0, 0, 1])).await.0)
}

/// The seconds until the connection counts as unused.
async fn unused(requests: &ConnectionRequests) -> u64 {
    let begun = Instant::now();
    requests.unused(&BOUNDS).await;
    begun.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn only_admitted_requests_keep_a_connection() {
    assert_eq!(unused(&requests().await).await, FIRST.as_secs(), "says nothing");
    let refused = requests().await;
    let refusals = async {
        loop {
            // as gRPC counts it, and HTTP
            refused.mark_asked();
            let _running = refused.begin();
            sleep(Duration::from_secs(7)).await;
        }
    };
    tokio::select! {
        seconds = unused(&refused) => assert_eq!(seconds, ADMITTED.as_secs(), "is refused again and again"),
        () = refusals => {}
    }
    let used = requests().await;
    let running = used.begin();
    used.mark_admitted(|| None);
    assert!(timeout(IDLE * 10, used.unused(&BOUNDS)).await.is_err(), "a request runs");
    drop(running);
    assert_eq!((unused(&used).await, used.are_unread()), (IDLE.as_secs(), false));
}

#[tokio::test(start_paused = true)]
async fn requests_after_the_shutdown_keep_no_connection() {
    let requests = requests().await;
    let before = requests.begin();
    requests.mark_admitted(|| None);
    requests.mark_closing();
    assert!(timeout(IDLE * 3, requests.stalled(IDLE)).await.is_err(), "one from before is answered");
    drop(before);
    let goes_on = async {
        loop {
            let _late = requests.begin();
            sleep(Duration::from_secs(3)).await;
        }
    };
    tokio::select! {
        () = requests.stalled(IDLE) => {}
        () = goes_on => {}
        () = sleep(IDLE * 3) => panic!("it is closed after at most twice the time"),
    }
}

#[tokio::test]
async fn unread_answers_hold_no_memory_beyond_their_call() {
    const WHOLE: usize = 1 << 20;
    // the last piece may be a small one
    for bytes in [WHOLE - 1, WHOLE, WHOLE + 1] {
        let page: Arc<[u8]> = vec![b'x'; bytes].into();
        let whole = Bytes::from_owner(Arc::clone(&page));
        let mut answer = SentBody::new(Full::new(whole), None, ());
        let mut pieces = Vec::new();
        while let Some(piece) = answer.frame().await {
            pieces.push(piece.unwrap().into_data().unwrap());
        }
        drop(answer);
        assert_eq!(pieces.iter().map(Bytes::len).sum::<usize>(), bytes);
        // a client has taken the others
        drop(pieces.drain(..pieces.len() - bodies::LAST_PIECES));
        assert_eq!(Arc::strong_count(&page), 1, "{bytes}");
    }
}

/// A listener with eight places, after clients came and went.
struct Door {
    places: Arc<Places>,
    open: Vec<(u8, Place)>,
}

impl Door {
    /// Clients of these addresses come, one after the other; gives the addresses of those that were closed for them.
    async fn come(&mut self, from: &[u8]) -> Vec<u8> {
        let mut closed = Vec::new();
        for host in from.iter().copied() {
            let mut taking = pin!(self.places.take(IpAddr::from([10, 0, 0, host])));
            let taken = timeout(Duration::ZERO, taking.as_mut()).await;
            closed.extend(end_replaced(&mut self.open).await);
            let (place, _) = if let Ok(taken) = taken { taken } else { taking.await };
            self.open.push((host, place));
        }
        closed
    }

    fn of(&self, host: u8) -> &places::Connection {
        &self.open.iter().find(|(of, _)| *of == host).unwrap().1.connection
    }

    fn admit(&self, host: u8, own: Option<UsageSlot>) {
        self.of(host).admit(|| own);
    }
}

/// Ends the connection that is closed for another one, if one is.
async fn end_replaced(open: &mut Vec<(u8, Place)>) -> Option<u8> {
    for at in 0..open.len() {
        if timeout(Duration::ZERO, open[at].1.connection.replaced.notified()).await.is_ok() {
            return Some(open.remove(at).0);
        }
    }
    None
}

#[tokio::test]
async fn a_full_listener_closes_strangers_for_new_connections() {
    let mut door = Door { places: Places::new(8), open: Vec::new() };
    assert_eq!(door.come(&[1, 2, 3, 4]).await, [0; 0]);
    door.admit(1, Some(UsageSlot::default()));
    door.admit(2, None);
    assert_eq!(door.come(&[5, 5, 5, 5]).await, [5, 5], "it has a quarter, and half are taken");
    assert_eq!(door.come(&[6, 7]).await, [0; 0]);
    assert_eq!(door.come(&[8, 9]).await, [3, 4], "the oldest");
    for host in [5, 6, 7, 8, 9] {
        door.admit(host, Some(UsageSlot::default()));
    }
    assert_eq!(door.come(&[10]).await, [5], "the oldest without an admitted request, which one of these is");
    door.admit(10, Some(UsageSlot::default()));
    for (_, place) in &door.open {
        place.connection.running.store(1, Relaxed);
    }
    assert_eq!(door.come(&[11, 12]).await, [2, 11], "one eighth is never kept");
    door.admit(12, Some(UsageSlot::default()));
    door.of(12).running.store(1, Relaxed);
    door.of(7).running.store(0, Relaxed);
    assert_eq!(door.come(&[13]).await, [7], "the only one without a running request, although it is kept");
    let _requests: Vec<_> = door.open.iter().map(|(_, place)| ConnectionRequests::new(place)).collect();
    door.open.clear();
    assert_eq!(door.come(&[1, 2, 3, 4, 5, 6, 7, 8]).await, [0; 0], "all places are free again");
}

/// A server for gRPC.
fn server<F: Fn(Request<Incoming>) -> A, A>(answer: F) -> Server<F> {
    let policy = Policy {
        bounds: BOUNDS,
        streams: 8,
        grpc: Some(OwnThreads { path: "/none", threads: Handle::current() }),
        open: Gauge::default(),
        replaced: Counter::default(),
        cut: Family::default(),
    };
    Server { policy, answer, stopping: CancellationToken::new(), handshakes: Semaphore::new(1) }
}

/// A client that has sent these bytes, its connection, and who it is there.
async fn connected(sent: &[u8]) -> (TcpStream, TcpStream, Peer) {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(tcp.local_addr().unwrap()).await.unwrap();
    let (stream, address) = tcp.accept().await.unwrap();
    client.write_all(sent).await.unwrap();
    (client, stream, Peer { address, local: None, names: Arc::default(), requests: requests().await })
}

#[tokio::test]
async fn a_call_counts_before_it_is_admitted() {
    let called = Arc::new(Notify::new());
    let calling = Arc::clone(&called);
    let server = server(move |_request| {
        calling.notify_one();
        std::future::pending::<Result<Response<String>, Infallible>>()
    });
    let (_client, stream, peer) = connected(&[BEGIN, ASK].concat()).await;
    let requests = peer.requests.clone();
    assert!(!requests.have_begun() && !requests.were_asked());
    tokio::select! {
        _ended = serve_opened(&server, (Either::Left(stream), None), peer, Threads::new(None)) => panic!("a call runs"),
        () = called.notified() => {}
    }
    assert!(requests.have_begun() && requests.were_asked());
}

#[tokio::test]
async fn http_1_is_refused_readably_while_it_sends() {
    let refusal = || Response::builder().status(426).header("connection", "close").body(String::new());
    let server = server(move |_request| std::future::ready(Ok(refusal().unwrap())));
    let sent = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf";
    let (mut client, stream, peer) = connected(sent).await;
    let mut received = Vec::new();
    tokio::select! {
        biased;
        _ended = serve_opened(&server, (Either::Left(stream), None), peer, Threads::new(None)) => panic!("it is sending"),
        read = client.read_to_end(&mut received) => assert!(read.is_ok(), "{read:?}"),
    }
    assert!(received.starts_with(b"HTTP/1.1 426 "));
}

#[tokio::test]
async fn a_connection_ends_when_the_client_certificate_expires() {
    let server = server(|_request| std::future::ready(Ok(Response::new(String::new()))));
    let is_ended = async |last| {
        let (mut client, stream, peer) = connected(BEGIN).await;
        let opened = (Either::Left(stream), Some(Expiry::new(last)));
        let settled = async {
            // the settings, and that those of the client were taken
            client.read_exact(&mut [0; 9 * 2]).await.unwrap();
        };
        tokio::select! {
            biased;
            ended = serve_opened(&server, opened, peer, Threads::new(None)) => ended.is_ok(),
            () = settled => false,
        }
    };
    assert!(is_ended(1).await, "even where there is something to read");
    assert!(!is_ended(4_000_000_000).await);
}

#[tokio::test(start_paused = true)]
async fn an_unread_answer_keeps_no_connection() {
    let requests = requests().await;
    requests.mark_admitted(|| None);
    let mut answer = SentBody::new("x".repeat(3 * bodies::PIECE_BYTES), Some(requests.begin()), ());
    for _ in 0..2 {
        answer.frame().await.unwrap().unwrap();
        sleep(IDLE / 2).await;
    }
    assert_eq!((unused(&requests).await, requests.are_unread()), (IDLE.as_secs() / 2, true));
    answer.frame().await.unwrap().unwrap();
    assert_eq!(unused(&requests).await, IDLE.as_secs(), "it was read again");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_whole_ends() {
    let half = once(Ok::<_, BoxError>(http_body::Frame::data(Bytes::from_static(b"half")))).chain(pending());
    let (begun, requests) = (Instant::now(), requests().await);
    let late = |within: Duration| format!("{} s", within.as_secs()).into();
    let body = BodyDeadline::new(StreamBody::new(half), FIRST, late, Some(requests.clone()));
    assert_eq!(body.collect().await.err().unwrap().to_string(), "10 s");
    assert!(begun.elapsed() == FIRST && requests.have_left_body());
}
