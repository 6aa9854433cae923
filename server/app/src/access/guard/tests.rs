//! Files that change, and issuers that answer in every way.

use std::fs;

use axum::http::HeaderValue;

use super::*;
use crate::access::identity::{Role, signer::Signer};

/// SHA-256 of `secret`.
const SECRET: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

fn file(role: &str) -> String {
    format!("[[token]]\nname = \"one\"\nsha256 = \"{SECRET}\"\nroles = [\"{role}\"]\n")
}

#[test]
fn valid_changes_are_loaded_and_invalid_ones_ignored() {
    let (_dir, path) = plimsoll_support::temporary::file_with("access.toml", file("reader"));
    let metrics = Arc::new(Metrics::new());
    let guard = Guard::open(Some(path.clone()), Arc::clone(&metrics)).unwrap();
    let may = |role| guard.check(Some("Bearer secret"), &[], role, "test").is_ok();
    assert!(may(Role::Reader) && !may(Role::Agent));
    fs::write(&path, file("reader") + "nonsense = 1\n").unwrap();
    guard.reload_if_changed(false);
    assert!(may(Role::Reader) && !may(Role::Agent));
    assert_eq!(metrics.access_file_refused.get(), 1);
    fs::write(&path, file("agent")).unwrap();
    guard.reload_if_changed(false);
    assert!(may(Role::Agent) && !may(Role::Reader));
    assert_eq!((metrics.access_file_refused.get(), metrics.access_callers.get()), (0, 1));
    let count = |kind| metrics.access_reloads.get_or_create(&KindLabel::of(kind)).get();
    assert_eq!((count("taken"), count("refused")), (1, 1));
    fs::remove_file(&path).unwrap();
    guard.reload_if_changed(false);
    assert!(may(Role::Agent), "a file that is gone for a moment neither lets in nor shuts out any caller");
}

#[tokio::test]
async fn a_stream_ends_when_its_callers_access_changes() {
    let (_dir, path) = plimsoll_support::temporary::file_name("access.toml");
    let other = |role| format!("[[certificate]]\ndns_name = \"x\"\nroles = [\"{role}\"]\n");
    fs::write(&path, file("agent") + &other("agent")).unwrap();
    let guard = Guard::open(Some(path.clone()), Arc::new(Metrics::new())).unwrap();
    let secret = HeaderValue::from_static("Bearer secret");
    let pass = Caller::admit(&guard, Some(&secret), Arc::default(), Role::Agent, "test").unwrap();
    let mut over = std::pin::pin!(pass.admission_ended());
    let ended = async |over: std::pin::Pin<&mut _>| {
        tokio::time::timeout(std::time::Duration::from_millis(20), over).await.ok()
    };
    fs::write(&path, file("agent") + &other("reader")).unwrap();
    guard.reload_if_changed(true);
    assert_eq!((ended(over.as_mut()).await, pass.check()), (None, Ok(())));
    fs::write(&path, file("agent") + "trusted = true\n").unwrap();
    guard.reload_if_changed(true);
    assert_eq!((ended(over.as_mut()).await, pass.check()), (Some(Denied::Changed), Err(Denied::Changed)));
    fs::write(&path, "").unwrap();
    guard.reload_if_changed(true);
    assert!(matches!(pass.admission_ended().await, Denied::NotAccepted(_)));
}

#[tokio::test]
async fn a_stream_ends_when_its_token_expires() {
    let dir = tempfile::tempdir().unwrap();
    let (path, signer) = (dir.path().join("access.toml"), Signer::new());
    fs::write(dir.path().join("keys.json"), signer.key_set()).unwrap();
    let issuer =
        "[[issuer]]\nissuer = \"https://gitlab.example.com\"\nkind = \"gitlab\"\naudience = \"plimsoll\"\n";
    fs::write(&path, format!("{issuer}keys_file = \"keys.json\"\ngrant = [{{ roles = [\"agent\"] }}]\n"))
        .unwrap();
    let guard = Guard::open(Some(path), Arc::new(Metrics::new())).unwrap();
    // 60 s are what clocks may differ by
    let token = signer.token(|claims| claims["exp"] = serde_json::json!(guard.now() - 60 + 2));
    let token = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    let pass = Caller::admit(&guard, Some(&token), Arc::default(), Role::Agent, "test").unwrap();
    assert_eq!(pass.check(), Ok(()));
    assert_eq!(pass.admission_ended().await, Denied::NotAccepted("has expired"));
    assert_eq!(pass.check(), Err(Denied::NotAccepted("has expired")));
}

#[test]
fn refusals_are_counted_by_reason() {
    let (_dir, path) = plimsoll_support::temporary::file_with("access.toml", file("reader"));
    let metrics = Arc::new(Metrics::new());
    let guard = Guard::open(Some(path), Arc::clone(&metrics)).unwrap();
    for authorization in [None, Some("Bearer wrong"), Some("Digest x"), Some("Basic ???")] {
        assert!(guard.check(authorization, &[], Role::Reader, "test").is_err(), "{authorization:?}");
    }
    // what browsers and Prometheus can send: any name, the token as password
    assert!(guard.check(Some("Basic YW55Ym9keTpzZWNyZXQ="), &[], Role::Reader, "test").is_ok());
    let count = |kind| metrics.access_refused.get_or_create(&KindLabel::of(kind)).get();
    assert_eq!((count("nobody"), count("not_accepted")), (1, 3));
}
