//! An issuer's description, as a fuzz target.

use super::fetch::keys_address;
use crate::access::identity::safe_address;

/// Parses a description as that of the issuer it names.
pub(crate) fn read(text: &str) {
    if let Ok(url) = keys_address(text, "https://gitlab.example") {
        assert!(safe_address(&url).is_ok(), "keys are not fetched where others can change them: {url}");
    }
}
