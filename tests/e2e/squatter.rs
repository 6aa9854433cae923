//! A caller with a token that proves no job guesses the id of another job: that job has its attempt and its ticket all the same.

use plimsoll_proto::v1::{self as pb, placement_client::PlacementClient, stats_client::StatsClient};
use plimsoll_tests::{Issuer, Sender, Site, batch, finish, hello, with_token as with};
use serde_json::Value;
use tonic::{Code, Status};

use crate::{access::TOKENS, tenants::sha256};

const GRANTS: &str = r#"
    kind = "gitlab"
    audience = "plimsoll"

    [[issuer.grant]]
    roles = ["agent", "caller", "reader"]
    trusted = true
"#;
/// A token that no job is named in, which may write and ask for everything.
const SQUATTER: &str = "runner-secret";

struct Squatted {
    issuer: Issuer,
    site: Site,
}

impl Squatted {
    fn start() -> Self {
        let issuer = Issuer::start().unwrap();
        let root =
            format!("[[token]]\nname = \"of-all\"\nsha256 = \"{}\"\nroles = [\"reader\"]\n", sha256("all"));
        let access = format!("{TOKENS}{root}[[issuer]]\nissuer = \"{}\"\n{GRANTS}", issuer.url);
        Self { site: Site::start_with(&[("--access-file", &access)], &[]).unwrap(), issuer }
    }

    /// The server is killed, and starts again.
    fn killed(self) -> Self {
        Self { site: self.site.killed().unwrap(), ..self }
    }

    async fn stream(&self, token: &str) -> Sender {
        self.site.stream(token).await.unwrap()
    }

    async fn shown(&self, attempt: &str) -> pb::Summary {
        let mut stats = StatsClient::connect(self.site.server.url()).await.unwrap();
        let asked = pb::GetAttemptRequest { attempt: attempt.to_owned(), ..Default::default() };
        stats.get_attempt(with("all", asked)).await.unwrap().into_inner().summary.unwrap()
    }

    async fn ticket(&self, token: &str, id: &str) -> Result<pb::Ticket, Status> {
        let mut placement = PlacementClient::connect(self.site.server.url()).await.unwrap();
        let key = pb::Key { project: "spack/packages".into(), package: "zlib".into(), ..pb::Key::default() };
        let asked = pb::OpenTicketRequest { ticket: id.to_owned(), key: Some(key), ..Default::default() };
        Ok(placement.open_ticket(with(token, asked)).await?.into_inner().ticket.unwrap())
    }
}

/// The same with a session of its own.
fn greeting(attempt: &str, session: &str) -> pb::Hello {
    let hello = hello(attempt, "zlib");
    let key = pb::Key { project: "not/his".into(), ..hello.key.clone().unwrap() };
    pb::Hello { session: session.to_owned(), key: Some(key), ..hello }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_attempt_is_measured_even_if_another_caller_used_its_id_before() {
    let site = Squatted::start();
    let (open, ended) = ("127.0.0.1:1", "127.0.0.1:2");
    let mut squatter = site.stream(SQUATTER).await;
    for attempt in [open, ended] {
        squatter.exchange(greeting(attempt, "squatter")).await.unwrap();
        assert_eq!(squatter.exchange(batch(attempt, 1, 5)).await.unwrap(), 5);
    }
    squatter.exchange(finish(ended, 5, Some(0))).await.unwrap();
    assert_eq!(site.shown(ended).await.key.unwrap().project, "not/his");

    // what came before is of no use after a kill either
    let site = site.killed();
    let mut squatter = site.stream(SQUATTER).await;
    assert_eq!(squatter.exchange(greeting(open, "squatter")).await.unwrap(), 5);
    for (attempt, job) in [(open, 1), (ended, 2)] {
        let mut own = site.stream(&site.issuer.token(job, Value::Null)).await;
        assert_eq!(own.exchange(greeting(attempt, "own")).await.unwrap(), 0, "nothing of it came yet");
        assert_eq!(own.exchange(batch(attempt, 1, 3)).await.unwrap(), 3);
    }
    let refused = squatter.exchange(batch(open, 6, 1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists, "{refused}");
    assert!(refused.message().contains("own agent has proven that"), "{refused}");
    let mut squatter = site.stream(SQUATTER).await;
    let refused = squatter.exchange(greeting(open, "squatter")).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists, "{refused}");
    let log = site.site.server.log().unwrap();
    let lines = log
        .lines()
        .filter(|line| line.contains("dropped an attempt that another caller opened under a job's id"));
    assert_eq!(lines.filter(|line| line.contains("plimsoll_server::audit")).count(), 2, "{log}");

    let site = site.killed();
    for (attempt, job) in [(open, 1), (ended, 2)] {
        let mut own = site.stream(&site.issuer.token(job, Value::Null)).await;
        assert_eq!(own.exchange(greeting(attempt, "own")).await.unwrap(), 3);
        own.exchange(finish(attempt, 3, Some(0))).await.unwrap();
        let summary = site.shown(attempt).await;
        assert_eq!((summary.samples, summary.untrusted), (3, false));
        let key = summary.key.unwrap();
        assert_eq!((&*key.project, &*key.owner), ("spack/packages", "eve"), "as its token says");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_ticket_is_its_own_even_if_another_caller_used_its_id_before() {
    let site = Squatted::start();
    let (id, job) = ("127.0.0.1:1", site.issuer.token(1, Value::Null));
    drop(site.stream(&job).await);
    site.ticket(SQUATTER, id).await.unwrap();
    let stranger = site.ticket(&site.issuer.token(2, Value::Null), id).await.unwrap_err();
    assert_eq!(stranger.code(), Code::AlreadyExists, "another job's caller proves nothing of this one");
    assert_eq!(site.ticket(&job, id).await.unwrap().ticket, id);
    assert_eq!(site.ticket(SQUATTER, id).await.unwrap_err().code(), Code::AlreadyExists);
    let site = site.killed();
    drop(site.stream(&job).await);
    assert_eq!(site.ticket(SQUATTER, id).await.unwrap_err().code(), Code::AlreadyExists);
    assert!(site.ticket(&job, id).await.is_ok(), "it is the same ticket as before");
}
