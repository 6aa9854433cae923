//! Why a caller is refused.

use std::sync::Arc;

use super::Roles;

/// Why a caller is refused. The text is sent to the caller: it helps legitimate callers and reveals
/// nothing to an attacker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    /// There is no proof of identity.
    #[error("nothing says who calls: send a token (authorization: Bearer ...) or a client certificate")]
    Unidentified,
    /// The proof is not accepted.
    #[error("the token {0}")]
    NotAccepted(&'static str),
    /// The issuer named in the token does not answer, so the token cannot be checked.
    #[error("the token cannot be checked at the moment; retry later")]
    NotNow,
    /// The proof is valid, but no grant in the access file matches it.
    #[error("the token is good, but nothing is granted to its claims")]
    NoGrant,
    /// The caller was admitted, but its permissions have changed since.
    #[error("what the token may do has changed; come back")]
    Changed,
    /// The caller lacks the role.
    #[error("{name} lacks the role {}, which the access file grants", roles.words())]
    NotAllowed { name: Arc<str>, roles: Roles },
}

impl Denied {
    /// Name of the reason in metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Unidentified => "nobody",
            Self::NotAccepted(_) => "not_accepted",
            Self::NotNow => "not_now",
            Self::NoGrant => "no_grant",
            Self::Changed => "changed",
            Self::NotAllowed { .. } => "not_allowed",
        }
    }
}
