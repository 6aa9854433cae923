//! Every line, right and wrong.

use std::{fs, net::TcpListener, path::Path, time::UNIX_EPOCH};

use plimsoll_core::domain::Bytes;
use plimsoll_proto::wrap::wrapped;
use plimsoll_store::{Store, StoreSettings, disk::DiskSpace};

use super::*;
use crate::runtime::{
    clock::Clock,
    settings::{MachineMemory, by_module::gitlab::BaseUrl},
};

/// Settings of a server that starts, with its data directory in `dir`.
fn sound(dir: &Path) -> Config {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    Config { data_dir: dir.join("data"), grpc_listen: free(), http_listen: free(), ..Config::default() }
}

/// What is said of one check, and whether it is all right.
fn checked(config: &Config, check: &str) -> (bool, String) {
    let lines = super::check(config).unwrap();
    let line = lines.into_iter().find(|line| line.check == check).unwrap();
    (line.is_ok(), line.finding)
}

fn assert_wrong(config: &Config, check: &str, words: &[&str]) {
    let (ok, says) = checked(config, check);
    assert!(!ok && words.iter().all(|word| says.contains(word)), "{check}: {says}");
}

fn assert_ok(config: &Config, check: &str, words: &[&str]) {
    let (ok, says) = checked(config, check);
    assert!(ok && words.iter().all(|word| says.contains(word)), "{check}: {says}");
}

/// A certificate that ends after so many days, and its key.
fn certificate(dir: &Path, days: u64) -> (std::path::PathBuf, std::path::PathBuf) {
    let (chain, key) = (dir.join("tls.crt"), dir.join("tls.key"));
    let mut asked = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let end = Clock.now_unix_ms() / 1000 + days * 86_400;
    asked.not_before = UNIX_EPOCH.into();
    asked.not_after = (UNIX_EPOCH + std::time::Duration::from_secs(end)).into();
    let pair = rcgen::KeyPair::generate().unwrap();
    fs::write(&chain, asked.self_signed(&pair).unwrap().pem()).unwrap();
    fs::write(&key, pair.serialize_pem()).unwrap();
    (chain, key)
}

#[test]
fn data_directory_states_are_each_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = sound(dir.path());
    assert!(checked(&config, "data directory").1.contains("no store yet"));
    assert!(!config.data_dir.try_exists().unwrap(), "nothing is made");
    let warns = |config: &Config, words: &str| {
        let (line, _) = disk::data_directory(&config.data_dir);
        let row = checks_text(&[line]);
        assert!(row.starts_with("warn ") && row.contains(words) && row.contains("right --data-dir"), "{row}");
    };
    warns(&config, "does not exist");
    fs::create_dir(&config.data_dir).unwrap();
    warns(&config, "is empty");
    fs::remove_dir(&config.data_dir).unwrap();
    let settings = StoreSettings { dir: config.data_dir.clone(), cache_bytes: 1 << 20 };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = Store::open(&settings).unwrap();
    let pid = std::process::id().to_string();
    assert_ok(&config, "data directory", &["is open in process", &pid]);
    // the address of the server that runs is no mistake; that of another program is one
    let taken = TcpListener::bind(config.grpc_listen).unwrap();
    assert_ok(&config, "gRPC address", &["is in use"]);
    runtime.block_on(store.close()).unwrap();
    assert_wrong(&config, "gRPC address", &["cannot listen on", "set another grpc_listen"]);
    drop(taken);
    assert_ok(&config, "data directory", &["holds the store", "no server has it open"]);
    fs::write(config.data_dir.join("plimsoll.json"), "{").unwrap();
    assert_wrong(&config, "data directory", &["plimsoll.json is damaged", "plimsoll-server repair"]);
    config.data_dir = dir.path().join("foreign");
    fs::create_dir(&config.data_dir).unwrap();
    fs::write(config.data_dir.join("report.txt"), "").unwrap();
    assert_wrong(&config, "data directory", &["not a plimsoll data directory", "report.txt"]);
    config.data_dir = dir.path().join("foreign/report.txt");
    assert_wrong(&config, "data directory", &["is not a directory"]);
    // root may write everywhere, so the system's answer is given
    let denied =
        disk::judge_writable(dir.path(), String::new(), &Err(io::ErrorKind::PermissionDenied.into()));
    assert!(!denied.is_ok(), "{denied:?}");
    assert!(denied.finding.contains("cannot be written (permission denied)"), "{denied:?}");
}

#[test]
fn space_memory_and_file_limits_name_their_minimum() {
    let dir = tempfile::tempdir().unwrap();
    let full = disk::judge_space(DiskSpace { free: 5 << 20, size: 1 << 30 }, dir.path());
    assert!(!full.is_ok() && full.finding.contains("make room, at least 1.00 GiB"), "{full:?}");
    assert!(disk::judge_space(DiskSpace { free: 2 << 30, size: 4 << 30 }, dir.path()).is_ok());
    let few = machine::judge_files(Some(1024));
    assert!(!few.is_ok() && few.finding.contains("LimitNOFILE"), "{few:?}");
    assert!(machine::judge_files(Some(1 << 20)).is_ok() && machine::judge_files(None).is_ok());
    let mut config = sound(dir.path());
    let machine = |bytes| Some(MachineMemory { bytes: Bytes(bytes), source: "memory.max".to_owned() });
    config.machine = machine(8 << 30);
    assert_ok(
        &config,
        "memory",
        &["the server takes up to", "with a full history; the machine has 8.00 GiB"],
    );
    (config.machine, config.history_memory) = (machine(300 << 20), Some(Bytes(480 << 20)));
    assert_wrong(&config, "memory", &["set history_memory to at most"]);
}

#[test]
fn access_file_errors_and_absence_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = sound(dir.path());
    assert_ok(&config, "access file", &["every caller may do everything", "only this machine"]);
    config.http_listen.set_ip("0.0.0.0".parse().unwrap());
    assert_wrong(&config, "access file", &["other machines can reach the server: set access_file"]);
    let path = dir.path().join("access.toml");
    config.access_file = Some(path.clone());
    let token = |roles: &str| {
        format!("[[token]]\nname = \"ci\"\nsha256 = \"{}\"\nroles = {roles}\n", "ab".repeat(32))
    };
    fs::write(&path, token("[\"agent\", \"caller\"]")).unwrap();
    assert_ok(
        &config,
        "access file",
        &["1 token, 0 issuers", "roles agent, caller", "without a proof: nothing"],
    );
    fs::write(&path, token("[\"agnt\"]")).unwrap();
    assert_wrong(&config, "access file", &["access.toml", "line 4", "expected one of `agent`"]);
    fs::remove_file(&path).unwrap();
    assert_wrong(&config, "access file", &["access.toml"]);
}

#[test]
fn expiring_and_invalid_certificates_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = sound(dir.path());
    assert_ok(&config, "certificate", &["no TLS", "only this machine"]);
    let (chain, key) = certificate(dir.path(), 90);
    (config.tls.certificate, config.tls.key) = (Some(chain.clone()), Some(key.clone()));
    (config.admission.certificate, config.admission.key) = (Some(chain.clone()), Some(key));
    config.admission.listen = Some(config.grpc_listen);
    for check in ["certificate", "hook's TLS"] {
        certificate(dir.path(), 90);
        assert_ok(&config, check, &["is good until"]);
        certificate(dir.path(), 3);
        assert_wrong(&config, check, &["ends at", "renew it"]);
        certificate(dir.path(), 0);
        assert_wrong(&config, check, &["renew it"]);
        fs::write(&chain, "nonsense").unwrap();
        assert_wrong(&config, check, &["tls.crt"]);
    }
}

#[test]
fn files_of_pools_and_rules_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = sound(dir.path());
    assert_ok(&config, "pools", &["no file"]);
    assert_ok(&config, "retry rules", &["those of the program"]);
    let path = dir.path().join("wrong.toml");
    fs::write(&path, "nonsense = [").unwrap();
    (config.pools_file, config.retry_policy) = (Some(path.clone()), Some(path));
    assert_wrong(&config, "pools", &["wrong.toml"]);
    assert_wrong(&config, "retry rules", &["wrong.toml"]);
}

#[test]
fn a_gitlab_that_does_not_answer_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = sound(dir.path());
    assert!(check(&config).unwrap().iter().all(|line| line.check != "GitLab"));
    // a port that was free a moment ago
    config.gitlab.url = Some(BaseUrl::parse(&format!("http://{}", config.grpc_listen)).unwrap());
    let token = dir.path().join("token");
    config.gitlab.token_file = Some(token.clone());
    assert_wrong(&config, "GitLab", &["gitlab_token_file", "names no file"]);
    fs::write(&token, "glpat-x").unwrap();
    assert_wrong(&config, "GitLab", &["127.0.0.1 cannot be reached", "check gitlab_url"]);
    for (status, words) in [
        ("200 OK", "takes the token; its own name is gitlab.example"),
        ("401 Unauthorized", "scope read_api"),
        ("302 Found", "status 302"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        config.gitlab.url = Some(BaseUrl::parse(&url).unwrap());
        let body = r#"[{"web_url":"https://gitlab.example/a/b"}]"#;
        let answer =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        let server = std::thread::spawn(move || {
            use std::io::Read as _;
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(head).unwrap().to_lowercase()
        });
        let (ok, says) = checked(&config, "GitLab");
        assert_eq!((ok, says.contains(words)), (status == "200 OK", true), "{status}: {says}");
        assert!(server.join().unwrap().contains("private-token: glpat-x"));
        assert!(!says.contains("glpat"), "{says}");
    }
}

#[test]
fn a_faulty_upstream_is_reported_without_its_password() {
    let dir = tempfile::tempdir().unwrap();
    let answer = |listener: TcpListener, body: &'static str| {
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut sent, mut bytes) = (Vec::new(), [0; 4096]);
            while !String::from_utf8_lossy(&sent).contains("</methodCall>") {
                let read = io::Read::read(&mut stream, &mut bytes).unwrap();
                assert!(read > 0, "the call is cut: {}", String::from_utf8_lossy(&sent));
                sent.extend_from_slice(&bytes[..read]);
            }
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all((head + body).as_bytes()).unwrap();
        })
    };
    let waits = "<methodResponse><params><param><value><struct><member><name>ready</name><value><nil/></value></member></struct></value></param></params></methodResponse>";
    for (body, words) in
        [(waits, "answers"), ("<html/>", "does not answer as Resalloc does"), ("", "cannot be reached")]
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pools = dir.path().join("pools.toml");
        fs::write(&pools, format!("[[pool]]\nname = \"u\"\nupstream = \"http://ann:s3cret@{address}\"\n"))
            .unwrap();
        let config = Config { pools_file: Some(pools), ..sound(dir.path()) };
        // without a body, nothing listens
        let server = (!body.is_empty()).then(|| answer(listener, body));
        let (ok, says) = checked(&config, "upstream");
        assert_eq!((ok, says.contains(words)), (body == waits, true), "{says}");
        assert!(says.contains(&format!("http://{address}/RPC2")) && !says.contains("s3cret"), "{says}");
        if let Some(server) = server {
            server.join().unwrap();
        }
    }
}

#[test]
fn the_rows_fit_eighty_columns() {
    let dir = tempfile::tempdir().unwrap();
    let lines = check(&sound(dir.path())).unwrap();
    let shown = wrapped(&checks_text(&lines), 80);
    assert!(shown.lines().all(|line| line.chars().count() <= 80 || !line.trim().contains(' ')), "{shown}");
    assert!(shown.starts_with("warn  data directory  "), "{shown}");
}
