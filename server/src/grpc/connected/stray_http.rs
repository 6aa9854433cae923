//! Clients of HTTP/1 on the port for gRPC: a browser, `curl`, or a proxy that passes calls of gRPC on as HTTP/1. They get one answer in
//! their own language, which says where to go, before anything of HTTP/2 is written. Only plain connections are looked at: with
//! TLS, both sides agree on HTTP/2 before.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::Arrived;

/// Bytes of a request that are looked at: enough for its first line and the headers that a proxy sets.
const HEAD_BYTES: usize = 2048;
/// How long such a client may take to read its answer, and what it may still send meanwhile.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 256 * 1024;

/// For a call of gRPC that a proxy has passed on: the proxy hands the status to its caller.
const TO_A_CALL: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ngrpc-status: 12\r\n\
    grpc-message: gRPC needs HTTP/2 on all of its way, and a proxy passed this call on as HTTP/1: make it speak HTTP/2 to \
    plimsoll-server (nginx: grpc_pass)\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// For all others.
const TO_OTHERS: &str = "HTTP/1.1 426 Upgrade Required\r\nupgrade: h2c\r\nconnection: upgrade, close\r\n\
    content-type: text/plain\r\n\r\n\
    This port serves gRPC, over HTTP/2 alone. HTTP is served at http_listen: port 7411 where it was not set.\n";

/// Answers a client that begins with a request of HTTP/1, and gives back any other one.
pub(in crate::grpc) async fn turned_away(mut arrived: Arrived) -> Option<Arrived> {
    let mut head = [0; HEAD_BYTES];
    let bytes = arrived.io.inner().peek(&mut head).await;
    let answer = match head.get(..bytes) {
        Some(head) if is_http1(head) => {
            if is_call(head) {
                TO_A_CALL
            } else {
                TO_OTHERS
            }
        }
        _ => return Some(arrived),
    };
    tracing::info!(peer = %arrived.peer.address, "HTTP/1 came to the port for gRPC");
    let telling = async {
        arrived.io.write_all(answer.as_bytes()).await?;
        arrived.io.shutdown().await?;
        // closing with bytes unread would take the answer back
        let (mut left, mut buffer) = (LINGER_BYTES, [0; 4096]);
        while left > 0 {
            match arrived.io.read(&mut buffer).await? {
                0 => break,
                bytes => left = left.saturating_sub(bytes),
            }
        }
        Ok::<_, std::io::Error>(())
    };
    // a client that is gone needs no answer
    let _gone = timeout(LINGER, telling).await;
    None
}

/// The preface of HTTP/2 begins with `PRI`, a request of HTTP/1 with another method.
fn is_http1(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    !head.starts_with(b"PRI ") && (line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0"))
}

fn is_call(head: &[u8]) -> bool {
    String::from_utf8_lossy(head).to_ascii_lowercase().contains("content-type: application/grpc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_1_is_known_by_its_first_line() {
        assert!(is_http1(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert!(is_http1(b"POST /a HTTP/1.0\r\n"));
        for other in [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], b"", b"P", b"\x16\x03\x01", b"GET / HTT"] {
            assert!(!is_http1(other), "{other:?}");
        }
        assert!(is_call(b"POST /x HTTP/1.1\r\nContent-Type: application/grpc+proto\r\n\r\n"));
    }
}
