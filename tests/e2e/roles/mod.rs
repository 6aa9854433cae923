//! Who gets what: every rpc of the wire, asked by every role, about projects of its own and of others, and the paths of HTTP. The tables are
//! written by hand: a change of who may call what fails here. A path without a row of its own is for readers.

mod calls;

use calls::{About, Calls, HIDDEN};
use plimsoll_proto::v1 as pb;
use plimsoll_tests::{AccessFile, Sender, Site, batch, finish, hello, http::bearer};
use tonic::{Code, Status, transport::Channel};

use crate::foreign_facts::{paths, rpcs};

const ROLES: [&str; 5] = ["agent", "reader", "caller", "hook", "operator"];

/// An rpc, the roles of which one is enough, and the answers to a caller with the first of them, about an own and a foreign project: a caller
/// that may see some projects, and one that may see all.
struct Row(&'static str, &'static [&'static str], [Code; 2], [Code; 2]);

const AGENT: &[&str] = &["agent"];
const READER: &[&str] = &["reader"];
const CALLER: &[&str] = &["caller"];
const OPERATOR: &[&str] = &["operator"];
/// Of a ticket: whose it is, is checked afterwards.
const OWNER: &[&str] = &["caller", "operator"];

/// Requests to the HTTP port, and the roles of which one is enough; none: open also to callers without a token.
const PATHS: [(&str, &str, &[&str]); 14] = [
    ("GET", "/livez", &[]),
    ("GET", "/readyz", &[]),
    ("GET", "/readyz/reads", &[]),
    ("GET", "/agent/sha256sums", &[]),
    ("GET", "/v1/allocation?spec=zlib@1", CALLER),
    ("POST", "/v1/collect", &["hook"]),
    ("GET", "/metrics", READER),
    ("GET", "/", READER),
    ("GET", "/attempts", READER),
    ("GET", "/api/stats", READER),
    ("POST", "/attempts/other-1", OPERATOR),
    ("GET", "/admin/backup", OPERATOR),
    ("POST", "/RPC2", CALLER),
    ("POST", "/", CALLER),
];

/// Their answers are over all projects.
const OVER_ALL: [&str; 2] = ["/metrics", "/admin/backup"];

const YES: Code = Code::Ok;
const NO: Code = Code::PermissionDenied;
const UNKNOWN: Code = Code::NotFound;
const TABLE: [Row; 21] = [
    Row("Collector/Stream", AGENT, [YES, NO], [YES, YES]),
    Row("Predictor/Predict", CALLER, [YES, NO], [YES, YES]),
    // an error in the place of one answer
    Row("Predictor/PredictBatch", CALLER, [YES, NO], [YES, YES]),
    // what is not the caller's is as if it were not there: the answer follows from the caller's own words
    Row("Predictor/ShouldRetry", CALLER, [YES, YES], [YES, YES]),
    Row("Predictor/Explain", CALLER, [YES, NO], [YES, YES]),
    // people correct causes, and see no attempt of another project
    Row("Predictor/CorrectVerdict", OPERATOR, [YES, UNKNOWN], [YES, YES]),
    // of the caller itself
    Row("Introspection/GetServer", &ROLES, [YES, YES], [YES, YES]),
    Row("Stats/GetStats", READER, [YES, NO], [YES, YES]),
    Row("Stats/ListAttempts", READER, [YES, NO], [YES, YES]),
    Row("Stats/GetAttempt", READER, [YES, Code::NotFound], [YES, YES]),
    Row("Stats/Recommend", READER, [YES, NO], [YES, YES]),
    // it is over all projects, and cannot name one
    Row("Stats/Watch", READER, [NO, NO], [YES, YES]),
    // these are of pools, which all projects share
    Row("Placement/GetPools", READER, [YES, YES], [YES, YES]),
    Row("Placement/GetDemand", READER, [YES, YES], [YES, YES]),
    Row("Placement/OpenTicket", CALLER, [YES, NO], [YES, YES]),
    // a ticket is for the caller that opened it
    Row("Placement/WatchTicket", OWNER, [YES, UNKNOWN], [YES, NO]),
    Row("Placement/CloseTicket", OWNER, [YES, UNKNOWN], [YES, NO]),
    Row("ExternalScaler/IsActive", READER, [YES, YES], [YES, YES]),
    Row("ExternalScaler/StreamIsActive", READER, [YES, YES], [YES, YES]),
    Row("ExternalScaler/GetMetricSpec", READER, [YES, YES], [YES, YES]),
    Row("ExternalScaler/GetMetrics", READER, [YES, YES], [YES, YES]),
];

/// All that a refusal tells.
fn refusal(status: &Status) -> String {
    let details = String::from_utf8_lossy(status.details());
    format!("{:?} {} {details}", status.code(), status.message())
}

/// Callers with one role, for the projects of `own` (`ROLE`), or for all (`ROLE-of-all`); the name is the token.
fn access() -> AccessFile {
    let of_all = AccessFile::default().token("another", &["agent", "caller"], "trusted = true");
    ROLES.iter().fold(of_all, |access, role| {
        access.token(role, &[role], "projects = [\"own/*\"]\ntrusted = true").token(
            &format!("{role}-of-all"),
            &[role],
            "trusted = true",
        )
    })
}

/// A server with an attempt and a ticket of either project.
struct Asked {
    site: Site,
    channel: Channel,
    /// Of attempts that run.
    _streams: Vec<Sender>,
}

impl Asked {
    async fn start() -> Self {
        let pools = "[[pool]]\nname = \"big\"\non_demand = true\n";
        let site =
            Site::start_with(&[("--access-file", access().text()), ("--pools-file", pools)], &[]).unwrap();
        let channel = site.connect().await.unwrap();
        let mut streams = Vec::new();
        for about in [About::OWN, About::FOREIGN] {
            streams.push(run(&channel, about).await);
            let calls = Calls { channel: channel.clone(), token: "another" };
            calls.call("Placement/OpenTicket", about).await.unwrap();
        }
        Self { site, channel, _streams: streams }
    }

    fn calls(&self, token: &'static str) -> Calls {
        Calls { channel: self.channel.clone(), token }
    }
}

/// An attempt that ended, and the stream of another one that runs.
async fn run(channel: &Channel, about: About) -> Sender {
    let mut stream = Sender::open_as(channel.clone(), "another").await.unwrap();
    for (attempt, ends) in [(about.attempt, true), (about.running, false)] {
        let opening = hello(attempt, "zlib");
        let opening = pb::Hello { key: Some(about.key()), ..opening };
        stream.exchange(opening).await.unwrap();
        stream.exchange(batch(attempt, 1, 3)).await.unwrap();
        if ends {
            stream.close(finish(attempt, 3, Some(1))).await.unwrap();
        }
    }
    stream
}

#[test]
fn every_rpc_of_the_wire_has_its_row() {
    let mut rows: Vec<String> = TABLE.iter().map(|row| row.0.to_owned()).collect();
    rows.sort();
    assert_eq!(rpcs(), rows, "say in the table who may call what is new");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rpc_enforces_roles_and_projects() {
    let site = Asked::start().await;
    let mut answered = 0;
    for Row(rpc, allowed, of_some, of_all) in TABLE {
        let role = allowed[0];
        let anonymous = site.calls("").call(rpc, About::OWN).await;
        assert_eq!(code(&anonymous), Code::Unauthenticated, "no token, {rpc}: {anonymous:?}");
        let unknown = site.calls("made-up").call(rpc, About::OWN).await;
        assert_eq!(code(&unknown), Code::Unauthenticated, "an unknown token, {rpc}: {unknown:?}");
        for other in ROLES.into_iter().filter(|other| *other != role) {
            let refused = site.calls(other).call(rpc, About::OWN).await;
            let expected = answer_to(allowed.contains(&other));
            assert_eq!(code(&refused), expected, "{other}, {rpc}: {refused:?}");
            let refused = refused.err();
            let says_why = refused.is_none_or(|refused| refused.message().contains("lacks the role"));
            assert!(says_why, "{other}, {rpc}");
        }
        for (about, expected) in [About::OWN, About::FOREIGN].into_iter().zip(of_some) {
            let about = site.calls(role).prepared(rpc, about).await;
            let answer = site.calls(role).call(rpc, about).await;
            assert_eq!(code(&answer), expected, "{role} of {}, {rpc}: {answer:?}", about.project);
            assert!(!format!("{answer:?}").contains(HIDDEN), "{rpc} tells of another project: {answer:?}");
        }
        let all = format!("{role}-of-all").leak();
        for (about, expected) in [About::OWN, About::FOREIGN].into_iter().zip(of_all) {
            let about = site.calls(all).prepared(rpc, about).await;
            let answer = site.calls(all).call(rpc, about).await;
            assert_eq!(code(&answer), expected, "{all} of {}, {rpc}: {answer:?}", about.project);
            answered += u32::from(format!("{answer:?}").contains(HIDDEN));
        }
    }
    assert!(answered >= 4, "else nothing was hidden: {answered}");
}

const fn answer_to(is_allowed: bool) -> Code {
    if is_allowed { YES } else { NO }
}

fn code(answer: &Result<String, Status>) -> Code {
    answer.as_ref().map_or_else(Status::code, |_answer| Code::Ok)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_path_enforces_its_roles() {
    let site = Asked::start().await;
    let http = site.site.server.http;
    let rows = |path: &String| PATHS.iter().any(|(_, row, _)| row.split('?').next() == Some(path));
    let named = |path: String| {
        path.split('{').map(|part| part.rsplit('}').next().unwrap()).collect::<Vec<_>>().join("x")
    };
    let others: Vec<String> = paths().into_iter().map(named).filter(|path| !rows(path)).collect();
    // the webhook is served on a listener of its own; the sizes of a package need a second role
    let apart = ["/admit", "/agent/", "/api/packages/"];
    let others = others.iter().filter(|path| !apart.iter().any(|start| path.starts_with(start)));
    let all = PATHS.into_iter().chain(others.map(|path| ("GET", path.as_str(), READER)));
    for (method, path, allowed) in all {
        // as the form on the page of an attempt says that it is of this server
        let status = |token: &str| {
            let headers = format!("Sec-Fetch-Site: same-origin\r\n{token}");
            plimsoll_tests::http::request(http, method, path, &headers, "").unwrap().status
        };
        let refused = if allowed.is_empty() { None } else { Some(401) };
        assert_eq!(Some(status("")).filter(|status| [401, 403].contains(status)), refused, "{method} {path}");
        for role in ROLES {
            let of_all = status(&bearer(&format!("{role}-of-all")));
            let refused = !allowed.is_empty() && !allowed.contains(&role);
            let found = Some(of_all).filter(|status| [401, 403].contains(status));
            assert_eq!(found, refused.then_some(403), "{role}: {method} {path}: {of_all}");
        }
        if OVER_ALL.contains(&path) {
            assert_eq!(status(&bearer(allowed[0])), 403, "a caller that may see some projects: {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_backup_goes_through_a_proxy() {
    let site = Asked::start().await;
    let status = |more: &str| {
        let headers = format!("{more}{}", bearer("operator-of-all"));
        plimsoll_tests::http::request(site.site.server.http, "GET", "/admin/backup", &headers, "")
            .unwrap()
            .status
    };
    assert_eq!(status(""), 200);
    for proxied in ["X-Forwarded-For: 127.0.0.1\r\n", "Forwarded: for=127.0.0.1\r\n", "Via: 1.1 proxy\r\n"] {
        assert_eq!(status(proxied), 403, "{proxied}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_attempt_looks_absent_to_judging() {
    let site = Asked::start().await;
    let key = |project: &str| Some(pb::Key { project: project.to_owned(), ..About::OWN.key() });
    let exit = Some(pb::Exit { code: Some(1), signal: None });
    let questions = [
        pb::ShouldRetryRequest::default(),
        pb::ShouldRetryRequest { exit, ..Default::default() },
        pb::ShouldRetryRequest { key: key("own/one"), ..Default::default() },
        pb::ShouldRetryRequest { key: key("own/one"), exit, ..Default::default() },
        pb::ShouldRetryRequest { key: key("foreign/one"), exit, ..Default::default() },
        pb::ShouldRetryRequest {
            key: key("own/one"),
            log_tail: b"x.c:1:1: error: 'foo' undeclared\n".to_vec(),
            number: 3,
            ..Default::default()
        },
    ];
    let mut answered = 0;
    for question in questions {
        let ask = async |attempt: &str| {
            let question = pb::ShouldRetryRequest { attempt: attempt.into(), ..question.clone() };
            let answer = site.calls("caller").judge(question).await;
            let shown = answer.as_ref().map_or_else(refusal, |verdict| format!("{verdict:?}"));
            (shown.replace(attempt, "ID"), answer.is_ok())
        };
        // as long as the others: details hold its length
        let (absent, is_answer) = ask("never-0").await;
        for attempt in [About::FOREIGN.attempt, About::FOREIGN.running] {
            assert_eq!(ask(attempt).await.0, absent, "{question:?}");
        }
        answered += u32::from(is_answer);
    }
    assert_eq!(answered, 2, "those that say their project and how it ended");
}
