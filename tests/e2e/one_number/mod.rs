//! One number, told in one way: the same 200 random attempts through gRPC, the terminal, JSON, the page, the report and metrics.
//!
//! Expected words are made by the functions of the shared crate from the message that gRPC gives; that each view uses them, and that
//! messages agree with each other and with themselves, is what is tested.

mod attempts;
mod one;
mod sums;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use plimsoll_proto::v1::stats_client::StatsClient;
use plimsoll_tests::{Agent, Programs, Server};
use scraper::Html;
use serde_json::Value;

/// Attempts that are delivered.
const ATTEMPTS: u64 = 200;

struct Site {
    _dir: tempfile::TempDir,
    server: Server,
    agent: Agent,
}

async fn site() -> Site {
    site_of(ATTEMPTS).await
}

/// A server with so many random attempts.
async fn site_of(random: u64) -> Site {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Programs::for_tests(), &dir.path().join("data")).unwrap();
    let agent = Agent::new(Programs::for_tests(), server.url(), &dir.path().join("spool"));
    attempts::deliver(&server, random).await;
    Site { _dir: dir, server, agent }
}

impl Site {
    fn output_of(&self, words: &[&str]) -> String {
        let answer = self.agent.call(words);
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{words:?}");
        answer.stdout
    }

    /// The text of a page, each run of white space one space.
    fn page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.server.http).unwrap();
        let head = "Host: localhost\r\nAccept: text/html\r\nConnection: close\r\n\r\n";
        write!(stream, "GET {path} HTTP/1.1\r\n{head}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let text: Vec<String> = Html::parse_document(body).root_element().text().map(str::to_owned).collect();
        text.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn api(&self, path: &str) -> Value {
        let (status, body) = self.server.get(path).unwrap();
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    async fn stats(&self) -> StatsClient<tonic::transport::Channel> {
        StatsClient::connect(self.server.url()).await.unwrap()
    }
}

/// Each part stands in the text.
fn has(text: &str, parts: &[String], what: &str) {
    for part in parts {
        assert!(text.contains(part.as_str()), "{what}: {part:?} in {text}");
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-3)
}
