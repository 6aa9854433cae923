//! Why a caller is not let in.

use std::sync::Arc;

use super::Roles;

/// Why a caller gets no answer. The text is for the caller: it helps the honest and tells an attacker nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    /// Nothing says who calls.
    #[error("nothing says who calls: send a token (authorization: Bearer ...) or a client certificate")]
    Unidentified,
    /// What says who calls is not believed.
    #[error("the token {0}")]
    NotAccepted(&'static str),
    /// Who may have signed it does not answer.
    #[error("the token cannot be checked at the moment; retry later")]
    NotNow,
    /// It is believed, and nothing is granted to it.
    #[error("the token is good, but nothing is granted to its claims")]
    NoGrant,
    /// It was let in, and may do something else by now.
    #[error("what the token may do has changed; come back")]
    Changed,
    /// It may do other things.
    #[error("{name} lacks the role {}, which the access file grants", roles.words())]
    NotAllowed { name: Arc<str>, roles: Roles },
}

impl Denied {
    /// Its name in metrics.
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
