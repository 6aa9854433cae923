//! Who gets what: every rpc of the wire, asked by every role, about projects of its own and of others.

mod calls;

use calls::{About, Calls, HIDDEN};
use plimsoll_proto::v1 as pb;
use plimsoll_tests::{AccessFile, Sender, Site, batch, finish, hello};
use tonic::{Code, Status, transport::Channel};

use crate::foreign_facts::rpcs;

const ROLES: [&str; 5] = ["agent", "reader", "caller", "hook", "operator"];

/// An rpc, and the answers to a caller with the first role that it takes, about an own and a foreign project: a caller that may
/// see some projects, and one that may see all.
struct Row(&'static str, [Code; 2], [Code; 2]);

const YES: Code = Code::Ok;
const NO: Code = Code::PermissionDenied;
const UNKNOWN: Code = Code::NotFound;
const TABLE: [Row; 21] = [
    Row("Collector/Stream", [YES, NO], [YES, YES]),
    Row("Predictor/Predict", [YES, NO], [YES, YES]),
    // an error in the place of one answer
    Row("Predictor/PredictBatch", [YES, NO], [YES, YES]),
    // what is not the caller's is as if it were not there: the answer follows from the caller's own words
    Row("Predictor/ShouldRetry", [YES, YES], [YES, YES]),
    Row("Predictor/Explain", [YES, NO], [YES, YES]),
    // people correct causes, and see no attempt of another project
    Row("Predictor/CorrectVerdict", [YES, UNKNOWN], [YES, YES]),
    // of the caller itself
    Row("Introspection/GetServer", [YES, YES], [YES, YES]),
    Row("Stats/GetStats", [YES, NO], [YES, YES]),
    Row("Stats/ListAttempts", [YES, NO], [YES, YES]),
    Row("Stats/GetAttempt", [YES, Code::NotFound], [YES, YES]),
    Row("Stats/Recommend", [YES, NO], [YES, YES]),
    // it is over all projects, and cannot name one
    Row("Stats/Watch", [NO, NO], [YES, YES]),
    // these are of pools, which all projects share
    Row("Placement/GetPools", [YES, YES], [YES, YES]),
    Row("Placement/GetDemand", [YES, YES], [YES, YES]),
    Row("Placement/OpenTicket", [YES, NO], [YES, YES]),
    // a ticket is for the caller that opened it
    Row("Placement/WatchTicket", [YES, UNKNOWN], [YES, NO]),
    Row("Placement/CloseTicket", [YES, UNKNOWN], [YES, NO]),
    Row("ExternalScaler/IsActive", [YES, YES], [YES, YES]),
    Row("ExternalScaler/StreamIsActive", [YES, YES], [YES, YES]),
    Row("ExternalScaler/GetMetricSpec", [YES, YES], [YES, YES]),
    Row("ExternalScaler/GetMetrics", [YES, YES], [YES, YES]),
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
    _site: Site,
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
        Self { _site: site, channel, _streams: streams }
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
    for Row(rpc, of_some, of_all) in TABLE {
        let allowed = allowed(rpc);
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

/// The roles that may call an rpc, as the guide says.
fn allowed(rpc: &str) -> Vec<&'static str> {
    let guide = include_str!("../../../deploy/docs/security.md").lines();
    let rows = guide.skip_while(|line| *line != "| for | rpcs and paths |");
    let row = rows.take_while(|line| line.starts_with('|')).find(|row| row.contains(&format!("`{rpc}`")));
    let whom = row.and_then(|row| row.split('|').nth(1)).expect("its row");
    ROLES
        .into_iter()
        .filter(|role| whom.contains("any role") || whom.contains(&format!("`{role}`")))
        .collect()
}

fn code(answer: &Result<String, Status>) -> Code {
    answer.as_ref().map_or_else(Status::code, |_answer| Code::Ok)
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
