//! When a connection ends by itself.

use prometheus_client::metrics::gauge::Gauge;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::Handle,
};

use tokio_util::either::Either;

use super::{
    opening::{HttpVersion, OpenedConnection},
    speaking::serve_opened,
    *,
};
use crate::runtime::tls::Expiry;

/// So long that no machine is that slow.
const NEVER: Duration = Duration::from_hours(1);
/// So short that a test need not wait.
const SOON: Duration = Duration::from_millis(50);

/// How a client of HTTP/2 begins: the preface, and empty settings.
const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

fn grpc(preface: Duration) -> Policy {
    let own = OwnThreads { path: "/none", threads: Handle::current() };
    Policy {
        bounds: Bounds { connections: 8, head: NEVER, body: NEVER, idle: NEVER },
        protocol: Protocol::Grpc { preface, own },
        streams: 8,
        counts: ConnectionCounts { open: Gauge::default(), replaced: Counter::default() },
        cut: Family::default(),
    }
}

type Answered = std::future::Ready<Result<Response<String>, Infallible>>;

fn server(policy: Policy) -> Server<impl Fn(Request<Incoming>) -> Answered> {
    let answer = |_request| std::future::ready(Ok(Response::new(String::new())));
    Server { policy, answer, stopping: CancellationToken::new() }
}

/// A client and its connection.
async fn connected(policy: &Policy) -> (TcpStream, Connection) {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let mut acceptor = Acceptor::new(tcp, 2, policy.counts.clone(), SpareFiles::none());
    (TcpStream::connect(address).await.unwrap(), acceptor.next().await)
}

#[tokio::test]
async fn a_connection_ends_with_the_certificate_of_its_client() {
    let server = server(grpc(NEVER));
    let is_ended = async |last| {
        let (mut client, mut connection) = connected(&server.policy).await;
        client.write_all(BEGIN).await.unwrap();
        let (requests, address) = (connection.requests.clone(), connection.peer);
        let peer = Peer { address, local: None, names: Arc::default(), requests };
        let io = Either::Left(&mut connection.stream);
        let (version, names, expiry) = (HttpVersion::Http2, Arc::default(), Some(Expiry::new(last)));
        let speaking =
            serve_opened(OpenedConnection { io, version, names, expiry }, peer, &server, Threads::of(None));
        let settled = async {
            // the settings, and that those of the client were taken
            client.read_exact(&mut [0; 9 * 2]).await.unwrap();
        };
        tokio::select! {
            biased;
            ended = speaking => ended.is_ok(),
            () = settled => false,
        }
    };
    assert!(is_ended(1).await, "even where there is something to read");
    assert!(!is_ended(4_000_000_000).await);
}

#[tokio::test]
async fn a_client_that_does_not_begin_to_speak_is_cut_off_and_one_that_has_may_take_its_time() {
    let server = Arc::new(server(grpc(SOON)));
    for begun in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"] {
        let (mut client, connection) = connected(&server.policy).await;
        client.write_all(begun).await.unwrap();
        converse(Arc::clone(&server), connection, None, Threads::of(None)).await;
    }
    let (mut client, connection) = connected(&server.policy).await;
    client.write_all(BEGIN).await.unwrap();
    tokio::select! {
        () = converse(server, connection, None, Threads::of(None)) => panic!("it has begun"),
        () = sleep(SOON * 4) => {}
    }
}

#[tokio::test]
async fn a_client_that_closes_its_side_within_the_preface_is_gone_at_once() {
    let server = Arc::new(server(grpc(NEVER)));
    for begun in [&b"P"[..], b"PRI * HTTP/2.0\r\n"] {
        let (mut client, connection) = connected(&server.policy).await;
        client.write_all(begun).await.unwrap();
        client.shutdown().await.unwrap();
        converse(Arc::clone(&server), connection, None, Threads::of(None)).await;
    }
}
