//! The fetched keys of an issuer, and how long they are used. Sends no request: `access::guard`
//! fetches them and stores them here.
//!
//! | the issuer | its tokens |
//! |---|---|
//! | answers | are checked with its keys |
//! | does not answer | are checked with the last fetched keys, until those are a day old |
//! | has not answered for longer | cannot be checked, so they are refused |

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use jsonwebtoken::DecodingKey;
use tokio::sync::Notify;

use super::keys::KeySet;

/// How long keys are used after they were fetched, seconds. Long enough for an outage over night;
/// short enough that a revoked key stops working.
pub(crate) const KEYS_VALID_FOR: u64 = 24 * 60 * 60;
/// Least time between two requests caused by unknown keys, seconds, so that tokens with invented
/// key ids cannot cause a flood of requests.
pub(crate) const REFETCH_AFTER: u64 = 10;

/// Where the keys of an issuer are fetched from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct KeySetSource {
    /// The issuer, as in the claim `iss`.
    pub(crate) issuer: String,
    /// Address of the key set; `None`: the issuer's description has it (`OpenID` Connect Discovery
    /// 1.0, section 4).
    pub(crate) keys_url: Option<String>,
    /// PEM file of the CA that signed the issuer's certificate, in addition to the system's CAs.
    pub(crate) ca_file: Option<PathBuf>,
    /// File with a token that the issuer requires, as Kubernetes does.
    pub(crate) bearer_file: Option<PathBuf>,
}

/// Why a key was not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingKey {
    /// The issuer has no key with this id.
    Unknown,
    /// The issuer may have the key, but a request for its keys is running or has failed.
    NotNow,
}

/// The keys that were fetched last.
#[derive(Debug, Default)]
pub(crate) struct FetchedKeys {
    keys: RwLock<Option<HeldKeys>>,
    last_request: Mutex<LastRequest>,
    wanted_notify: Notify,
}

#[derive(Debug)]
struct HeldKeys {
    text: String,
    keys: Arc<KeySet>,
    /// When these keys expire, seconds since 1970.
    until: u64,
}

#[derive(Debug, Default)]
struct LastRequest {
    /// Time of the last request, seconds since 1970.
    at: u64,
    /// Whether the request is still running.
    is_running: bool,
}

impl FetchedKeys {
    /// Records that a request has started.
    pub(crate) fn request_started(&self, now: u64) {
        *self.last_request.lock().unwrap_or_else(PoisonError::into_inner) =
            LastRequest { at: now, is_running: true };
    }

    /// Records that a request has ended, with or without an answer.
    pub(crate) fn request_ended(&self) {
        self.last_request.lock().unwrap_or_else(PoisonError::into_inner).is_running = false;
    }

    /// Stores a key set; returns whether it is new.
    /// Errors: the text is not a key set. The previous key set stays in use until it expires.
    pub(crate) fn store_keys(&self, text: String, now: u64) -> Result<bool, String> {
        let keys = Arc::new(KeySet::parse(&text)?);
        let held = HeldKeys { text, keys, until: now.saturating_add(KEYS_VALID_FOR) };
        let mut place = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = place.as_ref().is_none_or(|before| before.text != held.text);
        *place = Some(held);
        Ok(is_new)
    }

    /// When the last fetched keys expire, seconds since 1970; 0 if there are none.
    pub(crate) fn valid_until(&self) -> u64 {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, |held| held.until)
    }

    pub(crate) fn has_usable_keys(&self, now: u64) -> bool {
        self.keys(now).is_some()
    }

    /// Waits until a caller needs a key that is missing.
    pub(crate) async fn keys_wanted(&self) {
        self.wanted_notify.notified().await;
    }

    /// The key with this id, and until when it may be used, seconds since 1970. If the key is
    /// missing, wakes the task in [`Self::keys_wanted`].
    pub(super) fn find(&self, id: Option<&str>, now: u64) -> Result<(DecodingKey, u64), MissingKey> {
        let held = self.keys(now);
        let known = held.as_ref().and_then(|(keys, until)| Some((keys.find(id)?.clone(), *until)));
        known.ok_or_else(|| {
            let asked = self.last_request.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = now >= asked.at.saturating_add(REFETCH_AFTER);
            if is_due && !asked.is_running {
                self.wanted_notify.notify_one();
            }
            if held.is_none() || is_due || asked.is_running {
                MissingKey::NotNow
            } else {
                MissingKey::Unknown
            }
        })
    }

    fn keys(&self, now: u64) -> Option<(Arc<KeySet>, u64)> {
        let held = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().filter(|held| now < held.until).map(|held| (Arc::clone(&held.keys), held.until))
    }
}

/// Checks that an attacker on the network cannot replace keys fetched from this address.
/// Errors: the address is not allowed; the text describes an allowed one.
pub(crate) fn safe_address(address: &str) -> Result<(), String> {
    if address.contains('@') {
        // the text does not quote the address, because it may contain a password
        return Err("must be an address without a user or a password".to_owned());
    }
    // the text does not quote the address: a secret may have been written in its place
    let wrong = || "must be an address with https:// (http:// only on this machine)".to_owned();
    let uri: axum::http::Uri = address.parse().map_err(|_unhelpful| wrong())?;
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_here =
        host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
    let is_safe = match uri.scheme_str() {
        Some("https") => !host.is_empty(),
        Some("http") => is_here,
        _ => false,
    };
    if is_safe && uri.authority().is_some() { Ok(()) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = r#"{"keys": [{"kty": "RSA", "kid": "one", "n": "AQAB", "e": "AQAB"}]}"#;

    #[test]
    fn keys_survive_an_outage_until_they_expire() {
        let fetched = FetchedKeys::default();
        let find = |id, now| fetched.find(Some(id), now).map(|(_key, until)| until);
        assert_eq!(find("one", 100), Err(MissingKey::NotNow), "never fetched");
        fetched.request_started(100);
        assert_eq!(fetched.store_keys(SET.to_owned(), 100), Ok(true));
        fetched.request_ended();
        assert_eq!(find("one", 100 + KEYS_VALID_FOR - 1), Ok(100 + KEYS_VALID_FOR));
        assert!(fetched.store_keys("<html>".to_owned(), 5000).is_err());
        let found = find("one", 100 + KEYS_VALID_FOR - 1);
        assert_eq!(found, Ok(100 + KEYS_VALID_FOR), "what is no key set takes nothing away");
        assert_eq!(find("one", 100 + KEYS_VALID_FOR), Err(MissingKey::NotNow));
        assert_eq!(fetched.store_keys(SET.to_owned(), 200 + KEYS_VALID_FOR), Ok(false));
        assert!(find("one", 200 + KEYS_VALID_FOR).is_ok());
    }

    #[tokio::test]
    async fn an_unknown_key_is_fetched_once_per_interval() {
        let fetched = FetchedKeys::default();
        let find = |now| fetched.find(Some("two"), now).map(|_found| ()).unwrap_err();
        fetched.store_keys(SET.to_owned(), 100).unwrap();
        fetched.request_started(100);
        assert_eq!(find(101), MissingKey::NotNow, "it is being asked");
        fetched.request_ended();
        assert_eq!(find(101), MissingKey::Unknown, "it was asked just now");
        let wanted =
            |time| tokio::time::timeout(std::time::Duration::from_millis(time), fetched.keys_wanted());
        assert!(wanted(1).await.is_err());
        assert_eq!(find(100 + REFETCH_AFTER), MissingKey::NotNow);
        assert!(wanted(60_000).await.is_ok());
    }

    #[test]
    fn keys_come_over_tls_or_from_this_machine() {
        for good in
            ["https://gitlab.example.com", "http://127.0.0.1:80/x", "http://[::1]:1/", "http://localhost"]
        {
            assert_eq!(safe_address(good), Ok(()));
        }
        for wrong in [
            "http://gitlab.example.com",
            "ftp://localhost",
            "https://",
            "x",
            "",
            "https://a:b@x",
            "http://localhost.evil",
        ] {
            assert!(safe_address(wrong).is_err(), "{wrong}");
        }
    }
}
