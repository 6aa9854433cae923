//! The nightly backup of a cluster, and what its runbook says to do with it: taken from another pod by an operator over TLS, restored into
//! an empty directory, and answered from as before.

use std::{fs, path::Path, process::Output};

use plimsoll_tests::{Agent, Programs, Server};

use crate::access::{TOKENS, certificates};

/// SHA-256 of `operator-secret`.
const OPERATOR: &str = "ec585b7be286a5088d8687af4ce027f389cd098e2bb0dee876d5521fa4468f59";

struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        certificates(dir.path());
        let operator =
            format!("[[token]]\nname = \"operator\"\nsha256 = \"{OPERATOR}\"\nroles = [\"operator\"]\n");
        fs::write(dir.path().join("access.toml"), [TOKENS, &operator].concat()).unwrap();
        fs::write(dir.path().join("operator.token"), "operator-secret\n").unwrap();
        fs::write(dir.path().join("reader.token"), "reader-secret\n").unwrap();
        Self { dir }
    }

    fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn server(&self, data: &str) -> Server {
        let (access, cert, key) =
            (self.file("access.toml"), self.file("server.crt"), self.file("server.key"));
        let tls = ["--access-file", &access, "--tls-cert-file", &cert, "--tls-key-file", &key];
        let options = [&tls[..], &["--backup-remote", "on"]].concat();
        Server::start_with(Programs::for_tests(), &self.dir.path().join(data), &options).unwrap()
    }

    fn agent(&self, server: &Server) -> Agent {
        let url = format!("https://localhost:{}", server.grpc.port());
        let agent = Agent::new(Programs::for_tests(), url, &self.dir.path().join("spool"));
        agent.with("PLIMSOLL_CA", &self.file("ca.crt")).with("PLIMSOLL_TOKEN", "runner-secret")
    }

    /// As the job of the cluster takes it.
    fn backup(&self, server: &Server, ca: &str, token: &str, file: &str) -> Output {
        let address = format!("localhost:{}", server.http.port());
        let (ca, token, file) = (self.file(ca), self.file(token), self.file(file));
        program(&["backup", "--server", &address, "--ca", &ca, "--token-file", &token, &file])
    }
}

fn program(words: &[&str]) -> Output {
    let mut command = std::process::Command::new(&Programs::for_tests().server);
    command.env_clear().args(words).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_backup_from_another_machine_restores_to_a_server_with_the_same_answers() {
    let site = Site::new();
    let server = site.server("data");
    let run = ["run", "--attempt", "a1", "--key", "package=zlib", "--key", "project=p", "--report", "none"];
    let ran = site.agent(&server).call(&[&run[..], &["--", "true"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let predict = ["predict", "--key", "package=zlib", "--key", "project=p", "-o", "json"];
    let before = site.agent(&server).call(&predict);
    assert_eq!(before.code, Some(0), "{before:?}");

    let backup = site.backup(&server, "ca.crt", "operator.token", "night.backup");
    assert!(backup.status.success(), "{}", stderr(&backup));
    let again = site.backup(&server, "ca.crt", "operator.token", "night.backup");
    assert!(!again.status.success(), "no backup is overwritten: {}", stderr(&again));
    server.stop().unwrap();

    // the runbook: restore into an empty directory, verify, start
    let (data, file) = (site.file("restored"), site.file("night.backup"));
    let restored = program(&["--data-dir", &data, "restore", &file]);
    assert!(restored.status.success(), "{}", stderr(&restored));
    let verified = program(&["--data-dir", &data, "verify"]);
    assert!(verified.status.success(), "{}", stderr(&verified));
    let server = site.server("restored");
    let after = site.agent(&server).call(&predict);
    assert_eq!((after.code, after.stdout), (Some(0), before.stdout));
}

#[test]
fn only_an_operator_with_the_right_ca_takes_a_backup_and_nothing_is_left_of_a_refused_one() {
    let site = Site::new();
    let server = site.server("data");
    let reader = site.backup(&server, "ca.crt", "reader.token", "reader.backup");
    assert!(!reader.status.success() && stderr(&reader).contains("operator"), "{}", stderr(&reader));
    let other = site.backup(&server, "client.crt", "operator.token", "other.backup");
    assert!(!other.status.success() && stderr(&other).contains("certificate"), "{}", stderr(&other));
    for name in ["reader.backup", "other.backup"] {
        assert!(!Path::new(&site.file(name)).try_exists().unwrap(), "{name}");
    }
    let place = site.file("new");
    let open = program(&["--data-dir", &place, "--backup-remote", "on", "--print-config"]);
    assert!(stderr(&open).contains("needs access_file and tls_cert_file"), "{}", stderr(&open));
}
