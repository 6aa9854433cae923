//! Clients that are slow, silent, too many or wrong, over real sockets.

mod long;

use std::{net::SocketAddr, time::Duration};

use axum::{
    body::Body,
    routing::{get, post},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Notify,
};
use tokio_util::task::TaskTracker;

use super::*;
use crate::{
    access::identity::Role,
    door::{gate::LongAnswer, grpc::OneStream},
    runtime::metrics::KindLabel,
};

/// So long that no machine is that slow.
const NEVER: Duration = Duration::from_hours(1);
/// So short that a test need not wait.
const SOON: Duration = Duration::from_millis(50);

const PATIENT: Bounds = Bounds { connections: 8, first: NEVER, admitted: NEVER, body: NEVER, idle: NEVER };

struct Running {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    stopping: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

/// A server without roles.
async fn start(bounds: Bounds, routes: Router) -> Running {
    let guard = Guard::open(None, Arc::new(Metrics::new())).unwrap();
    start_behind((HttpPort::Webhook, guard), bounds, routes).await
}

async fn start_behind((port, guard): (HttpPort, Guard), bounds: Bounds, routes: Router) -> Running {
    let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let (metrics, stopping) = (Arc::new(Metrics::new()), CancellationToken::new());
    let parts = ServingParts {
        calls: Calls::default(),
        guard,
        metrics: Arc::clone(&metrics),
        stopping: stopping.clone(),
    };
    let serving = serve(Listener { tcp, tls: None }, (port, routes), bounds, parts);
    Running { address, metrics, stopping, serving: TaskTracker::new().spawn(serving) }
}

fn hello() -> Router {
    Router::new().route("/", get(async || "hello")).route("/", post(async |body: String| body))
}

impl Running {
    /// Everything that a client hears who sends this and then only listens.
    async fn hears(&self, sent: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        String::from_utf8_lossy(&received).into_owned()
    }

    fn cut(&self, why: &'static str) -> u64 {
        self.metrics.http_connections_cut.get_or_create(&KindLabel::of(why)).get()
    }
}

#[tokio::test]
async fn slow_clients_are_cut_off_in_every_state() {
    let server = start(Bounds { first: SOON, admitted: SOON, body: SOON, ..PATIENT }, hello()).await;
    // before its first byte, before the version of HTTP is known, in a head, in a body, in the preface of HTTP/2 and behind it, behind an
    // answer
    let begun: [&[u8]; 7] = [
        b"",
        b"G",
        b"GET / HTTP/1.1\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
        b"PRI * HTTP/2.0",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ];
    for sent in begun {
        let received = server.hears(sent).await;
        let is_whole = sent.starts_with(b"GET") && received.ends_with("hello") || sent.ends_with(b"\0");
        assert!(received.is_empty() || is_whole || received.starts_with("HTTP/1.1 4"), "{received}");
    }
    assert_eq!(server.cut("slow"), 4, "a client that sends nothing does nothing wrong");
    server.stopping.cancel();
    server.serving.await.unwrap();
    assert_eq!(server.metrics.http_connections.get(), 0);
}

#[tokio::test]
async fn oversized_and_malformed_heads_get_a_status() {
    let server = start(PATIENT, hello()).await;
    let line = |bytes: usize| format!("GET /v1/allocation?spec={} HTTP/1.1\r\n\r\n", "+x".repeat(bytes / 2));
    let header = |bytes: usize| format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "a".repeat(bytes));
    for (sent, status) in [
        (header(1 << 20), "431"),
        (line(1 << 20), "431"),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(200)), "431"),
        ("this is not HTTP\r\n\r\n".to_owned(), "400"),
        ("GET / HTTP/1.1\r\nHost x\r\n\r\n".to_owned(), "400"),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), "400"),
        (header(1 << 15).replace("Host: x", "Connection: close"), "200"),
    ] {
        let received = server.hears(sent.as_bytes()).await;
        let begin: String = sent.chars().take(30).collect();
        assert_eq!(received.split(' ').nth(1), Some(status), "{begin}: {received}");
    }
    assert_eq!((server.cut("too_large"), server.cut("malformed")), (3, 3));
}

#[tokio::test]
async fn running_requests_finish_when_the_server_stops() {
    let (asked, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (started, go) = (Arc::clone(&asked), Arc::clone(&answer));
    let slow = get(async move || {
        started.notify_one();
        go.notified().await;
        "at last"
    });
    let server = start(PATIENT, hello().route("/slow", slow)).await;
    let _kept = TcpStream::connect(server.address).await.unwrap();
    let asking = server.hears(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    let stop = async {
        asked.notified().await;
        server.stopping.cancel();
        answer.notify_one();
    };
    let (received, ()) = tokio::join!(asking, stop);
    assert!(received.ends_with("at last"), "{received}");
    server.serving.await.unwrap();
}

#[tokio::test]
async fn refused_clients_are_cut_off_despite_repeated_requests() {
    let guard = OneStream::new(Role::Reader).guard;
    let port = HttpPort::of(&guard, None, &Arc::default(), false);
    let bounds = Bounds { first: SOON, admitted: SOON, ..PATIENT };
    let server = start_behind((port, guard), bounds, hello()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut received = [0; 1024];
    loop {
        let asked = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        if asked.is_err() || stream.read(&mut received).await.unwrap_or(0) == 0 {
            break;
        }
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off() {
    let pages = Router::new().route("/", get(async || "x".repeat(1 << 20)));
    let guard = Guard::open(None, Arc::new(Metrics::new())).unwrap();
    let port = HttpPort::of(&guard, None, &["host".to_owned()].into(), false);
    // the times are looked at one after the other
    let bounds = Bounds { first: 20 * SOON, admitted: 20 * SOON, idle: 4 * SOON, ..PATIENT };
    let server = start_behind((port, guard), bounds, pages).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut client, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(1)
        .keep_alive_interval(Duration::from_millis(20))
        .handshake::<_, Body>(TokioIo::new(stream))
        .await
        .unwrap();
    let asking = async {
        let request = axum::http::Request::get("http://host/").body(Body::empty()).unwrap();
        client.send_request(request).await.unwrap()
    };
    // the connection ends, although the client would keep it
    let (_unread, _ended) = tokio::join!(asking, connection);
    assert_eq!(server.cut("unread"), 1);
}

#[tokio::test]
async fn a_refused_head_has_no_body() {
    let guard = Guard::open(None, Arc::new(Metrics::new())).unwrap();
    let asked = async |method: Method, host: &str| {
        let gate = Arc::new(Gate {
            routes: Router::new().route("/livez", get(async || "ok\n")),
            calls: Calls::default(),
            guard: guard.clone(),
            body_within: NEVER,
            port: HttpPort::of(&guard, None, &Arc::default(), false),
        });
        let request = Request::builder().method(method).uri("/livez").header("host", host);
        let Ok(answer) = gate.answer(request.body(Body::empty()).unwrap()).await;
        let status = answer.status().as_u16();
        (status, axum::body::to_bytes(Body::new(answer.into_body()), 10_000).await.unwrap().len())
    };
    assert_eq!(asked(Method::GET, "localhost").await, (200, 3));
    assert_eq!(asked(Method::HEAD, "localhost").await, (200, 0));
    assert!(asked(Method::GET, "evil.example").await.1 > 0);
    assert_eq!(asked(Method::HEAD, "evil.example").await, (421, 0));
}
