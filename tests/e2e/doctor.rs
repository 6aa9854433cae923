//! `plimsoll doctor` against real servers: each usual slip is one line that says what to change, and the program always ends.

use std::{fs, net::TcpListener, path::Path};

use plimsoll_tests::{Agent, Programs, Server};
use serde_json::Value;

use crate::access::{signed, tokens};

fn tls_server(dir: &Path, name: &str) -> Server {
    let file = |end: &str| dir.join(format!("{name}.{end}")).display().to_string();
    let access = dir.join("access.toml").display().to_string();
    let (chain, key) = (file("crt"), file("key"));
    let options = ["--access-file", &access, "--tls-cert-file", &chain, "--tls-key-file", &key];
    Server::start_with(Programs::for_tests(), &dir.join(format!("{name}-data")), &options).unwrap()
}

/// What is found: the exit status, and of each check its state and its words.
struct Found {
    status: Option<i32>,
    lines: Vec<(String, String, String)>,
}

impl Found {
    fn at(agent: &Agent, options: &[&str]) -> Self {
        let answer = agent.call(&[&["doctor", "-o", "json"][..], options].concat());
        let lines: Result<Vec<Value>, _> = serde_json::from_str(&answer.stdout);
        assert!(lines.is_ok(), "{answer:?}");
        let lines = lines.unwrap();
        let text = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
        let lines = lines.iter().map(|line| (text(line, "check"), text(line, "state"), text(line, "says")));
        Self { status: answer.code, lines: lines.collect() }
    }

    fn line(&self, check: &str) -> (&str, &str) {
        let line = self.lines.iter().find(|line| line.0 == check);
        assert!(line.is_some(), "no {check}: {:?}", self.lines);
        let (_, state, says) = line.unwrap();
        (state, says)
    }

    #[track_caller]
    fn has(&self, check: &str, state: &str, words: &str) -> &Self {
        let (is, says) = self.line(check);
        assert!(is == state && says.contains(words), "{check}: {is} {says}");
        let failed = self.lines.iter().any(|line| line.1 == "fail");
        assert_eq!(self.status, Some(i32::from(failed)), "{:?}", self.lines);
        // what is of this machine is checked whatever the server says
        for own in ["cgroup", "limits", "spool", "phases"] {
            if self.line("cgroup").0 != "fail" {
                self.line(own);
            }
        }
        self
    }
}

fn agent(server: &str, dir: &Path) -> Agent {
    Agent::new(Programs::for_tests(), server, &dir.join("spool"))
}

#[test]
fn a_server_in_plain_text_is_found_and_the_usual_slips_around_it_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Programs::for_tests(), &dir.path().join("data")).unwrap();
    let good = Found::at(&agent(&server.url(), dir.path()), &[]);
    good.has("address", "ok", "takes connections").has("TLS", "ok", "on this machine");
    good.has("server", "ok", "plimsoll-server 0.")
        .has("token", "ok", "no access file")
        .has("clock", "ok", "");
    good.has("spool", "ok", "64 MiB");
    // a person sees the same lines
    let text = agent(&server.url(), dir.path()).call(&["doctor"]);
    assert!(text.stdout.starts_with("ok    address  http://127.0.0.1:"), "{text:?}");
    let left: Vec<_> = fs::read_dir(dir.path().join("spool")).unwrap().collect();
    assert!(left.is_empty(), "nothing stays behind: {left:?}");

    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    Found::at(&agent(&format!("http://{free}"), dir.path()), &[]).has(
        "address",
        "fail",
        "connection refused",
    );
    Found::at(&agent("ftp://ci", dir.path()), &[]).has("address", "fail", "expected http://HOST:PORT");
    Found::at(&agent(&format!("http://{}", server.http), dir.path()), &[]).has("server", "fail", "gRPC");
    let over_tls = format!("https://localhost:{}", server.grpc.port());
    Found::at(&agent(&over_tls, dir.path()), &[]).has("server", "fail", "speaks no TLS there");
    Found::at(&agent("none", dir.path()), &[]).has("server", "ok", "nothing is delivered");

    fs::write(dir.path().join("file"), "").unwrap();
    let below_a_file = dir.path().join("file/spool").display().to_string();
    let unusable = Found::at(&agent(&server.url(), dir.path()), &["--spool-dir", &below_a_file]);
    unusable.has("spool", "warn", "name another --spool-dir");
}

#[test]
fn tls_tokens_and_certificates_each_have_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::write(dir.path().join("access.toml"), tokens().text()).unwrap();
    for (name, year) in [("good", 2099), ("over", 2020)] {
        signed(dir.path(), &format!("{name}.ca"), &[(name, "localhost", year)]);
    }
    let server = tls_server(dir.path(), "good");
    let url = format!("https://localhost:{}", server.grpc.port());
    let ca = path("good.ca");
    let with = |token: &str| {
        let agent = agent(&url, dir.path());
        if token.is_empty() { agent } else { agent.with("PLIMSOLL_TOKEN", token) }
    };
    let good = Found::at(&with("runner-secret"), &["--ca", &ca]);
    good.has("TLS", "ok", "good until 2099-01-01").has("server", "ok", "plimsoll-server");
    good.has("token", "ok", "that of runner: agent, caller for every project");
    let reader = Found::at(&with("reader-secret"), &["--ca", &ca]);
    reader.has("token", "warn", "without the role agent, samples are refused");
    Found::at(&with(""), &["--ca", &ca]).has("token", "fail", "--token-file or PLIMSOLL_TOKEN");
    let wrong = Found::at(&with("wrong-secret"), &["--ca", &ca]);
    wrong.has("token", "fail", "");
    assert!(!wrong.line("token").1.contains("wrong-secret"), "a token is never shown");
    let missing = Found::at(&with(""), &["--ca", &ca, "--token-file", &path("missing")]);
    missing.has("token", "fail", "cannot read");

    let other = Found::at(&with("runner-secret"), &["--ca", &path("over.ca")]);
    other.has("TLS", "ok", "good until").has("server", "fail", "name its CA with --ca FILE");
    let plain = agent(&url.replace("https", "http"), dir.path());
    Found::at(&plain, &[]).has("server", "fail", "a port with TLS needs https://");
    let unreadable = Found::at(&with(""), &["--ca", &path("missing.pem")]);
    unreadable.has("address", "fail", "--ca");

    let over = tls_server(dir.path(), "over");
    let at = agent(&format!("https://localhost:{}", over.grpc.port()), dir.path());
    let ended = Found::at(&at, &["--ca", &path("over.ca")]);
    ended.has("TLS", "fail", "ended at 2020-01-01").has("server", "fail", "has expired");
}

#[test]
fn a_server_that_accepts_and_says_nothing_holds_the_doctor_up_for_a_bounded_time() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for scheme in ["http", "https"] {
        Found::at(&agent(&format!("{scheme}://localhost:{}", address.port()), dir.path()), &[]).has(
            "server",
            "fail",
            "no server at",
        );
    }
}
