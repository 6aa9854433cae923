//! Jobs whose tokens are good, and what they cannot do with them: an attacker who forges in every way the wire allows.

use std::{fs, process::Stdio};

use plimsoll_proto::v1::{self as pb, placement_client::PlacementClient, stats_client::StatsClient};
use plimsoll_tests::{AccessFile, Issuer, Site, batch, eventually, finish, hello, with_token as ask};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::foreign_facts::GRANTS;

/// The job that is attacked.
const VICTIM: &str = "127.0.0.1:1";

/// A static token, which proves no job. It may write and ask for everything.
const SQUATTER: &str = "runner-secret";

/// With jobs' tokens.
struct Attacked {
    issuer: Issuer,
    site: Site,
}

impl Attacked {
    fn start() -> Self {
        let issuer = Issuer::start().unwrap();
        let access = AccessFile::default()
            .issuer(&issuer.url, GRANTS)
            .token(SQUATTER, &["agent", "caller"], "trusted = true")
            .token("all", &["reader"], "");
        Self { site: Site::start_with(&[("--access-file", access.text())], &[]).unwrap(), issuer }
    }
}

/// A Hello that claims all that the victim is.
fn forged(attempt: &str) -> pb::Hello {
    let (git_ref, owner) = ("main".to_owned(), "root".to_owned());
    let labels = [("trusted".to_owned(), "true".to_owned())].into();
    let (project, package) = ("spack/packages".to_owned(), "zlib".to_owned());
    pb::Hello {
        session: format!("s-{VICTIM}"),
        key: Some(pb::Key { project, package, r#ref: git_ref, owner, labels, ..pb::Key::default() }),
        retries: VICTIM.to_owned(),
        ..hello(attempt, "zlib")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_writes_is_stored_as_its_own_whatever_its_opening_claims() {
    let Attacked { issuer, site } = Attacked::start();
    let fork = json!({"project_path": "evil/fork", "ref_protected": "false", "user_login": "mallory"});
    let attacker = issuer.token(2, fork);
    let mut forger = site.stream(&attacker).await.unwrap();
    forger.build(forged("127.0.0.1:2"), 1, Some(0)).await.unwrap();
    let mut stats = StatsClient::new(site.connect().await.unwrap());
    let about = pb::GetAttemptRequest { attempt: "127.0.0.1:2".to_owned(), ..Default::default() };
    let answer = stats.get_attempt(ask(&attacker, about)).await.unwrap().into_inner();
    let summary = answer.summary.unwrap();
    let key = summary.key.unwrap();
    assert_eq!((&*key.project, &*key.r#ref, &*key.owner), ("evil/fork", "develop", "mallory"));
    assert!(summary.untrusted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_goes_on_without_loss_when_its_token_expires_and_a_new_one_is_in_the_file() {
    let Attacked { issuer, site } = Attacked::start();
    let file = site.dir.path().join("token");
    let reader = issuer.token(8, Value::Null);
    // so that the server has the issuer's keys
    drop(site.stream(&reader).await.unwrap());
    // good for half a minute: the server adds a minute by which clocks may differ
    let soon = plimsoll_tests::unix_now() - 60 + 30;
    fs::write(&file, issuer.token(7, json!({"exp": soon}))).unwrap();
    let release = site.dir.path().join("release");
    let waits = format!("while ! test -e {}; do sleep 0.1; done", release.display());
    let token_file = file.display().to_string();
    let words = [
        "run",
        "--patience",
        "2m",
        "--token-file",
        &token_file,
        "--attempt",
        "127.0.0.1:7",
        "--key",
        "package=p",
        "--",
        "sh",
        "-c",
        &waits,
    ];
    let build = site.agent.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let log = async || site.server.log().unwrap();
    eventually("the stream ends", log, |log| log.contains("a call that lasted")).await;
    let new_file = site.dir.path().join("token.new");
    fs::write(&new_file, issuer.token(7, Value::Null)).unwrap();
    fs::rename(&new_file, &file).unwrap();
    fs::write(&release, "").unwrap();
    let output = build.wait_with_output().unwrap();
    let seen = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !seen.contains("kept"), "{seen}");
    let mut stats = StatsClient::new(site.connect().await.unwrap());
    let about = pb::GetAttemptRequest { attempt: "127.0.0.1:7".to_owned(), ..Default::default() };
    let summary = stats.get_attempt(ask(&reader, about)).await.unwrap().into_inner().summary.unwrap();
    assert_eq!(summary.samples_lost, 0, "{summary:?}");
    assert!(summary.samples > 0);
}

/// What a caller who sees all projects is shown of an attempt.
async fn shown(site: &Site, attempt: &str) -> pb::Summary {
    let about = pb::GetAttemptRequest { attempt: attempt.to_owned(), ..Default::default() };
    let mut stats = StatsClient::new(site.connect().await.unwrap());
    stats.get_attempt(ask("all", about)).await.unwrap().into_inner().summary.unwrap()
}

async fn open_ticket(site: &Site, token: &str, id: &str) -> Result<pb::Ticket, Status> {
    let mut placement = PlacementClient::new(site.connect().await.unwrap());
    let key = pb::Key { project: "spack/packages".into(), package: "zlib".into(), ..pb::Key::default() };
    let request = pb::OpenTicketRequest { ticket: id.to_owned(), key: Some(key), ..Default::default() };
    Ok(placement.open_ticket(ask(token, request)).await?.into_inner().ticket.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_attempt_is_its_own_even_if_another_caller_opened_and_ended_its_id_before() {
    let Attacked { issuer, site } = Attacked::start();
    let job = issuer.token(1, Value::Null);
    let greeting =
        |attempt: &str, session: &str| pb::Hello { session: session.to_owned(), ..hello(attempt, "zlib") };
    let (ended, open) = ("127.0.0.1:1.2", VICTIM);
    let mut squatter = site.stream(SQUATTER).await.unwrap();
    squatter.build(greeting(ended, "squatter"), 5, Some(0)).await.unwrap();
    squatter.exchange(greeting(open, "squatter")).await.unwrap();
    assert_eq!(squatter.exchange(batch(open, 1, 5)).await.unwrap(), 5);
    assert_eq!(shown(&site, ended).await.samples, 5, "until the job comes");

    let site = site.killed().unwrap();
    let mut squatter = site.stream(SQUATTER).await.unwrap();
    assert_eq!(squatter.exchange(greeting(open, "squatter")).await.unwrap(), 5);
    for attempt in [open, ended] {
        let mut own = site.stream(&job).await.unwrap();
        assert_eq!(own.exchange(greeting(attempt, "own")).await.unwrap(), 0, "nothing of it came yet");
        assert_eq!(own.exchange(batch(attempt, 1, 3)).await.unwrap(), 3);
    }
    let refused = squatter.exchange(batch(open, 6, 1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists, "{refused}");
    assert!(refused.message().contains("own agent has proven that"), "{refused}");
    let mut squatter = site.stream(SQUATTER).await.unwrap();
    let its_own = squatter.exchange(greeting(open, "squatter")).await.unwrap();
    assert_eq!(its_own, 0, "it gets an attempt of its own, of its project");
    let log = site.server.log().unwrap();
    let dropped = "dropped an attempt that another caller opened under a job's id";
    let lines = log.lines().filter(|line| line.contains(dropped) && line.contains("plimsoll_server::audit"));
    assert_eq!(lines.count(), 2, "{log}");

    let site = site.killed().unwrap();
    for attempt in [open, ended] {
        let mut own = site.stream(&job).await.unwrap();
        assert_eq!(own.exchange(greeting(attempt, "own")).await.unwrap(), 3);
        own.exchange(finish(attempt, 3, Some(0))).await.unwrap();
        let summary = shown(&site, attempt).await;
        assert_eq!((summary.samples, summary.untrusted), (3, false));
        let key = summary.key.unwrap();
        assert_eq!((&*key.project, &*key.owner), ("spack/packages", "eve"), "as its token says");
    }
    // the same of a ticket
    let (id, job) = ("127.0.0.1:3", issuer.token(3, Value::Null));
    open_ticket(&site, SQUATTER, id).await.unwrap();
    assert_eq!(open_ticket(&site, &job, id).await.unwrap().ticket, id);
    assert_eq!(open_ticket(&site, SQUATTER, id).await.unwrap_err().code(), Code::AlreadyExists);
}
