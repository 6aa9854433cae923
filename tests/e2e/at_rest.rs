//! What lies on a disk: a reader of the server's data, its log or a backup has none of the secrets by which it knows its callers.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use plimsoll_proto::v1::{self as pb, placement_client::PlacementClient};
use plimsoll_tests::{Programs, Sender, Site, hello, with_token};
use tonic::transport::Endpoint;

use crate::{access::TOKENS, gantry::post_hook};

const RUNNER: &str = "runner-secret";
const READER: &str = "reader-secret";
/// The secret of GitLab's hook.
const HOOK: &str = "hook-secret-of-gitlab";
/// Of the webhook, in its path.
const WEBHOOK: &str = "0123456789abcdef0123456789abcdef";

/// All files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files(&entry.path())),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

fn holds(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|part| part == secret.as_bytes())
}

/// Runs a command of the server's program on a data directory.
fn run(data: &Path, words: &[&str]) {
    let mut command = Command::new(&Programs::for_tests().server);
    let done = command.env_clear().arg("--data-dir").arg(data).args(words).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_a_caller_is_in_the_servers_data_its_log_or_a_backup() {
    let access = [("--access-file", TOKENS), ("--collect-token-file", HOOK)];
    let Site { dir, server, .. } = Site::start_with(&access, &[]).unwrap();
    let channel = Endpoint::new(server.url()).unwrap().connect().await.unwrap();
    let mut stream = Sender::open_as(channel.clone(), RUNNER).await.unwrap();
    stream.build(hello("ci.example:7", "zlib"), 3, Some(1)).await.unwrap();
    // right ones and wrong ones, at every door
    for secret in [READER, RUNNER, HOOK, WEBHOOK] {
        let asked = with_token(secret, pb::GetPoolsRequest::default());
        let _answered = PlacementClient::new(channel.clone()).get_pools(asked).await.is_ok();
        for header in ["Authorization: Bearer", "X-Gitlab-Token:"] {
            let _answered = post_hook(&server, &format!("{header} {secret}\r\n"), "{}");
        }
        // the webhook's door is another one
        let _answered = server.get(&format!("/admit/{secret}"));
    }
    let log = server.log().unwrap();
    assert!(server.stop().unwrap().success());
    let (data, backup, restored) =
        (dir.path().join("data"), dir.path().join("backup"), dir.path().join("restored"));
    run(&data, &["backup", backup.to_str().unwrap()]);
    run(&restored, &["restore", backup.to_str().unwrap()]);
    let stored: Vec<PathBuf> = [files(&data), files(&restored), vec![backup]].concat();
    let is_there = |text: &str| stored.iter().any(|file| holds(&fs::read(file).unwrap(), text));
    assert!(is_there("ci.example:7"), "what is stored is found");
    for secret in [RUNNER, READER, HOOK, WEBHOOK] {
        assert!(!is_there(secret) && !log.contains(secret), "{secret}: {log}");
    }
}
