//! An issuer of tokens on this machine: it signs, and serves its description and its keys as GitLab does.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

/// Signs tokens for jobs.
#[derive(Debug)]
pub struct Issuer {
    /// Its name, which is its address.
    pub url: String,
    pair: EcdsaKeyPair,
}

impl Issuer {
    /// Starts one; its thread ends with the process.
    pub fn start() -> anyhow::Result<Self> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let key = key.ok().context("no key can be made")?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random);
        let pair = pair.ok().context("no key can be made")?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let (x, y) = pair.public_key().as_ref().get(1..).context("no key")?.split_at(32);
        let (x, y) = (BASE64.encode(x), BASE64.encode(y));
        let keys =
            json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "one", "use": "sig", "x": x, "y": y}]});
        let about = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // one that is gone needs no answer
                let _gone = answer(stream, &about, &keys);
            }
        });
        Ok(Self { url, pair })
    }

    /// The token of a job, good for an hour, with these claims over the usual ones.
    pub fn token(&self, job: u64, claims: Value) -> String {
        let mut all = json!({
            "iss": self.url, "aud": "plimsoll", "exp": unix_now() + 3600, "ref": "develop", "ref_protected": "true",
            "user_login": "eve", "project_path": "spack/packages", "job_id": job.to_string(),
        });
        if let (Some(all), Value::Object(claims)) = (all.as_object_mut(), claims) {
            all.extend(claims);
        }
        let part = |value: &Value| BASE64.encode(value.to_string());
        let message = format!("{}.{}", part(&json!({"alg": "ES256", "kid": "one"})), part(&all));
        let signature = self.pair.sign(&SystemRandom::new(), message.as_bytes());
        let signature = signature.map(|signature| BASE64.encode(signature)).unwrap_or_default();
        format!("{message}.{signature}")
    }
}

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "tokens expire by the clock on the wall")]
pub fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn answer(mut stream: TcpStream, about: &Value, keys: &Value) -> std::io::Result<()> {
    let mut path = String::new();
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
        if let Some(asked) = line.strip_prefix("GET ") {
            asked.clone_into(&mut path);
        }
    }
    let body = if path.starts_with("/keys") { keys } else { about }.to_string();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}
