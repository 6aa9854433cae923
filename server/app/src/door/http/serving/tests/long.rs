//! Answers that may take hours.

use std::{convert::Infallible, sync::Mutex};

use axum::{body::Bytes, response::IntoResponse as _};
use tokio::sync::mpsc;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};

use super::*;
use crate::door::net::serve::LongAnswer;

/// More than the buffers of both ends of a connection hold.
const LARGE: usize = 12 << 20;

/// A server whose `/long` sends what comes here, and the other end of what it sends.
async fn start_long() -> (Running, mpsc::Sender<&'static str>) {
    let (sender, pieces) = mpsc::channel(8);
    let pieces = Arc::new(Mutex::new(Some(pieces)));
    let long = move || {
        let pieces = pieces.lock().unwrap().take().unwrap();
        let pieces = ReceiverStream::new(pieces).map(|piece| Ok::<_, Infallible>(Bytes::from(piece)));
        let mut answer = ([("x-long", "yes")], Body::from_stream(pieces)).into_response();
        answer.extensions_mut().insert(LongAnswer);
        std::future::ready(answer)
    };
    let router = hello().route("/long", get(long)).route("/large", get(async || "z".repeat(LARGE)));
    (start(PATIENT, router).await, sender)
}

#[tokio::test]
async fn a_long_answer_comes_piece_by_piece_behind_other_answers_and_ends_its_connection() {
    let (server, pieces) = start_long().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut first = vec![0; 1024];
    let came = stream.read(&mut first).await.unwrap();
    assert!(first[..came].ends_with(b"hello"));
    stream.write_all(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut received = String::new();
    for piece in ["begin", "", "end"] {
        pieces.send(piece).await.unwrap();
    }
    while !received.ends_with("\r\n3\r\nend\r\n") {
        let came = stream.read(&mut first).await.unwrap();
        received += std::str::from_utf8(&first[..came]).unwrap();
    }
    let (head, body) = received.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    for line in ["x-long: yes", "connection: close", "transfer-encoding: chunked"] {
        assert!(head.lines().any(|of_head| of_head == line), "{head}");
    }
    assert!(head.contains(" GMT"), "{head}");
    assert_eq!(body, "5\r\nbegin\r\n3\r\nend\r\n");
    drop(pieces);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "0\r\n\r\n");
}

#[tokio::test]
async fn a_long_answer_waits_until_the_client_has_taken_what_was_asked_for_before() {
    let (server, pieces) = start_long().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let both = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\nGET /long HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(both).await.unwrap();
    pieces.send("long").await.unwrap();
    drop(pieces);
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.unwrap();
    let received = String::from_utf8(received).unwrap();
    assert_eq!(received.matches('z').count(), LARGE);
    assert!(received.ends_with("\r\n\r\n4\r\nlong\r\n0\r\n\r\n"));
}

#[tokio::test]
async fn a_client_of_an_older_http_gets_a_long_answer_without_chunks() {
    let (server, pieces) = start_long().await;
    pieces.send("old").await.unwrap();
    drop(pieces);
    let received = server.hears(b"GET /long HTTP/1.0\r\n\r\n").await;
    assert!(received.ends_with("\r\n\r\nold"), "{received}");
}

#[tokio::test]
async fn a_long_answer_ends_when_its_client_leaves() {
    let (server, pieces) = start_long().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    pieces.send("begin").await.unwrap();
    stream.read_exact(&mut [0; 12]).await.unwrap();
    drop(stream);
    pieces.closed().await;
    assert_eq!(server.cut("unread"), 0);
}

#[tokio::test]
async fn a_long_answer_that_fails_resets_its_connection_so_that_the_client_calls_again() {
    let router = Router::new().route(
        "/",
        get(async || {
            let pieces = [Ok("begin"), Err(std::io::Error::other("it fails"))];
            let mut answer = Body::from_stream(tokio_stream::iter(pieces)).into_response();
            answer.extensions_mut().insert(LongAnswer);
            answer
        }),
    );
    let server = start(PATIENT, router).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let ended = stream.read_to_end(&mut Vec::new()).await.map_err(|error| error.kind());
    assert_eq!(ended, Err(std::io::ErrorKind::ConnectionReset));
}
