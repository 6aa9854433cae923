//! Answers HTTP/1 clients on the gRPC listener: a browser, `curl`, or a proxy that passes on gRPC
//! calls as HTTP/1. They get one HTTP/1 answer that names the right address, before anything of
//! HTTP/2 is written. That is done only without TLS: with TLS, both sides agree on HTTP/2 during
//! the handshake.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::timeout,
};

/// Most bytes of a request that are read: enough for its first line and the headers that a proxy
/// adds.
const HEAD_BYTES: usize = 2048;
/// Time limit for the headers of the request.
const HEAD_WITHIN: Duration = Duration::from_secs(1);
/// Answer to a gRPC call that a proxy has passed on: the proxy passes the status to its caller.
const UNIMPLEMENTED_ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ngrpc-status: 12\r\n\
    grpc-message: gRPC needs HTTP/2 on all of its way, and a proxy passed this call on as HTTP/1: make it speak HTTP/2 to \
    plimsoll-server (nginx: grpc_pass)\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Answer to all other requests.
const UPGRADE_REQUIRED_ANSWER: &str = "HTTP/1.1 426 Upgrade Required\r\nupgrade: h2c\r\nconnection: upgrade, close\r\n\
    content-type: text/plain\r\n\r\n\
    This port serves gRPC, over HTTP/2 alone. HTTP is served at http_listen: port 7411 where it was not set.\n";

/// The answer to a client that does not begin with the HTTP/2 preface; empty if it sends no HTTP/1
/// request either.
pub(super) async fn answer(io: &mut (impl AsyncRead + Unpin), peer: SocketAddr) -> io::Result<&'static str> {
    let answer = match read_head(io).await? {
        head if !is_http1(&head) => return Ok(""),
        head if is_call(&head) => UNIMPLEMENTED_ANSWER,
        _ => UPGRADE_REQUIRED_ANSWER,
    };
    tracing::info!(%peer, "HTTP/1 came to the port for gRPC");
    Ok(answer)
}

/// Reads until the headers end, or until [`HEAD_BYTES`]; they may come in several packets. After
/// [`HEAD_WITHIN`] the answer depends on what has arrived.
async fn read_head(io: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let mut io = io.take(HEAD_BYTES as u64);
    let reading = async {
        while !head.windows(4).any(|end| end == b"\r\n\r\n") && io.read_buf(&mut head).await? > 0 {}
        Ok::<(), io::Error>(())
    };
    timeout(HEAD_WITHIN, reading).await.unwrap_or(Ok(()))?;
    Ok(head)
}

fn is_http1(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0")
}

fn is_call(head: &[u8]) -> bool {
    String::from_utf8_lossy(head).to_ascii_lowercase().contains("content-type: application/grpc")
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[test]
    fn http_1_is_known_by_its_first_line() {
        assert!(is_http1(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert!(is_http1(b"POST /a HTTP/1.0\r\n"));
        assert!(!is_http1(b"GET / HTT"));
        assert!(!is_http1(b"\x16\x03\x01"));
        assert!(is_call(b"POST /x HTTP/1.1\r\nContent-Type: application/grpc+proto\r\n\r\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_comes_in_pieces_is_read_to_its_end_and_a_slow_one_as_far_as_it_came() {
        let (mut client, mut server) = tokio::io::duplex(16);
        let sending = async {
            client.write_all(b"POST /x HTTP/1.1\r\nContent-Type: application/grpc\r\n\r\n").await.unwrap();
        };
        let (head, ()) = tokio::join!(read_head(&mut server), sending);
        assert!(is_call(&head.unwrap()));
        let (mut client, mut server) = tokio::io::duplex(64);
        client.write_all(b"GET / HTTP/1.1\r\nHost").await.unwrap();
        assert!(is_http1(&read_head(&mut server).await.unwrap()));
    }
}
