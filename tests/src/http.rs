//! HTTP/1.1 as a bare client and a bare server speak it: one request on each connection.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::Context as _;

/// Longest pause in an answer.
const ANSWER_WITHIN: Duration = Duration::from_mins(5);

/// An answer.
#[derive(Debug, Clone)]
pub struct HttpAnswer {
    /// Its status.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// What follows them.
    pub body: String,
}

impl HttpAnswer {
    /// All of it.
    pub fn text(&self) -> String {
        format!("{}\r\n\r\n{}", self.head, self.body)
    }
}

/// Sends these bytes, and reads the answer.
pub fn send(address: SocketAddr, request: &[u8]) -> anyhow::Result<HttpAnswer> {
    let mut stream = TcpStream::connect(address)?;
    // a server that never answers fails a test instead of stopping all of them
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    // a server that refuses may close before all is written
    let _refused = stream.write_all(request);
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok(HttpAnswer { status, head: head.to_owned(), body: body.to_owned() })
}

/// Sends a request; `headers` are further ones, each with its end.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> anyhow::Result<HttpAnswer> {
    let length = if method == "GET" { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}{length}Connection: close\r\n\r\n");
    send(address, [head.as_bytes(), body.as_bytes()].concat().as_slice())
}

/// The header of a bearer token.
pub fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// Answers each request by its head, with a status, further headers and a body; gives the address and the heads. The thread ends with the
/// process.
pub fn answer_each(
    answer: impl Fn(&str) -> (u16, String, String) + Send + 'static,
) -> anyhow::Result<(SocketAddr, mpsc::Receiver<String>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let (asked, requests) = mpsc::channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                head.extend(byte);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let (status, headers, body) = answer(&head);
            let length = body.len();
            // one that is gone needs no answer
            let _gone = write!(
                stream,
                "HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n{headers}Connection: close\r\n\r\n{body}"
            );
            let _done = asked.send(head);
        }
    });
    Ok((address, requests))
}
