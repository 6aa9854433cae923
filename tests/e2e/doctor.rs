//! `plimsoll doctor` against real servers: each usual slip is one line that says what to change, and the program always ends.

use std::{fs, net::TcpListener, path::Path};

use plimsoll_tests::{Agent, Programs, Server};
use serde_json::Value;

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
fn doctor_names_common_configuration_mistakes() {
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
