//! The public keys of an issuer: a JSON Web Key Set.

use std::collections::HashMap;

use jsonwebtoken::{
    AlgorithmFamily, DecodingKey,
    jwk::{Jwk, JwkSet, PublicKeyUse},
};

/// Most keys of one set. GitLab and Kubernetes have two or three.
const MAX_KEYS: usize = 64;

/// Public keys by their id.
#[derive(Debug, Default)]
pub(super) struct KeySet(HashMap<String, DecodingKey>);

impl KeySet {
    /// The signature keys of a set. Keys of unknown kinds are skipped, because an issuer may use
    /// newer kinds than this program knows.
    /// Errors: the text is not a key set, has no usable key or too many keys, or contains a private key.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let set: JwkSet =
            serde_json::from_str(text).map_err(|error| format!("is no JSON Web Key Set: {error}"))?;
        if set.keys.len() > MAX_KEYS {
            return Err(format!("has {} keys, at most {MAX_KEYS} are allowed", set.keys.len()));
        }
        let mut keys = HashMap::new();
        for jwk in set.keys.iter().filter(|jwk| jwk.common.public_key_use != Some(PublicKeyUse::Encryption)) {
            if let Some((id, key)) = key_with_id(jwk)? {
                keys.insert(id, key);
            }
        }
        if keys.is_empty() { Err("has no public key for signatures".to_owned()) } else { Ok(Self(keys)) }
    }

    /// The key with this id; without an id, the only key.
    pub(super) fn find(&self, id: Option<&str>) -> Option<&DecodingKey> {
        match id {
            Some(id) => self.0.get(id),
            None if self.0.len() == 1 => self.0.values().next(),
            None => None,
        }
    }
}

fn key_with_id(jwk: &Jwk) -> Result<Option<(String, DecodingKey)>, String> {
    let id = jwk.common.key_id.clone().unwrap_or_default();
    match DecodingKey::from_jwk(jwk) {
        // a symmetric key: a reader of the file could sign tokens with it
        Ok(key) if key.family() == AlgorithmFamily::Hmac => {
            Err(format!("has the secret key {id:?}; only public keys belong into it"))
        }
        Ok(key) => Ok(Some((id, key))),
        Err(_unknown_kind) => Ok(None),
    }
}
