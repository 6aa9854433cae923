//! The nightly backup of a cluster, and what its runbook says to do with it: taken from another pod by an operator over TLS, restored into
//! an empty directory, and answered from as before.

use std::fs;

use plimsoll_tests::{Answer, Server};

use crate::access::{TlsSite, tokens};

const REMOTE: [&str; 2] = ["--backup-remote", "on"];

fn start() -> TlsSite {
    let site = TlsSite::start(&tokens().token("operator-secret", &["operator"], ""), &REMOTE);
    for name in ["operator", "reader"] {
        fs::write(site.file(&format!("{name}.token")), format!("{name}-secret\n")).unwrap();
    }
    site
}

/// As the job of the cluster takes it.
fn backup(site: &TlsSite, ca: &str, token: &str, file: &str) -> Answer {
    let address = format!("localhost:{}", site.server.http.port());
    let (ca, token, file) = (site.file(ca), site.file(token), site.file(file));
    Server::call(&["backup", "--server", &address, "--ca", &ca, "--token-file", &token, &file])
}

#[test]
fn a_remote_backup_restores_the_same_answers() {
    let site = start();
    let run = ["run", "--attempt", "a1", "--key", "package=zlib", "--key", "project=p", "--report", "none"];
    let ran = site.agent("runner-secret").call(&[&run[..], &["--", "true"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let predict = ["predict", "--key", "package=zlib", "--key", "project=p", "-o", "json"];
    let before = site.agent("runner-secret").call(&predict);
    assert_eq!(before.code, Some(0), "{before:?}");

    let taken = backup(&site, "ca.crt", "operator.token", "night.backup");
    assert_eq!(taken.code, Some(0), "{taken:?}");
    let again = backup(&site, "ca.crt", "operator.token", "night.backup");
    assert_ne!(again.code, Some(0), "no backup is overwritten: {again:?}");
    let TlsSite { dir, server } = site;
    server.stop().unwrap();

    // the runbook: restore into an empty directory, verify, start
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (data, file) = (path("restored"), path("night.backup"));
    Server::call(&["--data-dir", &data, "restore", &file]).done();
    Server::call(&["--data-dir", &data, "verify"]).done();
    let server = TlsSite::serve(dir.path(), "restored", &REMOTE);
    let site = TlsSite { dir, server };
    let after = site.agent("runner-secret").call(&predict);
    assert_eq!((after.code, after.stdout), (Some(0), before.stdout));
}
