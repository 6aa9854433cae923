//! An issuer that answers in every way, and what becomes of its tokens.

use std::{collections::HashMap, fs, time::Duration};

use serde_json::json;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::task::TaskTracker;

use super::{
    fetch::{FetchFailure, KeySetAnswer, fetch_key_set},
    rotate::{FetchTerms, keep_each_issuer, keep_issuer_keys},
    *,
};
use crate::{
    access::identity::{Role, signer::Signer},
    fake_http::{FakeServer, respond_once},
    patience::eventually,
    runtime::{
        metrics::IssuerLabel,
        tls::{Certificate, Tls},
    },
};

/// Enough for a machine that stands still for a while.
const PATIENT: Duration = Duration::from_mins(2);
/// So that no test waits.
const FAST: FetchTerms = FetchTerms {
    answer_within: PATIENT,
    retry_after: Duration::ZERO,
    fresh: (Duration::from_millis(1), Duration::from_millis(1), Duration::from_millis(1)),
    backoff: (Duration::from_millis(1), Duration::from_millis(1)),
};

/// What is answered to a path: status line and headers, then the body. A path that is not there is never answered.
type Script = HashMap<String, (String, String)>;

struct Issuer {
    server: FakeServer,
    script: Arc<Mutex<Script>>,
}

impl Issuer {
    async fn start() -> Self {
        let script = Arc::new(Mutex::new(Script::new()));
        let answers = Arc::clone(&script);
        Self { server: FakeServer::start(move |head| respond(head, &answers.lock().unwrap())).await, script }
    }

    fn url(&self, path: &str) -> String {
        self.server.url(path)
    }

    fn says(&self, path: &str, head: &str, body: impl Into<String>) {
        self.script.lock().unwrap().insert(path.to_owned(), (head.to_owned(), body.into()));
    }

    /// Describes itself, with the address of its keys.
    fn describes(&self, keys: &str) {
        let description = json!({"issuer": self.url(""), "jwks_uri": keys});
        self.says("/.well-known/openid-configuration", "200 OK", description.to_string());
    }

    fn origin(&self) -> KeySetSource {
        KeySetSource { issuer: self.url(""), keys_url: None, ca_file: None, bearer_file: None }
    }

    fn keys_at(&self, path: &str) -> KeySetSource {
        KeySetSource { keys_url: Some(self.url(path)), ..self.origin() }
    }
}

/// The response to a request, if there is an answer to its path.
fn respond(head: &str, answers: &Script) -> Option<String> {
    let (head, body) = answers.get(head.split(' ').nth(1).unwrap())?;
    Some(format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n{body}"))
}

#[tokio::test]
async fn issuer_metadata_names_keys_and_their_lifetime() {
    let issuer = Issuer::start().await;
    issuer.describes(&issuer.url("/keys"));
    for (header, fresh) in [
        ("200 OK", None),
        ("200 OK\r\nCache-Control: public, max-age=86400", Some(Duration::from_hours(24))),
        ("200 OK\r\nCache-Control: max-age=5, No-Store", Some(Duration::ZERO)),
        ("200 OK\r\nCache-Control: max-age=soon", None),
    ] {
        issuer.says("/keys", header, "keys");
        let answer = fetch_key_set(&issuer.origin(), PATIENT).await.unwrap();
        assert_eq!(answer, KeySetAnswer { text: "keys".to_owned(), valid_for: fresh }, "{header}");
    }
}

#[tokio::test]
async fn faulty_issuer_answers_are_errors_by_kind() {
    let issuer = Issuer::start().await;
    let kind = async |origin: KeySetSource| fetch_key_set(&origin, PATIENT).await.unwrap_err().kind;
    let moved = format!("302 Found\r\nLocation: {}", issuer.url("/elsewhere"));
    issuer.says("/elsewhere", "200 OK", "keys");
    for (head, body, expected) in [
        ("500 Oh", String::new(), "refused"),
        (&*moved, String::new(), "refused"),
        ("200 OK", "x".repeat(256 * 1024 + 1), "too_large"),
        ("200 OK\r\nContent-Length: 1000", "half".to_owned(), "unreachable"),
    ] {
        issuer.says("/keys", head, body);
        assert_eq!(kind(issuer.keys_at("/keys")).await, expected, "{head}");
    }
    assert!(!issuer.server.heads().iter().any(|head| head.contains("/elsewhere")), "not followed");
    issuer.describes("http://keys.example.com/keys");
    assert_eq!(kind(issuer.origin()).await, "malformed", "keys in plain text from elsewhere");
    issuer.says("/.well-known/openid-configuration", "200 OK", "<html>");
    assert_eq!(kind(issuer.origin()).await, "malformed");
    let other = json!({"issuer": "https://other.example.com", "jwks_uri": issuer.url("/keys")});
    issuer.says("/.well-known/openid-configuration", "200 OK", other.to_string());
    assert_eq!(kind(issuer.origin()).await, "malformed", "another issuer's description");
    let slow = fetch_key_set(&issuer.keys_at("/never"), Duration::from_millis(50)).await;
    assert_eq!(slow.map_err(|FetchFailure { kind, .. }| kind), Err("slow"));
    let gone = issuer.keys_at("/keys");
    drop(issuer);
    assert_eq!(kind(gone).await, "unreachable");
}

#[tokio::test]
async fn the_bearer_token_goes_only_to_the_issuer() {
    let (issuer, other) = (Issuer::start().await, Issuer::start().await);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "cluster-secret\n").unwrap();
    let origin = KeySetSource { bearer_file: Some(file.path().to_owned()), ..issuer.origin() };
    other.says("/keys", "200 OK", "keys");
    issuer.describes(&other.url("/keys"));
    fetch_key_set(&origin, PATIENT).await.unwrap();
    assert!(!other.server.heads()[0].contains("cluster-secret"));
    assert!(issuer.server.heads()[0].contains("Bearer cluster-secret"));
    let missing = KeySetSource { bearer_file: Some("/nonexistent".into()), ..origin };
    assert_eq!(fetch_key_set(&missing, PATIENT).await.unwrap_err().kind, "files");
}

#[tokio::test]
async fn only_the_named_ca_authenticates_an_issuer() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(file("tls.crt"), made.cert.pem()).unwrap();
    fs::write(file("tls.key"), made.signing_key.serialize_pem()).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(file("other.crt"), other.cert.pem()).unwrap();
    let files = Certificate {
        setting: "",
        chain: file("tls.crt"),
        key: file("tls.key"),
        clients: None,
        protocols: &[],
    };
    let tls = Tls::new(files).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/keys", listener.local_addr().unwrap().port());
    let script =
        Script::from([("/keys".to_owned(), ("200 OK\r\nContent-Length: 4".to_owned(), "keys".to_owned()))]);
    let answering = async move |stream| {
        // who does not believe the certificate hangs up
        let Ok(stream) = tls.acceptor().accept(stream).await else { return };
        respond_once(stream, |head| respond(head, &script)).await;
    };
    let serving = TaskTracker::new().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            answering(stream).await;
        }
    });
    let by = async |ca: Option<&str>| {
        let ca_file = ca.map(file);
        let origin =
            KeySetSource { issuer: url.clone(), keys_url: Some(url.clone()), ca_file, bearer_file: None };
        fetch_key_set(&origin, PATIENT).await.map(|answer| answer.text).map_err(|trouble| trouble.kind)
    };
    assert_eq!(by(Some("tls.crt")).await.as_deref(), Ok("keys"));
    assert_eq!(by(Some("other.crt")).await, Err("unreachable"));
    assert_eq!(by(None).await, Err("unreachable"));
    assert_eq!(by(Some("tls.key")).await, Err("files"), "no CA in it: that is a mistake");
    assert_eq!(by(Some("missing")).await, Err("files"));
    serving.abort();
}

/// A server with an issuer whose keys are fetched.
struct Site {
    _dir: tempfile::TempDir,
    guard: Guard,
    metrics: Arc<Metrics>,
}

impl Site {
    fn new(issuer: &Issuer) -> Self {
        let (dir, path) = plimsoll_support::temporary::file_name("access.toml");
        let grant = "[[issuer.grant]]\nroles = [\"agent\"]\n";
        let head = format!(
            "[[issuer]]\nissuer = {:?}\nkind = \"gitlab\"\naudience = \"plimsoll\"\n",
            issuer.url("")
        );
        fs::write(&path, head + grant).unwrap();
        let metrics = Arc::new(Metrics::new());
        let guard = Guard::open(Some(path), Arc::clone(&metrics)).unwrap();
        Self { _dir: dir, guard, metrics }
    }

    fn check(&self, token: &str) -> Result<(), Denied> {
        self.guard.check(Some(&format!("Bearer {token}")), &[], Role::Agent, "test").map(|_identity| ())
    }

    /// Waits until so many questions to the issuer ended so.
    async fn asked(&self, kind: &'static str, times: u64) {
        let now = async || self.metrics.issuer_fetches.get_or_create(&KindLabel::of(kind)).get();
        let until = now().await + times;
        eventually("so many questions ended so", now, |count| *count >= until).await;
    }

    fn keeping(&self) -> JoinHandle<()> {
        let shared = Arc::clone(&self.guard.0);
        let (origin, fetched) = shared.origins.lock().unwrap().clone().into_iter().next().unwrap();
        TaskTracker::new().spawn(keep_issuer_keys(shared, origin, fetched, FAST))
    }
}

#[tokio::test]
async fn rotated_keys_are_adopted_and_survive_an_outage() {
    let (issuer, old, new) = (Issuer::start().await, Signer::named("one"), Signer::named("two"));
    let site = Site::new(&issuer);
    let name = issuer.url("");
    let token = |signer: &Signer| signer.token(|claims| claims["iss"] = json!(name));
    let (by_old, by_new) = (token(&old), token(&new));
    assert_eq!(site.check(&by_old), Err(Denied::NotNow));

    issuer.describes(&issuer.url("/keys"));
    issuer.says("/keys", "500 Oh", "");
    let keeping = site.keeping();
    site.asked("refused", 2).await;
    assert_eq!(site.check(&by_old), Err(Denied::NotNow), "no caller gets in by an outage");
    issuer.says("/keys", "200 OK", old.key_set());
    site.asked("fetched", 2).await;
    assert_eq!(site.check(&by_old), Ok(()));
    assert!(site.check(&by_new).is_err());
    for (head, body, kind) in [("503 Oh", "", "refused"), ("200 OK", "{\"keys\": []}", "malformed")] {
        issuer.says("/keys", head, body);
        site.asked(kind, 2).await;
        assert_eq!(site.check(&by_old), Ok(()), "the old keys serve on");
    }
    issuer.says("/keys", "200 OK", new.key_set());
    site.asked("fetched", 2).await;
    assert_eq!(site.check(&by_new), Ok(()));
    assert!(site.check(&by_old).is_err(), "a key that was taken back is not remembered");
    keeping.abort();
}

#[tokio::test]
async fn issuers_removed_from_the_file_are_not_fetched() {
    let (issuer, signer) = (Issuer::start().await, Signer::new());
    issuer.describes(&issuer.url("/keys"));
    issuer.says("/keys", "200 OK", signer.key_set());
    let site = Site::new(&issuer);
    let end = CancellationToken::new();
    let watching = TaskTracker::new().spawn(site.guard.clone().watch(end.clone()));
    site.asked("fetched", 1).await;
    let name = issuer.url("");
    assert_eq!(site.check(&signer.token(|claims| claims["iss"] = json!(name))), Ok(()));
    let until = site.metrics.issuer_keys_until.get_or_create(&IssuerLabel { issuer: name.clone() }).get();
    assert!(u64::try_from(until).unwrap() > site.guard.now(), "they serve until {until}");
    let is_shown = || site.metrics.encode().unwrap().contains("issuer_keys_until_timestamp_seconds{");
    assert!(is_shown());
    fs::write(site.guard.0.file.as_ref().unwrap(), "").unwrap();
    site.guard.reload_if_changed(true);
    assert!(site.guard.0.origins.lock().unwrap().is_empty());
    assert!(site.check(&signer.token(|claims| claims["iss"] = json!(name))).is_err());
    eventually("its keys are not shown any more", async || is_shown(), |shown| !shown).await;
    end.cancel();
    watching.await.unwrap().unwrap();
}

#[tokio::test]
async fn key_fetching_restarts_after_a_panic() {
    let issuer = Issuer::start().await;
    let site = Site::new(&issuer);
    let (times, begun) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let keep = |_origin, _fetched| {
        let (times, begun) = (Arc::clone(&times), Arc::clone(&begun));
        async move {
            assert!(times.fetch_add(1, Relaxed) > 0, "breaks the first time");
            begun.notify_one();
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = keep_each_issuer(&site.guard.0, Duration::ZERO, keep) => panic!("it never ends by itself"),
        () = begun.notified() => {}
    }
    assert_eq!(times.load(Relaxed), 2);
    assert_eq!(site.metrics.issuer_fetches.get_or_create(&KindLabel::of("broken")).get(), 1);
}
