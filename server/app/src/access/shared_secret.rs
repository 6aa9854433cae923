//! Authenticates GitLab's webhooks: by a secret token that is sent unchanged (`X-Gitlab-Token`), or
//! by a signature with a signing token (the scheme of Standard Webhooks: `webhook-id`,
//! `webhook-timestamp`, `webhook-signature`). A file may contain several tokens, one a line, so
//! that a token can be replaced without losing hooks.

use std::{fmt, hint::black_box, path::Path, sync::Arc};

use anyhow::{bail, ensure};
use axum::http::HeaderMap;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use plimsoll_core::domain::FieldViolation;
use ring::hmac;

use crate::runtime::reload;

/// Most tokens in a file: those in force, and their replacements.
const MAX_TOKENS: usize = 8;
/// Prefix of a signing token; the key follows in base64.
const SIGNING_PREFIX: &str = "whsec_";
/// Shortest key of a signing token, bytes; GitLab's have 32.
const KEY_BYTES: usize = 16;
/// Shortest secret in a path, bytes.
const PATH_BYTES: usize = 16;
/// Most difference between the time in a signature and the server's clock: a copied webhook is
/// accepted for no longer.
const MAX_SKEW_MS: u64 = 5 * 60 * 1000;
/// Most signatures of one webhook that are checked: one for each token that GitLab may have.
const MAX_SIGNATURES: usize = 8;

/// Secret tokens. A webhook must send one of them. They are never logged.
#[derive(Clone)]
pub(crate) struct SharedTokens(Arc<[Vec<u8>]>);

impl fmt::Debug for SharedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedTokens")
    }
}

impl SharedTokens {
    /// Reads the lines of a file, without surrounding white space.
    /// Errors: the file cannot be read, or is empty.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let lines = read_secrets(path)?;
        Ok(Self(lines.into_iter().map(String::into_bytes).collect()))
    }

    /// Like [`Self::read`], for the path that the API server calls: Kubernetes allows only characters of DNS names there.
    /// Errors: the file cannot be read or is empty, or a token is too short, too long or has other characters.
    pub(crate) fn read_for_path(path: &Path) -> anyhow::Result<Self> {
        let token = Self::read(path)?;
        let fits = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
        let is_one = |line: &Vec<u8>| (PATH_BYTES..=64).contains(&line.len()) && line.iter().all(fits);
        ensure!(
            token.0.iter().all(is_one),
            "{} must hold {PATH_BYTES} to 64 lower-case letters, digits and -: openssl rand -hex 16",
            path.display()
        );
        Ok(token)
    }

    /// Whether `given` is one of the tokens. The time of the comparison reveals only the length of
    /// a token.
    pub(crate) fn matches(&self, given: &[u8]) -> bool {
        self.0.iter().fold(false, |found, token| found | is_equal(token, given))
    }
}

fn is_equal(token: &[u8], given: &[u8]) -> bool {
    let differing = token.iter().zip(given).fold(0, |bits, (a, b)| bits | black_box(a ^ b));
    token.len() == given.len() && black_box(differing) == 0
}

/// Signing keys. A webhook must be signed with one of them.
#[derive(Clone)]
pub(crate) struct SigningKeys(Arc<[hmac::Key]>);

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKeys")
    }
}

impl SigningKeys {
    /// Reads the signing tokens in a file.
    /// Errors: the file cannot be read, is empty, or has a line that is not a signing token.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let mut keys = Vec::new();
        for (at, line) in read_secrets(path)?.iter().enumerate() {
            let key = line.strip_prefix(SIGNING_PREFIX).and_then(|text| BASE64_STANDARD.decode(text).ok());
            match key.filter(|key| key.len() >= KEY_BYTES) {
                Some(key) => keys.push(hmac::Key::new(hmac::HMAC_SHA256, &key)),
                None => bail!(
                    "{}:{}: is no signing token; copy it from GitLab, it begins with {SIGNING_PREFIX}",
                    path.display(),
                    at + 1
                ),
            }
        }
        Ok(Self(keys.into()))
    }

    /// Checks that the body was signed with one of the keys, and within the last minutes.
    /// Errors: A header is missing or wrong; the error names it.
    pub(crate) fn check(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now_unix_ms: u64,
    ) -> Result<(), FieldViolation> {
        let header = |name: &'static str| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.ok_or_else(|| {
                FieldViolation::new(name, "is missing; hooks must be signed here (collect_signing_file)")
            })
        };
        let (id, time) = (header("webhook-id")?, header("webhook-timestamp")?);
        let value = header("webhook-signature")?;
        let seconds = time.parse::<u64>().ok();
        let is_near =
            seconds.is_some_and(|time| time.saturating_mul(1000).abs_diff(now_unix_ms) <= MAX_SKEW_MS);
        if !is_near {
            let rule = "is not a time of the last five minutes, in seconds since 1970; compare the clocks";
            return Err(FieldViolation::new("webhook-timestamp", rule));
        }
        // a dot would allow another id and time with the same signed text
        if id.is_empty() || id.contains('.') {
            return Err(FieldViolation::new("webhook-id", "must be an id without dots, as GitLab sends it"));
        }
        let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
        let signatures = value.split_whitespace().take(MAX_SIGNATURES);
        let of_ours = signatures.filter_map(|value| BASE64_STANDARD.decode(value.strip_prefix("v1,")?).ok());
        // no comparison stops early, so that its time reveals nothing
        let found = of_ours.fold(false, |found, signature| {
            self.0.iter().fold(found, |found, key| found | hmac::verify(key, &signed, &signature).is_ok())
        });
        found.then_some(()).ok_or_else(|| {
            FieldViolation::new("webhook-signature", "was not made with a token in collect_signing_file")
        })
    }
}

fn read_secrets(path: &Path) -> anyhow::Result<Vec<String>> {
    let text = reload::secret_text(path)?;
    let lines: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect();
    ensure!(!lines.is_empty(), "{} is empty; write the hook's token into it", path.display());
    ensure!(lines.len() <= MAX_TOKENS, "{} holds more than {MAX_TOKENS} tokens", path.display());
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn tokens_match_exactly_and_are_not_shown() {
        let token = SharedTokens::read(file("secret\n\n older \n").path()).unwrap();
        assert!(token.matches(b"secret") && token.matches(b"older"));
        for other in [b"secreT".as_slice(), b"secret ", b"secre", b"", b"xsecret", b"secret\nolder"] {
            assert!(!token.matches(other), "{other:?}");
        }
        assert!(!format!("{token:?}").contains("secret"));
        assert!(SharedTokens::read(file(" \n").path()).is_err());
        assert!(SharedTokens::read(Path::new("/")).is_err());
        let itself =
            [SharedTokens::read(Path::new("s3cret")).err(), SigningKeys::read(Path::new("s3cret")).err()];
        for error in itself.map(|error| format!("{:#}", error.unwrap())) {
            assert!(error.contains("names no file") && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn path_secrets_must_be_long_and_url_safe() {
        let read =
            |text: &str| SharedTokens::read_for_path(file(text).path()).map_err(|error| error.to_string());
        assert!(read("0123456789abcdef\n").unwrap().matches(b"0123456789abcdef"));
        for wrong in ["s3cret-s3cret-s", "S3CRET-S3CRET-S3CRET", "s3cret/s3cret/s3cret", &"s3cret".repeat(11)]
        {
            let error = read(wrong).unwrap_err();
            assert!(error.contains("must hold 16 to 64") && !error.contains("s3cret"), "{error}");
        }
    }

    const NOW: u64 = 1_700_000_000;
    const KEYS: [&[u8]; 2] = [b"test-test-test-test-test-test-te", b"best-best-best-best-best-best-be"];

    fn signing(key: &[u8]) -> String {
        format!("{SIGNING_PREFIX}{}", BASE64_STANDARD.encode(key))
    }

    /// As GitLab signs.
    fn signed(key: &[u8], time: &str, body: &str) -> HeaderMap {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        let tag = hmac::sign(&key, format!("id-1.{time}.{body}").as_bytes());
        let signature = format!("v1a,xx v1,!! v1,{}", BASE64_STANDARD.encode(tag));
        let all = [("webhook-id", "id-1"), ("webhook-timestamp", time), ("webhook-signature", &signature)];
        all.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()))
            .into_iter()
            .collect()
    }

    #[test]
    fn signatures_bind_body_time_and_key() {
        let both = file(&format!("{}\n{}\n", signing(KEYS[0]), signing(KEYS[1])));
        let signing = SigningKeys::read(both.path()).unwrap();
        let check = |headers: &HeaderMap, body: &str| {
            signing.check(headers, body.as_bytes(), NOW * 1000).map_err(|fault| fault.field)
        };
        let now = NOW.to_string();
        for key in KEYS {
            assert_eq!(check(&signed(key, &now, "{}"), "{}"), Ok(()));
        }
        let signature = || Err("webhook-signature".into());
        assert_eq!(check(&signed(KEYS[0], &now, "{}"), "{ }"), signature());
        assert_eq!(check(&signed(b"another-another-another", &now, "{}"), "{}"), signature());
        for time in [NOW - 301, NOW + 301, 0, u64::MAX] {
            let headers = signed(KEYS[0], &time.to_string(), "{}");
            assert_eq!(check(&headers, "{}"), Err("webhook-timestamp".into()), "{time}");
        }
        assert_eq!(check(&signed(KEYS[0], "soon", "{}"), "{}"), Err("webhook-timestamp".into()));
        let mut moved = signed(KEYS[0], &now, "{}");
        moved.insert("webhook-id", HeaderValue::from_static("id-2"));
        assert_eq!(check(&moved, "{}"), signature());
        // signed as id-1 at the time 5 with a body that begins with a time
        let mut shifted = signed(KEYS[0], "5", &format!("{now}.{{}}"));
        shifted.insert("webhook-id", HeaderValue::from_static("id-1.5"));
        shifted.insert("webhook-timestamp", HeaderValue::from_str(&now).unwrap());
        assert_eq!(check(&shifted, "{}"), Err("webhook-id".into()));
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            let mut headers = signed(KEYS[0], &now, "{}");
            headers.remove(name);
            assert_eq!(check(&headers, "{}"), Err(name.into()));
        }
    }

    #[test]
    fn only_signing_tokens_are_taken_for_one() {
        for wrong in ["", "secret", "whsec_", "whsec_!!", "whsec_c2hvcnQ="] {
            let error = SigningKeys::read(file(wrong).path()).unwrap_err().to_string();
            assert!(wrong.len() < 7 || !error.contains("c2hvcnQ"), "{error}");
        }
    }
}
