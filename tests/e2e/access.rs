//! Who may call: tokens and certificates, over TLS, and what they may do.

use std::{fs, path::Path};

use plimsoll_tests::{Agent, Answer, Programs, Server};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};

/// The tokens are `runner-secret`, `reader-secret` and `spack-secret`.
pub(crate) const TOKENS: &str = r#"
    [[token]]
    name = "runner"
    sha256 = "fc3bb7e233956dc858eb7bb0580c89461d5da2871ba406fadaff31eca673ef82"
    roles = ["agent", "caller"]
    trusted = true

    [[token]]
    name = "dashboard"
    sha256 = "f03319dee240faa729e0cfa7ab5ffd80a1d64a127e3643f239009abff6382914"
    roles = ["reader"]

    [[token]]
    name = "spack"
    sha256 = "5ff13bf94042745a300e733dcf793c98a31919b0e191ea318debfa7ed1664fa7"
    roles = ["reader", "caller"]
    projects = ["spack/*"]
"#;
const CERTIFICATES: &str = r#"
    [[certificate]]
    dns_name = "runner-1.example.com"
    roles = ["agent"]

    [[certificate]]
    dns_name = "operator.example.com"
    roles = ["operator"]
"#;

/// Writes what a server with TLS needs, and certificates of clients, all signed by one CA.
pub(crate) fn certificates(dir: &Path) {
    let (runner, operator) = ("runner-1.example.com", "operator.example.com");
    let all = [("server", "localhost", 2099), ("client", runner, 2099), ("expired", runner, 2020)];
    signed(dir, "ca.crt", &[&all[..], &[("operator", operator, 2099)]].concat());
}

/// Writes certificates and their keys, signed by a CA of their own: file, name, and the year in which it ends.
pub(crate) fn signed(dir: &Path, ca_file: &str, certificates: &[(&str, &str, i32)]) {
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.distinguished_name.push(DnType::CommonName, format!("CA of {ca_file}"));
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
    fs::write(dir.join(ca_file), ca.pem()).unwrap();
    for (file, name, year) in certificates {
        let key = KeyPair::generate().unwrap();
        let mut asked = CertificateParams::new([(*name).to_owned()]).unwrap();
        asked.not_after = date_time_ymd(*year, 1, 1);
        let made = asked.signed_by(&key, &ca).unwrap();
        fs::write(dir.join(format!("{file}.crt")), made.pem()).unwrap();
        fs::write(dir.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    }
}

/// Asks the server that runs for a backup.
fn backup(site: &Site, more: &[&str]) -> bool {
    let file = |name: &str| site.dir.path().join(name).display().to_string();
    let backup = tempfile::tempdir_in(site.dir.path()).unwrap();
    let mut command = std::process::Command::new(&Programs::for_tests().server);
    command.env_clear();
    command.args(["--data-dir", &file("data"), "--http-listen", &site.server.http.to_string()]);
    command.args(["--tls-cert-file", &file("server.crt"), "--tls-key-file", &file("server.key")]);
    command.args(["backup", &backup.path().join("backup").display().to_string()]);
    command.args(more).output().unwrap().status.success()
}

/// A server that wants to know who calls, and an agent without a token.
struct Site {
    dir: tempfile::TempDir,
    server: Server,
}

impl Site {
    fn start(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        certificates(dir.path());
        fs::write(dir.path().join("access.toml"), [TOKENS, CERTIFICATES].concat()).unwrap();
        let file = |name: &str| dir.path().join(name).display().to_string();
        let (access, cert, key) = (file("access.toml"), file("server.crt"), file("server.key"));
        let options = ["--access-file", &access, "--tls-cert-file", &cert, "--tls-key-file", &key];
        let data = dir.path().join("data");
        let ca = file("ca.crt");
        let more: Vec<&str> =
            more.iter().map(|option| if *option == "CA" { ca.as_str() } else { option }).collect();
        let server =
            Server::start_with(Programs::for_tests(), &data, &[&options[..], &more].concat()).unwrap();
        Self { dir, server }
    }

    fn agent(&self, token: &str) -> Agent {
        let url = format!("https://localhost:{}", self.server.grpc.port());
        let agent = Agent::new(Programs::for_tests(), url, &self.dir.path().join("spool"));
        let agent = agent.with("PLIMSOLL_CA", &self.dir.path().join("ca.crt").display().to_string());
        if token.is_empty() { agent } else { agent.with("PLIMSOLL_TOKEN", token) }
    }

    fn run(&self, token: &str, attempt: &str, project: &str) -> Answer {
        let options = format!("--attempt {attempt} --key package=p --key project={project}");
        self.agent(token).run(&options, "true")
    }
}

#[test]
fn over_tls_each_token_may_do_what_the_file_says_and_the_build_passes_whatever_it_says() {
    let site = Site::start(&[]);
    for (token, delivered) in
        [("", false), ("wrong", false), ("reader-secret", false), ("runner-secret", true)]
    {
        let ran = site.run(token, &format!("a{}", token.len()), "spack/packages");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(!ran.stderr.contains("kept"), delivered, "{token:?}: {}", ran.stderr);
    }
    let listed = site.agent("reader-secret").json(&["attempts"]);
    let attempts: Vec<_> =
        listed["attempts"].as_array().unwrap().iter().map(|one| one["attempt"].clone()).collect();
    assert!(attempts.contains(&"a13".into()), "{listed}");
    assert_eq!(site.agent("runner-secret").call(&["stats"]).code, Some(3), "an agent reads nothing");
    assert_eq!(site.agent("reader-secret").call(&["predict", "--key", "package=p"]).code, Some(3));
}

#[test]
fn where_a_certificate_is_required_a_client_without_one_is_sent_away_and_one_with_it_is_served() {
    let site = Site::start(&["--tls-client-ca-file", "CA", "--tls-client-required", "on"]);
    let refused = site.agent("reader-secret").call(&["attempts"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    let file = |name: &str| site.dir.path().join(name).display().to_string();
    let known = |agent: Agent| {
        agent
            .with("PLIMSOLL_CLIENT_CERT", &file("client.crt"))
            .with("PLIMSOLL_CLIENT_KEY", &file("client.key"))
    };
    let expired = site.agent("reader-secret").with("PLIMSOLL_CLIENT_CERT", &file("expired.crt"));
    let expired = expired.with("PLIMSOLL_CLIENT_KEY", &file("expired.key")).call(&["attempts"]);
    assert_eq!(expired.code, Some(3), "{expired:?}");
    let words = ["run", "--attempt", "ours", "--key", "package=p", "--", "true"];
    let ran = known(site.agent("")).call(&words);
    assert!(ran.code == Some(0) && !ran.stderr.contains("kept"), "{ran:?}");
    let listed = known(site.agent("reader-secret")).json(&["attempts"]);
    assert_eq!(listed["attempts"][0]["attempt"], "ours", "{listed}");
    assert!(!backup(&site, &[]), "a backup too takes a certificate");
    assert!(backup(&site, &["--client-cert", &file("operator.crt"), "--client-key", &file("operator.key")]));
    assert!(!backup(&site, &["--client-cert", &file("client.crt"), "--client-key", &file("client.key")]));
    let log = site.server.log().unwrap();
    let audited = |what: &str| log.lines().any(|line| line.contains("server::audit") && line.contains(what));
    assert!(audited("gave a backup") && audited("lacks the role operator"), "{log}");
}

#[test]
fn a_server_that_others_can_reach_does_not_start_in_plain_text_by_chance() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let open = ["--grpc-listen", "0.0.0.0:0"];
    let error = Server::start_with(Programs::for_tests(), &data, &open).unwrap_err().to_string();
    assert!(error.contains("grpc_listen") && error.contains("plain_text"), "{error}");
}
