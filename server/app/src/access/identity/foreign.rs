//! Unverified tokens, and access files, as fuzz targets.

use super::{AccessFile, bearer, jwt, keys::KeySet};

/// Reads the text as a header, a token, a set of keys and a file of access.
pub(crate) fn read(text: &str) {
    if let Ok(token) = bearer(text) {
        assert!(token.len() <= text.len(), "a token is in its header");
    }
    assert!(jwt::verify_token(text, &[], 0).is_err(), "no issuer is trusted, so no token is");
    let _keys = KeySet::parse(text).is_ok();
    let _file = AccessFile::parse(text).is_ok();
}
