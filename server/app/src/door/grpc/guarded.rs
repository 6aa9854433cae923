//! Authorizes calls. The identity of an admitted caller is added to its request.

use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tonic::{Code, Request, Status, codegen::http};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{
    access::{
        Refusal,
        guard::{Caller, Guard},
        identity::{Denied, Identity, UsageSlot},
    },
    door::{
        admission::{self, Asked, NotAdmitted},
        net::{Peer, RunningRequest},
        permissions::Endpoint,
    },
};

/// When to call again after a call was ended because its caller is no longer admitted.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The slots that an admitted call holds.
#[derive(Debug, Default)]
pub(super) struct CallSlots {
    /// The count among the requests of its connection; `None` for rpcs without a role.
    pub(super) request: Option<RunningRequest>,
    /// The slot among the concurrent calls of the caller.
    pub(super) call: UsageSlot,
    /// The slot of a call of reflection.
    pub(super) reflection: Option<OwnedSemaphorePermit>,
}

/// The caller that [`admit`] added; unknown if it added none.
pub(super) fn caller<T>(request: &Request<T>) -> Caller {
    request.extensions().get().cloned().unwrap_or_else(|| Identity::unknown().into())
}

/// Adds the caller of an rpc to the request. Returns the slots that the call must hold.
///
/// # Errors
/// The caller is not admitted, or exceeds a bound; the status is the answer.
pub(super) fn admit<R>(
    guard: &Guard,
    rpc: &Endpoint,
    request: &mut http::Request<R>,
) -> Result<CallSlots, Status> {
    let roles = rpc.who.roles();
    let mut call = UsageSlot::default();
    if guard.is_open() {
        request.extensions_mut().insert(Caller::from(Identity::anyone()));
    } else if let Some(roles) = roles {
        let asked = Asked {
            endpoint: rpc,
            roles,
            path: request.uri().path(),
            authorization: request.headers().get(http::header::AUTHORIZATION),
            peer: request.extensions().get(),
        };
        let (caller, slot) = admission::admit(guard, asked)?;
        call = slot;
        request.extensions_mut().insert(caller);
    }
    let request = roles.and_then(|_roles| count_request(request));
    Ok(CallSlots { request, call, reflection: None })
}

/// Counts a call among the requests of its connection, and gives the connection a permanent slot if its caller may have one.
fn count_request<R>(request: &http::Request<R>) -> Option<RunningRequest> {
    let (peer, caller) = (request.extensions().get::<Peer>()?, request.extensions().get::<Caller>());
    let running = peer.requests.begin();
    peer.requests.mark_admitted(|| caller.and_then(|caller| caller.connection_slot()));
    Some(running)
}

/// The status `UNAVAILABLE` for a call whose caller is no longer admitted, so that a client reconnects soon: then a renewed token is accepted and
/// an expired one is refused.
pub(super) fn ended(denied: &Denied) -> Status {
    let details = ErrorDetails::with_retry_info(Some(RETRY_DELAY));
    Status::with_error_details(Code::Unavailable, format!("this call ends here: {denied}"), details)
}

impl From<NotAdmitted> for Status {
    fn from(refused: NotAdmitted) -> Self {
        let (code, text) = match refused {
            NotAdmitted::Exceeded(exceeded) => return Refusal::Exceeded(exceeded).into(),
            NotAdmitted::OverAll(text) => (Code::PermissionDenied, text),
            NotAdmitted::Denied(denied) => match denied {
                Denied::Unidentified | Denied::NotAccepted(_) => (Code::Unauthenticated, denied.to_string()),
                Denied::NotNow | Denied::Changed => (Code::Unavailable, denied.to_string()),
                Denied::NoGrant | Denied::NotAllowed { .. } => (Code::PermissionDenied, denied.to_string()),
            },
        };
        Self::new(code, text)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{access::identity::Role, door::permissions, runtime::metrics::Metrics};

    /// SHA-256 of `secret`.
    const SECRET: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    /// A caller with the token `secret`, which may have one stream, one call and one question for a verdict.
    pub(in crate::door::grpc) struct OneStream {
        dir: tempfile::TempDir,
        guard: Guard,
        role: Role,
    }

    impl OneStream {
        pub(in crate::door::grpc) fn new(role: Role) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("access.toml");
            std::fs::write(&path, Self::file(role, false)).unwrap();
            let guard = Guard::open(Some(path), Arc::new(Metrics::new())).unwrap();
            Self { dir, guard, role }
        }

        fn file(role: Role, trusted: bool) -> String {
            let role = role.as_str();
            format!(
                "[[token]]\nname = \"one\"\nsha256 = \"{SECRET}\"\nroles = [\"{role}\"]\n\
                 trusted = {trusted}\nbounds = {{ streams = 1, calls = 1, verdicts = 1 }}\n"
            )
        }

        /// The request, admitted.
        pub(in crate::door::grpc) fn ask<T>(&self, message: T) -> Request<T> {
            let secret = http::HeaderValue::from_static("Bearer secret");
            let caller =
                Caller::admit(&self.guard, Some(&secret), Arc::default(), self.role, "test").unwrap();
            let mut request = Request::new(message);
            request.extensions_mut().insert(caller);
            request
        }

        pub(in crate::door::grpc) fn guard(&self) -> Guard {
            self.guard.clone()
        }

        /// Changes the caller's permissions.
        pub(in crate::door::grpc) fn change(&self) {
            std::fs::write(self.dir.path().join("access.toml"), Self::file(self.role, true)).unwrap();
            self.guard.reload_if_changed(true);
        }
    }

    #[test]
    fn an_unguarded_call_has_an_unknown_caller() {
        assert_eq!(*caller(&Request::new(())), Identity::unknown());
    }

    #[test]
    fn anonymous_callers_cannot_use_tickets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.toml");
        std::fs::write(&path, "[anonymous]\nroles = [\"caller\", \"reader\"]\n").unwrap();
        let guard = Guard::open(Some(path), Arc::new(Metrics::new())).unwrap();
        let answer = |path: &str| {
            let mut request = http::Request::builder().uri(path).body(()).unwrap();
            admit(&guard, permissions::of_rpc(path).unwrap(), &mut request)
                .map(drop)
                .map_err(|status| status.code())
        };
        for rpc in ["OpenTicket", "WatchTicket", "CloseTicket"] {
            assert_eq!(answer(&format!("/plimsoll.v1.Placement/{rpc}")), Err(Code::Unauthenticated), "{rpc}");
        }
        for path in ["/plimsoll.v1.Predictor/Predict", "/plimsoll.v1.Placement/GetPools"] {
            assert_eq!(answer(path), Ok(()), "{path}");
        }
    }
}
