//! One number, told in one way: the same 200 random attempts through gRPC, the terminal, JSON, the page, the report and metrics.
//!
//! Expected words are made by the functions of the shared crate from the message that gRPC gives; that each view uses them, and that
//! messages agree with each other and with themselves, is what is tested.

mod attempts;
mod one;
mod sums;

use plimsoll_proto::v1::stats_client::StatsClient;
use plimsoll_tests::{Agent, Server, Site};
use scraper::Html;
use serde_json::Value;

/// Attempts that are delivered.
const ATTEMPTS: u64 = 200;

struct Numbers {
    server: Server,
    agent: Agent,
    _dir: tempfile::TempDir,
}

async fn site() -> Numbers {
    site_of(ATTEMPTS).await
}

/// A server with so many random attempts.
async fn site_of(random: u64) -> Numbers {
    let Site { dir, server, agent, .. } = Site::start().unwrap();
    attempts::deliver(&server, random).await;
    Numbers { server, agent, _dir: dir }
}

impl Numbers {
    fn output_of(&self, words: &[&str]) -> String {
        let answer = self.agent.call(words);
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{words:?}");
        answer.stdout
    }

    /// The text of a page, each run of white space one space.
    fn page(&self, path: &str) -> String {
        let answer = self.server.send("GET", path, "Accept: text/html\r\n", "").unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let text: Vec<String> =
            Html::parse_document(&answer.body).root_element().text().map(str::to_owned).collect();
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

/// The text contains each part.
fn has(text: &str, parts: &[String], what: &str) {
    for part in parts {
        assert!(text.contains(part.as_str()), "{what}: {part:?} in {text}");
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-3)
}
