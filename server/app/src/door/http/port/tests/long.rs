//! Answers that may take hours.

use std::sync::Mutex;

use axum::body::Bytes;
use tokio::sync::mpsc;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};

use super::*;

/// A server whose `/` sends what comes here, and the other end of what it sends.
async fn start_long() -> (Running, mpsc::Sender<std::io::Result<&'static str>>) {
    let (sender, pieces) = mpsc::channel::<std::io::Result<&'static str>>(8);
    let pieces = Arc::new(Mutex::new(Some(pieces)));
    let long = move || {
        let pieces = ReceiverStream::new(pieces.lock().unwrap().take().unwrap());
        let mut answer = Body::from_stream(pieces.map(|piece| piece.map(Bytes::from))).into_response();
        answer.extensions_mut().insert(LongAnswer);
        answer.headers_mut().insert("connection", "close".parse().unwrap());
        std::future::ready(answer)
    };
    (start(PATIENT, Router::new().route("/", get(long))).await, sender)
}

/// A client that has the beginning of the long answer.
async fn begun(server: &Running, pieces: &mpsc::Sender<std::io::Result<&'static str>>) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    pieces.send(Ok("begin")).await.unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"\r\n5\r\nbegin\r\n") {
        assert!(stream.read_buf(&mut received).await.unwrap() > 0);
    }
    stream
}

#[tokio::test]
async fn a_long_answer_ends_with_its_client() {
    let (server, pieces) = start_long().await;
    drop(begun(&server, &pieces).await);
    pieces.closed().await;
    assert_eq!(server.cut("unread"), 0);
}

#[tokio::test]
async fn only_a_truncated_long_answer_resets_the_connection() {
    for (last, ended) in [(None, Ok(5)), (Some("it fails"), Err(std::io::ErrorKind::ConnectionReset))] {
        let (server, pieces) = start_long().await;
        let mut stream = begun(&server, &pieces).await;
        if let Some(error) = last {
            pieces.send(Err(std::io::Error::other(error))).await.unwrap();
        }
        drop(pieces);
        let rest = stream.read_to_end(&mut Vec::new()).await.map_err(|error| error.kind());
        assert_eq!(rest, ended, "{last:?}");
    }
}
