//! Who may call: tokens and certificates, over TLS, and what they may do.

use std::{fs, path::Path};

use plimsoll_tests::{AccessFile, Agent, Answer, Programs, Server};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};

/// The tokens are `runner-secret`, `reader-secret` and `spack-secret`.
pub(crate) fn tokens() -> AccessFile {
    AccessFile::default()
        .named("runner", "runner-secret", &["agent", "caller"], "trusted = true")
        .named("dashboard", "reader-secret", &["reader"], "")
        .named("spack", "spack-secret", &["reader", "caller"], "projects = [\"spack/*\"]")
}

const CERTIFICATES: &str = r#"
    [[certificate]]
    dns_name = "runner-1.example.com"
    roles = ["agent"]

    [[certificate]]
    dns_name = "operator.example.com"
    roles = ["operator"]
"#;

/// Writes what a server with TLS needs, and certificates of clients, all signed by one CA.
fn certificates(dir: &Path) {
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
fn backup(site: &TlsSite, more: &[&str]) -> bool {
    let backup = tempfile::tempdir_in(site.dir.path()).unwrap();
    let mut command = Server::program();
    command.args(["--data-dir", &site.file("data"), "--http-listen", &site.server.http.to_string()]);
    command.args(["--tls-cert-file", &site.file("server.crt"), "--tls-key-file", &site.file("server.key")]);
    command.args(["backup", &backup.path().join("backup").display().to_string()]);
    Answer::of(command.args(more)).code == Some(0)
}

/// A server over TLS that authenticates callers.
pub(crate) struct TlsSite {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) server: Server,
}

impl TlsSite {
    /// With further options, in which `CA` is the file of the CA.
    pub(crate) fn start(access: &AccessFile, options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        certificates(dir.path());
        fs::write(dir.path().join("access.toml"), access.text()).unwrap();
        let server = Self::serve(dir.path(), "data", options);
        Self { dir, server }
    }

    /// A server of the site on this data.
    pub(crate) fn serve(dir: &Path, data: &str, options: &[&str]) -> Server {
        let file = |name: &str| dir.join(name).display().to_string();
        let (access, cert, key, ca) =
            (file("access.toml"), file("server.crt"), file("server.key"), file("ca.crt"));
        let tls = ["--access-file", &access, "--tls-cert-file", &cert, "--tls-key-file", &key];
        let more = options.iter().map(|option| if *option == "CA" { ca.as_str() } else { option });
        let options: Vec<&str> = tls.into_iter().chain(more).collect();
        Server::start_with(Programs::for_tests(), &dir.join(data), &options).unwrap()
    }

    /// A file of the site.
    pub(crate) fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// The agent with this token; without one if it is empty.
    pub(crate) fn agent(&self, token: &str) -> Agent {
        let url = format!("https://localhost:{}", self.server.grpc.port());
        let agent = Agent::new(Programs::for_tests(), url, &self.dir.path().join("spool"));
        let agent = agent.with("PLIMSOLL_CA", &self.file("ca.crt"));
        if token.is_empty() { agent } else { agent.with("PLIMSOLL_TOKEN", token) }
    }

    fn run(&self, token: &str, attempt: &str, project: &str) -> Answer {
        let options = format!("--attempt {attempt} --key package=p --key project={project}");
        self.agent(token).run(&options, "true")
    }
}

#[test]
fn over_tls_each_token_has_its_permissions() {
    let site = TlsSite::start(&tokens().table(CERTIFICATES), &[]);
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
fn required_client_certificates_are_enforced() {
    let options = ["--tls-client-ca-file", "CA", "--tls-client-required", "on"];
    let site = TlsSite::start(&tokens().table(CERTIFICATES), &options);
    let refused = site.agent("reader-secret").call(&["attempts"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    let file = |name: &str| site.file(name);
    let with = |agent: Agent, name: &str| {
        let agent = agent.with("PLIMSOLL_CLIENT_CERT", &file(&format!("{name}.crt")));
        agent.with("PLIMSOLL_CLIENT_KEY", &file(&format!("{name}.key")))
    };
    let known = |agent: Agent| with(agent, "client");
    let expired = with(site.agent("reader-secret"), "expired").call(&["attempts"]);
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
fn plain_text_on_public_addresses_must_be_explicit() {
    let (_dir, data) = plimsoll_support::temporary::file_name("data");
    let open = ["--grpc-listen", "0.0.0.0:0"];
    let error = Server::start_with(Programs::for_tests(), &data, &open).unwrap_err().to_string();
    assert!(error.contains("grpc_listen") && error.contains("plain_text"), "{error}");
}
