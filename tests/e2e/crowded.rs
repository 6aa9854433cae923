//! Crowds at the HTTP port: idle connections, jobs and builds that wait for their tickets shut no one else out.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use plimsoll_tests::{
    AccessFile, Issuer, Server, Site, allow_open_files, eventually, figures::metric, http::bearer,
};
use serde_json::json;
use tokio::net::TcpSocket;

use crate::foreign_facts::GRANTS;

/// Each address of the crowd has so many idle connections.
const IDLE: (u8, usize) = (8, 400);
/// Each job waits so many times.
const WAITS_OF_JOBS: (u64, usize) = (20, 128);
const HONEST_WAITS: usize = 2000;
/// The test asks so many times for each answer.
const ROUNDS: usize = 20;
/// The address from which the test asks.
const OWN: u8 = 99;
/// Open files that the whole crowd needs. With less it is smaller, and so is the port.
const WHOLE: usize = 10_000;
const POOLS: &str = "[[pool]]\nname = \"p\"\nat_once = 4\ntags = [\"x\"]\n[[pool]]\nname = \"q\"\nat_once = 1\ntags = [\"y\"]\n";

struct Crowd {
    server: SocketAddr,
    open: Vec<TcpStream>,
}

impl Crowd {
    /// Another connection, from an address of this machine.
    async fn connect(&self, host: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
        let stream = socket.connect(self.server).await.unwrap().into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        // a server that never answers fails the test instead of stopping all of them
        stream.set_read_timeout(Some(Duration::from_mins(5))).unwrap();
        stream
    }

    /// Sends a request and leaves it there.
    async fn leave(&mut self, host: u8, request: &str) {
        let mut stream = self.connect(host).await;
        // the server may close it at any time
        let _closed = stream.write_all(request.as_bytes());
        self.open.push(stream);
    }

    /// The whole answer to a request, from the address of the test; empty if there is none.
    async fn answer(&self, request: &str) -> String {
        let mut stream = self.connect(OWN).await;
        let mut answer = String::new();
        let sent = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
        sent.map_or_else(|_closed| String::new(), |_bytes| answer)
    }

    async fn take(&self, token: &str, tag: &str) -> u32 {
        let tags = format!("<array><data><value><string>{tag}</string></value></data></array>");
        let taking = async || self.answer(&call(token, "takeTicket", &tags)).await;
        // the keys of the issuer may be on their way
        let taken = eventually("a ticket is taken", taking, |answer| answer.contains("<i4>")).await;
        let number = taken.split_once("<i4>").and_then(|(_, rest)| rest.split_once("</i4>"));
        number.unwrap().0.parse().unwrap()
    }
}

fn request(line: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
}

/// A call of Resalloc's client.
fn call(token: &str, method: &str, argument: &str) -> String {
    let body = format!(
        "<?xml version='1.0'?><methodCall><methodName>{method}</methodName><params><param><value>{argument}</value></param></params></methodCall>"
    );
    request("POST /RPC2", &(bearer(token) + "Content-Type: text/xml\r\n"), &body)
}

fn counted(server: &Server, name: &str) -> f64 {
    let metrics = plimsoll_tests::http::request(server.http, "GET", "/metrics", &bearer("all"), "").unwrap();
    metric(&metrics.body, name).unwrap_or_default()
}

#[tokio::test]
async fn crowded_connections_do_not_block_probes_or_hooks() {
    let files = usize::try_from(allow_open_files().unwrap()).unwrap().min(WHOLE);
    let scaled = |count: usize| (count * files / WHOLE).max(1);
    let issuer = Issuer::start().unwrap();
    let access = AccessFile::default()
        .issuer(&issuer.url, GRANTS)
        .token("copr", &["caller"], "")
        .token("hook", &["hook"], "")
        .token("all", &["reader"], "");
    let (connections, pools) = (scaled(1024).to_string(), ("--pools-file", POOLS));
    let files = [("--access-file", access.text()), pools];
    let site = Site::start_with(&files, &["--http-connections", &connections]).unwrap();
    let mut crowd = Crowd { server: site.server.http, open: Vec::new() };
    let mut tickets = Vec::new();
    for _ in 0..ROUNDS + 4 {
        tickets.push(crowd.take("copr", "x").await);
    }
    for job in 0..WAITS_OF_JOBS.0 {
        let token = issuer.token(1000 + job, json!({"ref_protected": "false"}));
        let wait = call(&token, "waitTicket", &format!("<int>{}</int>", crowd.take(&token, "y").await));
        // more than a job may have, also in a small crowd
        for _ in 0..scaled(WAITS_OF_JOBS.1).max(17) {
            crowd.leave(50, &wait).await;
        }
    }
    for n in 0..scaled(HONEST_WAITS) {
        let number = tickets[4 + n % ROUNDS];
        crowd.leave(60, &call("copr", "waitTicket", &format!("<int>{number}</int>"))).await;
    }
    for host in 1..=IDLE.0 {
        for _ in 0..scaled(IDLE.1) {
            crowd.leave(host, "").await;
        }
    }
    let hook = request(
        "POST /v1/collect",
        "X-Gitlab-Token: hook\r\nX-Gitlab-Event: Push Hook\r\nContent-Type: application/json\r\n",
        "{}",
    );
    let live = request("GET /livez", "", "");
    // the first four have the places
    for (round, number) in tickets.iter().take(ROUNDS).enumerate() {
        let close = call("copr", "closeTicket", &format!("<int>{number}</int>"));
        for (asked, part) in [(&live, "ok\n"), (&hook, "{}"), (&close, "<nil>")] {
            let answer = crowd.answer(asked).await;
            let is_answered = answer.starts_with("HTTP/1.1 200 ") && answer.contains(part);
            assert!(is_answered, "round {round}: {asked}: {answer}");
        }
    }
    // a build that waited has its place now, also if its client had to come back
    let wait = call("copr", "waitTicket", &format!("<int>{}</int>", tickets[ROUNDS]));
    let waited = async || crowd.answer(&wait).await;
    eventually("the next build has its place", waited, |answer| answer.contains("<string>p</string>")).await;
    // jobs never had more than a quarter
    let waiting = counted(&site.server, "plimsoll_ticket_waits{kind=\"job\"}");
    assert!(waiting <= f64::from(u32::try_from(scaled(1024) / 4).unwrap()));
    assert!(counted(&site.server, "plimsoll_ticket_waits_refused_total") > 0.0);
    assert!(counted(&site.server, "plimsoll_access_exceeded_total{kind=\"waits\"}") > 0.0);
    assert!(counted(&site.server, "plimsoll_http_connections_replaced_total") > 0.0);
}
