//! The caller of an admitted call, in handlers.

use std::time::Duration;

use tonic::{Code, Request, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::access::{
    guard::Caller,
    identity::{Denied, Identity},
};

/// When to call again after a call was ended because its caller is no longer admitted.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The caller that the gate added; unknown if it added none.
pub(super) fn caller<T>(request: &Request<T>) -> Caller {
    request.extensions().get().cloned().unwrap_or_else(|| Identity::unknown().into())
}

/// The status `UNAVAILABLE` for a call whose caller is no longer admitted, so that a client reconnects soon: then a renewed token is accepted and
/// an expired one is refused.
pub(super) fn ended(denied: &Denied) -> Status {
    let details = ErrorDetails::with_retry_info(Some(RETRY_DELAY));
    Status::with_error_details(Code::Unavailable, format!("this call ends here: {denied}"), details)
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use axum::http::HeaderValue;

    use super::*;
    use crate::{
        access::{
            guard::Guard,
            identity::{Role, hash},
        },
        runtime::metrics::Metrics,
    };

    /// A caller with the token `secret`, which may have one stream, one call and one question for a verdict.
    pub(in crate::door) struct OneStream {
        dir: tempfile::TempDir,
        pub(in crate::door) guard: Guard,
        role: Role,
    }

    impl OneStream {
        pub(in crate::door) fn new(role: Role) -> Self {
            let (dir, path) = plimsoll_support::temporary::file_with("access.toml", Self::file(role, false));
            let guard = Guard::open(Some(path), Arc::new(Metrics::new())).unwrap();
            Self { dir, guard, role }
        }

        fn file(role: Role, trusted: bool) -> String {
            let (sha256, role) = (hash("secret"), role.as_str());
            format!(
                "[[token]]\nname = \"one\"\nsha256 = \"{sha256}\"\nroles = [\"{role}\"]\n\
                 trusted = {trusted}\nbounds = {{ streams = 1, calls = 1, verdicts = 1 }}\n"
            )
        }

        pub(in crate::door) fn caller(&self) -> Caller {
            let secret = HeaderValue::from_static("Bearer secret");
            Caller::admit(&self.guard, Some(&secret), Arc::default(), self.role, "test").unwrap()
        }

        /// The request, admitted.
        pub(in crate::door) fn ask<T>(&self, message: T) -> Request<T> {
            let mut request = Request::new(message);
            request.extensions_mut().insert(self.caller());
            request
        }

        /// Changes the caller's permissions.
        pub(in crate::door) fn change(&self) {
            std::fs::write(self.dir.path().join("access.toml"), Self::file(self.role, true)).unwrap();
            self.guard.reload_if_changed(true);
        }
    }

    #[test]
    fn an_unguarded_call_has_an_unknown_caller() {
        assert_eq!(*caller(&Request::new(())), Identity::unknown());
    }
}
