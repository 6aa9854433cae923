//! Jobs whose tokens are good, and what they cannot do with them: an attacker who forges in every way the wire allows.

use std::{fs, process::Stdio};

use plimsoll_proto::v1::{
    self as pb, agent_message::Message as Sent, predict_batch_response::Result as BatchResult,
    predictor_client::PredictorClient, stats_client::StatsClient,
};
use plimsoll_tests::{
    Issuer, Site, batch, eventually, finish, hello, http::bearer, sample, with_token as ask,
};
use serde_json::{Value, json};
use tonic::{Code, Status};

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

/// With jobs' tokens.
struct Attacked {
    issuer: Issuer,
    site: Site,
}

impl Attacked {
    fn start() -> Self {
        let issuer = Issuer::start().unwrap();
        let access = format!("[[issuer]]\nissuer = \"{}\"\n{GRANTS}", issuer.url);
        Self { site: Site::start_with(&[("--access-file", &access)], &[]).unwrap(), issuer }
    }

    /// The job of a pull request to another project.
    fn attacker(&self) -> String {
        self.issuer
            .token(2, json!({"project_path": "evil/fork", "ref_protected": "false", "user_login": "mallory"}))
    }
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
    let mut stream = site.stream(token).await.unwrap();
    let mut ended = None;
    for message in messages {
        ended = stream.exchange(message).await.err();
    }
    ended.expect("the last message is refused")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_attacker_forges_changes_nothing_of_another_job() {
    let attacked = Attacked::start();
    let (site, victim, attacker) =
        (&attacked.site, attacked.issuer.token(1, Value::Null), attacked.attacker());
    let mut stream = site.stream(&victim).await.unwrap();
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
        assert_eq!(ends(site, &attacker, messages).await.code(), expected, "{seen:.200}");
    }

    // what it may write is kept as its own, whatever name it gives
    let mut forger = site.stream(&attacker).await.unwrap();
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
    let mut stats = StatsClient::new(site.connect().await.unwrap());
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
    let attacked = Attacked::start();
    let (site, victim, attacker) =
        (&attacked.site, attacked.issuer.token(1, Value::Null), attacked.attacker());
    let mut stream = site.stream(&victim).await.unwrap();
    stream.exchange(hello(VICTIM, "zlib")).await.unwrap();
    let mut predictor = PredictorClient::new(site.connect().await.unwrap());
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

    let mut stats = StatsClient::new(site.connect().await.unwrap());
    let all = stats.list_attempts(ask(&attacker, pb::ListAttemptsRequest::default())).await;
    assert_eq!(all.unwrap_err().code(), Code::PermissionDenied);
    let all = stats.get_stats(ask(&attacker, pb::GetStatsRequest::default())).await;
    assert_eq!(all.unwrap_err().code(), Code::PermissionDenied);
    let all = stats.watch(ask(&attacker, pb::WatchRequest {})).await;
    assert_eq!(all.map(|_stream| ()).unwrap_err().code(), Code::PermissionDenied);
    for path in ["/metrics", "/v1/allocation", "/admin/backup", "/v1/collect"] {
        for (token, status) in [(attacker.as_str(), 403), ("wrong", 401)] {
            assert_eq!(site.server.send("GET", path, &bearer(token), "").unwrap().status, status, "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_goes_on_without_loss_when_its_token_expires_and_a_new_one_is_in_the_file() {
    let Attacked { issuer, site } = Attacked::start();
    let file = site.dir.path().join("token");
    // the server adds a minute by which clocks may differ
    let soon = plimsoll_tests::unix_now() - 60 + 3;
    fs::write(&file, issuer.token(7, json!({"exp": soon}))).unwrap();
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
    let build = site.agent.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let reader = issuer.token(8, Value::Null);
    let log = async || site.server.log().unwrap();
    eventually("the stream ends", log, |log| log.contains("a call that lasted")).await;
    fs::write(&file, issuer.token(7, Value::Null)).unwrap();
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
