//! An issuer that signs tokens, for tests.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

/// Seconds since 1970, far from every expiry of a test.
pub(crate) const YEAR_2100: u64 = 4_102_444_800;

/// A key pair, and its id.
pub(crate) struct Signer {
    key_pair: EcdsaKeyPair,
    id: &'static str,
}

impl Signer {
    pub(crate) fn new() -> Self {
        Self::named("one")
    }

    pub(crate) fn named(id: &'static str) -> Self {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pair.as_ref(), &random);
        Self { key_pair: pair.unwrap(), id }
    }

    pub(crate) fn key_set(&self) -> String {
        let public = self.key_pair.public_key().as_ref();
        let (x, y) = (BASE64.encode(&public[1..33]), BASE64.encode(&public[33..]));
        json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "x": x, "y": y}]})
            .to_string()
    }

    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| BASE64.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let signature = self.key_pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", BASE64.encode(signature))
    }

    /// The token of a job of a protected ref, with a change.
    pub(crate) fn token(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut claims = json!({
            "iss": "https://gitlab.example.com", "aud": "plimsoll", "exp": YEAR_2100, "nbf": 1_700_000_000,
            "project_path": "spack/packages", "ref": "develop", "ref_protected": "true", "user_login": "eve", "job_id": "4711",
        });
        change(&mut claims);
        self.sign(&json!({"alg": "ES256", "kid": self.id}), &claims)
    }
}
