//! Clients that are slow, silent, too many or wrong, over real sockets.

mod long;

use std::{net::SocketAddr, time::Duration};

use axum::{
    Router,
    routing::{get, post},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Notify,
};
use tokio_util::task::TaskTracker;

use super::{super::gate::ListenerChecks, *};
use crate::{door::calls::Calls, runtime::metrics::KindLabel};

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

async fn start(bounds: Bounds, router: Router) -> Running {
    start_behind(ListenerChecks::Certificate, bounds, router).await
}

async fn start_behind(checks: ListenerChecks, bounds: Bounds, router: Router) -> Running {
    let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let (metrics, stopping) = (Arc::new(Metrics::new()), CancellationToken::new());
    let gate = Gate { router, calls: Calls::default(), checks };
    let serving = serve(Listener { tcp, tls: None }, gate, bounds, Arc::clone(&metrics), stopping.clone());
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
        String::from_utf8(received).unwrap()
    }

    fn cut(&self, why: &'static str) -> u64 {
        self.metrics.http_connections_cut.get_or_create(&KindLabel::of(why)).get()
    }
}

#[tokio::test]
async fn slow_clients_are_cut_off_in_every_state() {
    let server = start(Bounds { first: SOON, admitted: SOON, body: SOON, ..PATIENT }, hello()).await;
    // before its first byte, before the version of HTTP is known, in a head, in a body, in the preface of HTTP/2, behind an answer
    let begun: [&[u8]; 6] = [
        b"",
        b"G",
        b"GET / HTTP/1.1\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
        b"PRI * HTTP/2.0",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ];
    for sent in begun {
        let received = server.hears(sent).await;
        let is_whole = sent.starts_with(b"GET") && received.ends_with("hello");
        assert!(received.is_empty() || is_whole || received.starts_with("HTTP/1.1 4"), "{received}");
    }
    assert_eq!(server.cut("slow"), 3, "a client that sends nothing does nothing wrong");
    server.stopping.cancel();
    server.serving.await.unwrap();
    assert_eq!(server.metrics.http_connections.get(), 0);
}

#[tokio::test]
async fn clients_without_requests_are_cut_off() {
    // the first as over TLS, where bytes of the handshake have moved before any of HTTP
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let server = start(Bounds { first: SOON, admitted: SOON, ..PATIENT }, hello()).await;
    for sent in [&PREFACE[..16], PREFACE] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
    }
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

/// What a client with this address hears at first who sends this on a connection that stays; `None` if it is closed.
async fn begin_of_answer(address: &str, server: &Running, sent: &str) -> Option<(TcpStream, String)> {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(format!("{address}:0").parse().unwrap()).unwrap();
    let mut stream = socket.connect(server.address).await.ok()?;
    stream.write_all(sent.as_bytes()).await.ok()?;
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).await.ok()?;
    Some((stream, String::from_utf8(begin.to_vec()).unwrap()))
}

#[tokio::test]
async fn refused_clients_leave_slots_for_probes_and_readers() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("access.toml");
    let token = crate::access::identity::hash("secret");
    let text = format!("[[token]]\nname = \"one\"\nsha256 = \"{token}\"\nroles = [\"reader\"]\n");
    std::fs::write(&file, text).unwrap();
    let guard = crate::access::guard::Guard::open(Some(file), Arc::new(Metrics::new())).unwrap();
    let checks =
        ListenerChecks::Paths { grpc_port: None, own_names: Arc::default(), guard, has_hook_secret: false };
    let router = Router::new().route("/livez", get(async || "ok")).route("/metrics", get(async || "many"));
    let server = start_behind(checks, PATIENT, router).await;
    let mut strangers = Vec::new();
    for path in ["/metrics", "/livez"].repeat(8) {
        let sent = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        strangers.extend(begin_of_answer("127.0.0.1", &server, &sent).await);
    }
    let received: Vec<&str> = strangers.iter().map(|(_, begin)| begin.as_str()).collect();
    assert_eq!(
        received,
        ["HTTP/1.1 401", "HTTP/1.1 200"].repeat(8),
        "each takes the place of their own oldest one"
    );
    assert_eq!(server.metrics.http_connections_replaced.get(), 12, "of 16, with half of the places");
    let reader = "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n";
    let mut readers = Vec::new();
    for _ in 0..3 {
        let (stream, begin) = begin_of_answer("127.0.0.2", &server, reader).await.unwrap();
        assert_eq!(begin, "HTTP/1.1 200", "of those who are let in there may be any number");
        readers.push(stream);
    }
    let probe = begin_of_answer("127.0.0.3", &server, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(probe.unwrap().1, "HTTP/1.1 200");
}

#[tokio::test]
async fn refused_clients_are_cut_off_despite_repeated_requests() {
    let server = start(Bounds { first: SOON, admitted: SOON, ..PATIENT }, hello()).await;
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
    let admitted = axum::middleware::from_fn(async |request: Request, next: axum::middleware::Next| {
        super::super::guarded::make_slot_permanent(request.extensions(), None);
        next.run(request).await
    });
    let pages = Router::new().route("/", get(async || "x".repeat(1 << 20))).layer(admitted);
    // the times are looked at one after the other
    let server =
        start(Bounds { first: 20 * SOON, admitted: 20 * SOON, idle: 4 * SOON, ..PATIENT }, pages).await;
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
