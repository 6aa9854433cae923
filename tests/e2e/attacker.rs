//! Jobs whose tokens are good, and what they cannot do with them: an attacker who forges in every way the wire allows.

use std::{fs, io::Write as _, process::Stdio};

use plimsoll_proto::v1::{
    self as pb, agent_message::Message as Sent, predict_batch_response::Result as BatchResult,
    predictor_client::PredictorClient, stats_client::StatsClient,
};
use plimsoll_tests::{Agent, Issuer, Programs, Sender, Server, batch, eventually, finish, hello, sample};
use serde_json::{Value, json};
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint},
};

/// Jobs of protected refs count for predictions; others are only measured. Each may ask and see, of its own project.
const GRANTS: &str = r#"
    kind = "gitlab"
    audience = "plimsoll"

    [[issuer.grant]]
    claims = { ref_protected = "true" }
    roles = ["agent", "caller", "reader"]
    trusted = true

    [[issuer.grant]]
    roles = ["agent", "caller", "reader"]
"#;
/// The job that is attacked.
const VICTIM: &str = "127.0.0.1:1";

struct Site {
    dir: tempfile::TempDir,
    issuer: Issuer,
    server: Server,
}

impl Site {
    fn start() -> Self {
        let (dir, issuer) = (tempfile::tempdir().unwrap(), Issuer::start().unwrap());
        let access = dir.path().join("access.toml");
        fs::write(&access, format!("[[issuer]]\nissuer = \"{}\"\n{GRANTS}", issuer.url)).unwrap();
        let options = ["--access-file", &access.display().to_string()];
        let server = Server::start_with(Programs::for_tests(), &dir.path().join("data"), &options).unwrap();
        Self { dir, issuer, server }
    }

    async fn connect(&self) -> Channel {
        Endpoint::new(self.server.url()).unwrap().connect().await.unwrap()
    }

    async fn stream(&self, token: &str) -> Sender {
        let open = async || Sender::open_as(self.connect().await, token).await;
        // UNAVAILABLE: the issuer's keys are on their way
        let is_open = |opened: &Result<Sender, Status>| {
            !opened.as_ref().is_err_and(|status| status.code() == Code::Unavailable)
        };
        eventually("the issuer's keys are there", open, is_open).await.unwrap()
    }

    /// The job of a pull request to another project.
    fn attacker(&self) -> String {
        self.issuer
            .token(2, json!({"project_path": "evil/fork", "ref_protected": "false", "user_login": "mallory"}))
    }
}

/// A question with a token.
fn ask<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

fn of_project(project: &str) -> pb::Key {
    pb::Key { project: project.to_owned(), package: "zlib".to_owned(), ..pb::Key::default() }
}

/// A Hello that claims all that the victim is.
fn forged(attempt: &str) -> pb::Hello {
    let Sent::Hello(hello) = hello(attempt, "zlib") else { unreachable!() };
    let (git_ref, owner) = ("main".to_owned(), "root".to_owned());
    let labels = [("trusted".to_owned(), "true".to_owned())].into();
    pb::Hello {
        session: format!("s-{VICTIM}"),
        key: Some(pb::Key { r#ref: git_ref, owner, labels, ..of_project("spack/packages") }),
        retries: VICTIM.to_owned(),
        ..hello
    }
}

/// The status with which a message ends a stream of its own.
async fn ends(site: &Site, token: &str, messages: Vec<Sent>) -> Status {
    let mut stream = site.stream(token).await;
    let mut ended = None;
    for message in messages {
        ended = stream.exchange(message).await.err();
    }
    ended.expect("the last message is refused")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_attacker_forges_changes_nothing_of_another_job() {
    let site = Site::start();
    let (victim, attacker) = (site.issuer.token(1, Value::Null), site.attacker());
    let mut stream = site.stream(&victim).await;
    assert_eq!(stream.exchange(hello(VICTIM, "zlib")).await.unwrap(), 0);
    assert_eq!(stream.exchange(batch(VICTIM, 1, 3)).await.unwrap(), 3);

    let own = || Sent::Hello(forged("127.0.0.1:2"));
    let cases = [
        (vec![Sent::Hello(forged(VICTIM))], Code::PermissionDenied),
        (vec![Sent::Hello(forged("127.0.0.1:1.2"))], Code::PermissionDenied),
        (vec![Sent::Hello(forged("1"))], Code::PermissionDenied),
        // held by another stream
        (vec![batch(VICTIM, 4, 1)], Code::Aborted),
        (vec![own(), batch(VICTIM, 4, 1)], Code::Aborted),
        (vec![own(), finish(VICTIM, 3, Some(1))], Code::Aborted),
    ];
    for (messages, expected) in cases {
        let seen = format!("{messages:?}");
        assert_eq!(ends(&site, &attacker, messages).await.code(), expected, "{seen:.200}");
    }

    // what it may write is kept as its own, whatever name it gives
    let mut forger = site.stream(&attacker).await;
    forger.exchange(own()).await.unwrap();
    forger
        .exchange(Sent::Batch(pb::Batch {
            attempt: "127.0.0.1:2".into(),
            first_sequence: 1,
            lost: 0,
            samples: vec![sample(1)],
        }))
        .await
        .unwrap();
    forger.close(finish("127.0.0.1:2", 1, Some(0))).await.unwrap();
    let mut stats = StatsClient::new(site.connect().await);
    let about = |id: &str| pb::GetAttemptRequest { attempt: id.to_owned(), ..Default::default() };
    let answer = stats.get_attempt(ask(&attacker, about("127.0.0.1:2"))).await.unwrap().into_inner();
    let summary = answer.summary.unwrap();
    let key = summary.key.unwrap();
    assert_eq!((&*key.project, &*key.r#ref, &*key.owner), ("evil/fork", "develop", "mallory"));
    assert!(summary.untrusted);
    assert_eq!(stats.get_attempt(ask(&attacker, about(VICTIM))).await.unwrap_err().code(), Code::NotFound);

    // the victim notices nothing
    assert_eq!(stream.exchange(batch(VICTIM, 4, 2)).await.unwrap(), 5);
    stream.close(finish(VICTIM, 5, Some(0))).await.unwrap();
    let answer = stats.get_attempt(ask(&victim, about(VICTIM))).await.unwrap().into_inner();
    let summary = answer.summary.unwrap();
    assert_eq!((summary.samples, summary.untrusted), (5, false));
    assert_eq!(summary.key.unwrap().project, "spack/packages");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attacker_asks_and_sees_nothing_of_other_projects_and_operates_nothing() {
    let site = Site::start();
    let (victim, attacker) = (site.issuer.token(1, Value::Null), site.attacker());
    let mut stream = site.stream(&victim).await;
    stream.exchange(hello(VICTIM, "zlib")).await.unwrap();
    let mut predictor = PredictorClient::new(site.connect().await);
    let question =
        |project: &str| pb::PredictRequest { key: Some(of_project(project)), ..Default::default() };
    let theirs = || ask(&attacker, question("spack/packages"));
    assert_eq!(predictor.predict(theirs()).await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(predictor.explain(theirs()).await.unwrap_err().code(), Code::PermissionDenied);
    let asks = tokio_stream::iter([question("spack/packages"), question("evil/fork"), question("")]);
    let mut answers = predictor.predict_batch(ask(&attacker, asks)).await.unwrap().into_inner();
    for is_error in [true, false, false] {
        let answer = answers.message().await.unwrap().unwrap().result.unwrap();
        assert_eq!(matches!(answer, BatchResult::Error(_)), is_error, "{answer:?}");
    }
    let retry = pb::ShouldRetryRequest { attempt: VICTIM.to_owned(), ..Default::default() };
    let seen = predictor.should_retry(ask(&attacker, retry)).await.unwrap_err();
    assert!(seen.message().contains("was not measured here"), "as if it were not there: {seen}");

    let mut stats = StatsClient::new(site.connect().await);
    let all = stats.list_attempts(ask(&attacker, pb::ListAttemptsRequest::default())).await;
    assert_eq!(all.unwrap_err().code(), Code::PermissionDenied);
    let all = stats.get_stats(ask(&attacker, pb::GetStatsRequest::default())).await;
    assert_eq!(all.unwrap_err().code(), Code::PermissionDenied);
    let all = stats.watch(ask(&attacker, pb::WatchRequest {})).await;
    assert_eq!(all.map(|_stream| ()).unwrap_err().code(), Code::PermissionDenied);
    for path in ["/metrics", "/v1/allocation", "/admin/backup", "/v1/collect"] {
        assert_eq!(get(&site.server, path, &attacker), 403, "{path}");
        assert_eq!(get(&site.server, path, "wrong"), 401, "{path}");
    }
}

/// The status of a GET with a token.
fn get(server: &Server, path: &str, token: &str) -> u16 {
    let mut stream = std::net::TcpStream::connect(server.http).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let answer = std::io::read_to_string(stream).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_goes_on_without_loss_when_its_token_expires_and_a_new_one_is_in_the_file() {
    let site = Site::start();
    let file = site.dir.path().join("token");
    // the server adds a minute by which clocks may differ
    let soon = plimsoll_tests::unix_now() - 60 + 3;
    fs::write(&file, site.issuer.token(7, json!({"exp": soon}))).unwrap();
    let agent = Agent::new(Programs::for_tests(), site.server.url(), &site.dir.path().join("spool"));
    let release = site.dir.path().join("release");
    let waits = format!("while ! test -e {}; do sleep 0.1; done", release.display());
    let token_file = file.display().to_string();
    let words = [
        "run",
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
    let build = agent.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let reader = site.issuer.token(8, Value::Null);
    let log = async || site.server.log().unwrap();
    eventually("the stream ends", log, |log| log.contains("a call that lasted")).await;
    fs::write(&file, site.issuer.token(7, Value::Null)).unwrap();
    fs::write(&release, "").unwrap();
    let output = build.wait_with_output().unwrap();
    let seen = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !seen.contains("kept"), "{seen}");
    let mut stats = StatsClient::new(site.connect().await);
    let about = pb::GetAttemptRequest { attempt: "127.0.0.1:7".to_owned(), ..Default::default() };
    let summary = stats.get_attempt(ask(&reader, about)).await.unwrap().into_inner().summary.unwrap();
    assert_eq!(summary.samples_lost, 0, "{summary:?}");
    assert!(summary.samples > 0);
}
