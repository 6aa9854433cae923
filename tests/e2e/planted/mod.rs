//! Secrets are planted wherever an operator, a caller, a build or GitLab can put one. The server writes its log with all details, does
//! what it is asked and refuses what it must; then none of them is in anything that it said or kept.

mod operator;
mod place;

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use operator::{mistakes, printed};
use place::{AUDITOR, CUSTOMER, PlantedServer, RUNNER, SPACK, Secrets, WRONG};
use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient, stats_client::StatsClient};
use plimsoll_support::files_below;
use plimsoll_tests::{Sender, Server, batch, eventually, finish, hello, http::bearer, with_token as ask};
use serde_json::{Value, json};
use tonic::transport::Endpoint;

use crate::admission::pod;

/// In the line that decides, beside the secrets: it must be found, or nothing was looked through.
const SIGN: &str = "seen_and_kept_of_this_line";
/// Pages and endpoints that a reader may ask for, and some that it may not, or that are not there.
const PATHS: [&str; 18] = [
    "/",
    "/packages",
    "/packages/zlib",
    "/attempts",
    "/attempts/planted",
    "/running",
    "/settings",
    "/metrics",
    "/livez",
    "/readyz",
    "/healthz",
    "/api/stats?group_by=label&group_label=customer",
    "/api/attempts",
    "/api/attempts/planted",
    "/api/settings",
    "/v1/allocation?spec=pkg_name",
    "/admin/backup",
    "/nowhere",
];

/// All that was said, each with where.
type FoundTexts = Vec<(String, String)>;

/// A log with a secret of each kind that is known, and the line that decides.
fn log(secrets: &Secrets) -> String {
    let [token, cloud, password, url, bearer, jwt, block] = &secrets.in_logs;
    format!(
        "export CI_TOKEN={token}\naws_access_key_id {cloud}\n\u{1b}[31mDB_PASSWORD={password}\u{1b}[0m\n\
         git clone https://bot:{url}@git.example/x\ncurl -H 'Authorization: Bearer {bearer}'\nlogin {jwt}\n\
         -----BEGIN PRIVATE KEY-----\n{block}\n-----END PRIVATE KEY-----\n\
         x.c:1:1: error: '{SIGN}' undeclared, token={token} DB_PASSWORD={password}\n"
    )
}

fn key(secrets: &Secrets) -> pb::Key {
    let [token, _, password, ..] = &secrets.in_logs;
    let labels = [("customer", CUSTOMER), ("api_token", password), ("note", token)];
    pb::Key {
        project: "spack/packages".into(),
        package: "zlib".into(),
        version: format!("1.{SIGN}"),
        variants: format!("cflags=https://u:{password}@x"),
        labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..pb::Key::default()
    }
}

/// A build fails and is judged, by those who may and those who may not.
async fn builds(place: &PlantedServer, outputs: &mut FoundTexts) {
    let channel = Endpoint::new(place.webhook.server.url()).unwrap().connect().await.unwrap();
    let secrets = &place.secrets;
    let mut say = |what: &str, printed: String| outputs.push((what.to_owned(), printed));
    for token in [WRONG, AUDITOR] {
        say("a stream", Sender::open_as(channel.clone(), token).await.unwrap_err().to_string());
    }
    let mut stream = Sender::open_as(channel.clone(), RUNNER).await.unwrap();
    let opening = pb::Hello { key: Some(key(secrets)), ..hello("planted", "zlib") };
    stream.exchange(opening).await.unwrap();
    stream.exchange(batch("planted", 1, 3)).await.unwrap();
    let mut end = finish("planted", 3, Some(1));
    let name = format!("fetch https://u:{}@x", secrets.in_logs[3]);
    end.phases = vec![pb::Phase { name, wall_ms: 1, ..pb::Phase::default() }];
    stream.close(end).await.unwrap();

    let question = |log: String| pb::ShouldRetryRequest {
        attempt: "planted".into(),
        key: Some(key(secrets)),
        exit: Some(pb::Exit { code: Some(1), signal: None }),
        log_tail: log.into_bytes(),
        container_reason: format!("Error token={}", secrets.in_logs[2]),
        ..pb::ShouldRetryRequest::default()
    };
    let mut predictor = PredictorClient::new(channel.clone());
    let long = log(secrets).repeat(2000);
    for (token, log) in
        [(WRONG, log(secrets)), (AUDITOR, log(secrets)), (RUNNER, long), (RUNNER, log(secrets))]
    {
        let judged = predictor.should_retry(ask(token, question(log))).await;
        say("a verdict", format!("{judged:?}"));
    }
    for token in [WRONG, secrets.signed.as_str(), SPACK] {
        // a caller gets its own words back, so they are harmless here
        let key = pb::Key { variants: String::new(), ..key(secrets) };
        let asked = pb::PredictRequest { key: Some(key), ..Default::default() };
        say("an explanation", format!("{:?}", predictor.explain(ask(token, asked)).await));
    }
    let mut stats = StatsClient::new(channel);
    let about = || pb::GetAttemptRequest { attempt: "planted".into(), ..Default::default() };
    for token in [WRONG, AUDITOR] {
        say("an attempt", format!("{:?}", stats.get_attempt(ask(token, about())).await));
    }
}

/// A job that ended, in a hook that is as it should be but for `change`.
fn hook(place: &PlantedServer, job: u64, change: impl FnOnce(&mut Value)) -> String {
    let mut hook = json!({
        "object_kind": "build", "build_id": job, "build_name": "zlib@1.3 /abcdefg", "build_status": "failed",
        "build_failure_reason": "script_failure", "pipeline_id": 1, "project_id": 5,
        "ref": format!("https://u:{}@x", place.secrets.in_logs[2]),
        "project": {"web_url": format!("http://{}/x/y", place.gitlab), "path_with_namespace": "spack/packages"},
    });
    change(&mut hook);
    hook.to_string()
}

/// Hooks, signed and with their secret, without either, and such as make no sense.
async fn hooks(place: &PlantedServer, outputs: &mut FoundTexts) {
    let secrets = &place.secrets;
    let secret = &secrets.in_logs[0];
    let bodies = [
        hook(place, 7, |_| ()),
        hook(place, 8, |body| body["build_id"] = json!(secret)),
        hook(place, 9, |body| body["build_failure_reason"] = json!(secret.repeat(100))),
        format!("{secret} is no JSON"),
    ];
    for body in &bodies {
        for headers in [
            place.signed(&secrets.hook, body),
            place.signed("", body),
            format!("X-Gitlab-Token: {WRONG}\r\n"),
            format!("X-Gitlab-Token: {RUNNER}\r\n"),
            format!("X-Gitlab-Token: {}\r\n", secrets.hook),
        ] {
            outputs.push(("a hook".into(), place.http("POST", "/v1/collect", &headers, body)));
        }
    }
    let metrics = async || place.http("GET", "/metrics", &bearer(AUDITOR), "");
    let judged = "plimsoll_hooks_total{kind=\"judged\"} 1\n";
    eventually("the hook's job is judged", metrics, |text| text.contains(judged)).await;
}

/// What a browser sees, with tokens in each place where one may stand, and in one where it may not.
fn pages(place: &PlantedServer, outputs: &mut FoundTexts) {
    let basic = |token: &str| BASE64_STANDARD.encode(format!("me:{token}"));
    let headers = [
        String::new(),
        bearer(AUDITOR),
        bearer(WRONG),
        format!("Authorization: Basic {}\r\n", basic(AUDITOR)),
        format!("Authorization: Basic {}\r\n", basic(WRONG)),
        format!("Authorization: Strange {WRONG}\r\n"),
        bearer(&place.secrets.signed),
        // good secrets at a wrong door
        bearer(&place.secrets.hook),
        bearer(&place.secrets.admission),
    ];
    let admission = format!("/admit/{}", place.secrets.admission);
    for path in PATHS.into_iter().chain([admission.as_str()]) {
        let joint = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{joint}private_token={WRONG}&range=all");
        for header in &headers {
            outputs.push((path.clone(), place.http("GET", &path, header, "")));
        }
    }
}

/// Everything below a directory, as text.
fn files(dir: &Path) -> FoundTexts {
    let text = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap();
        (path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned())
    };
    files_below(dir).into_iter().map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_secrets_appear_in_no_output_or_file() {
    let place = PlantedServer::start();
    let mut outputs = FoundTexts::new();
    builds(&place, &mut outputs).await;
    hooks(&place, &mut outputs).await;
    pages(&place, &mut outputs);
    let mut planted = pod();
    planted["spec"]["containers"][0]["env"] =
        json!([{"name": "CI_JOB_TOKEN", "value": place.secrets.in_logs[2]}, {"name": "X", "value": WRONG}]);
    let (_, response) = place.webhook.admit(&planted).await;
    outputs.push(("an admission".into(), response.to_string()));
    mistakes(&place).await;
    printed(&place, &mut outputs);
    outputs.push(("log".into(), place.webhook.server.log().unwrap()));
    let asked: Vec<String> = place.asked.try_iter().collect();
    for sent in [&place.secrets.gitlab, &place.secrets.bearer] {
        assert!(asked.iter().any(|head| head.contains(sent)), "the intended receiver gets it: {asked:?}");
    }

    let (secrets, dir) = (place.secrets, place.webhook.dir);
    place.webhook.server.stop().unwrap();
    let [data, backup, restored] = ["data", "backup", "restored"].map(|name| dir.path().join(name));
    let archive = backup.join("file").display().to_string();
    fs::create_dir(&backup).unwrap();
    Server::call_on(&data, &["backup", &archive]).done();
    Server::call_on(&restored, &["restore", &archive]).done();
    let [data, backup, restored] = [&data, &backup, &restored].map(|place| files(place));
    for (place, all) in [("output", &outputs), ("data", &data), ("restored data", &restored)] {
        assert!(all.iter().any(|(_, text)| text.contains(SIGN)), "else nothing was looked through: {place}");
    }
    let kept = [data, backup, restored].concat();
    assert!(outputs.iter().any(|(place, text)| place == "log" && text.contains("\"DEBUG\"")));
    let is_judge = |place: &str| place == "a verdict";
    for (place, text) in outputs.iter().chain(&kept) {
        for (name, secret) in secrets.all() {
            let before = text.split_once(secret).map(|(before, _)| before);
            let near = before.map(|before| before.chars().rev().take(300).collect::<Vec<_>>());
            let near = near.map(|near| near.into_iter().rev().collect::<String>());
            assert_eq!(near, None, "{name} in {place}, behind this");
        }
    }
    // a caller without a grant for the project sees nothing of what is private, and neither does a reader of logs
    for (place, text) in outputs.iter().filter(|(place, _)| !is_judge(place)) {
        assert!(!text.contains(CUSTOMER), "a private label in {place}: {text}");
    }
}
