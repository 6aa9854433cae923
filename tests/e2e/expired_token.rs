//! A job whose token expires while it builds.

use std::{fs, process::Stdio};

use plimsoll_proto::v1::{self as pb, stats_client::StatsClient};
use plimsoll_tests::{AccessFile, Issuer, Site, eventually, with_token as ask};
use serde_json::{Value, json};

use crate::foreign_facts::GRANTS;

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_token_file_avoids_sample_loss() {
    let issuer = Issuer::start().unwrap();
    let access = AccessFile::default().issuer(&issuer.url, GRANTS);
    let site = Site::start_with(&[("--access-file", access.text())], &[]).unwrap();
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
