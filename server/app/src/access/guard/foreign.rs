//! What an issuer says of itself, for fuzzing.

use super::fetch::keys_address;
use crate::access::identity::safe_address;

/// Reads a description as that of the issuer that it may name.
pub(crate) fn read(text: &str) {
    if let Ok(url) = keys_address(text, "https://gitlab.example") {
        assert!(safe_address(&url).is_ok(), "keys are not fetched where others can change them: {url}");
    }
}
