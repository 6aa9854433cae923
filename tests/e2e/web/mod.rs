//! The web page: pages are well-formed, hold nothing that a build said as anything but text, say what is wrong with a bad
//! address, and work in a real browser. The README's picture is one of them.

mod browser;
mod pages;
mod picture;
mod wrong;

use std::collections::HashMap;

use plimsoll_proto::v1 as pb;
use plimsoll_tests::{Sender, Server, batch, finish, hello, http::HttpAnswer};
use scraper::{Html, Selector};

/// A name that is a script where it is not escaped.
const HOSTILE: &str = "<script>alert('x')</script>&amp;\"";

/// An id with everything that an id may hold.
const ODD_ID: &str = "gitlab.example.com:12/3.2_x-y";

/// What a browser gets; the names of headers in small letters.
fn get(server: &Server, path: &str) -> HttpAnswer {
    let answer = server.send("GET", path, "Accept: text/html\r\n", "").unwrap();
    HttpAnswer { head: answer.head.to_ascii_lowercase(), ..answer }
}

/// A page that is there, read as a browser reads it.
fn page(server: &Server, path: &str) -> Html {
    let answer = get(server, path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    Html::parse_document(&answer.body)
}

/// The texts of all elements that a selector finds.
fn texts(page: &Html, selector: &str) -> Vec<String> {
    let selector = Selector::parse(selector).unwrap();
    page.select(&selector).map(|found| found.text().collect::<String>().trim().to_owned()).collect()
}

/// An attribute of all elements that a selector finds; empty for those without it.
fn attributes(page: &Html, selector: &str, name: &str) -> Vec<String> {
    let selector = Selector::parse(selector).unwrap();
    page.select(&selector).map(|found| found.attr(name).unwrap_or_default().to_owned()).collect()
}

/// A server with attempts of three packages, one of them with a hostile name, one failed, one that still runs.
async fn start() -> (tempfile::TempDir, Server) {
    let (dir, server) = Server::fresh(&[]).unwrap();
    for (attempt, package, samples) in [("a1", "zlib", 3), ("a2", "zlib", 6), (ODD_ID, "hdf5", 40)] {
        deliver(&server, hello(attempt, package), attempt, samples, Some(0)).await;
    }
    let mut odd = hello("odd", HOSTILE);
    let key = odd.key.as_mut().unwrap();
    (key.owner, key.version, key.project) = (HOSTILE.into(), HOSTILE.into(), HOSTILE.into());
    key.labels = HashMap::from([(HOSTILE.to_owned(), HOSTILE.to_owned())]);
    odd.resources = Some(pb::Resources { memory_limit_bytes: Some(8 << 20), ..pb::Resources::default() });
    deliver(&server, odd, "odd", 5, Some(1)).await;
    let mut running = Sender::opened(&server.url(), "now", "llvm").await.unwrap();
    running.exchange(batch("now", 1, 3)).await.unwrap();
    (dir, server)
}

async fn deliver(server: &Server, hello: pb::Hello, attempt: &str, samples: u64, code: Option<i32>) {
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    stream.exchange(hello).await.unwrap();
    stream.exchange(batch(attempt, 1, samples)).await.unwrap();
    let mut end = finish(attempt, samples, code);
    end.phases = vec![
        pb::Phase { name: "configure".into(), started_ms: 0, wall_ms: 1000, ..pb::Phase::default() },
        pb::Phase {
            name: HOSTILE.into(),
            started_ms: 1000,
            wall_ms: samples * 1000 - 1000,
            ..pb::Phase::default()
        },
    ];
    stream.exchange(end).await.unwrap();
}
