//! Authorizes calls. The identity of an admitted caller is added to its request.

use std::{sync::Arc, time::Duration};

use tokio::sync::OwnedSemaphorePermit;
use tonic::{Code, Request, Status, codegen::http};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{
    access::{
        Refusal,
        guard::{Caller, Guard},
        identity::{Denied, Identity, Role, Roles, UsageSlot},
    },
    door::net::{Peer, RunningRequest},
};

/// When to call again after a call was ended because its caller is no longer admitted.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The rpc of clients that wait for their tickets.
const WATCH_TICKET: &str = "/plimsoll.v1.Placement/WatchTicket";

/// Path prefix of reflection, which is open to every caller.
pub(super) const REFLECTION: &str = "/grpc.reflection.";

/// Path prefix of the service that shows a caller its permissions.
const INTROSPECTION: &str = "/plimsoll.v1.Introspection/";

/// The roles for an rpc; one of them is enough. `None` for rpcs open to every caller: health and
/// reflection.
fn roles_for(path: &str) -> Option<Roles> {
    let role = role_for(path)?;
    // any role is enough to ask for one's own permissions
    if path.starts_with(INTROSPECTION) {
        return Some(Role::ALL.into_iter().collect());
    }
    // an operator may watch and close all tickets; access to a single ticket is checked later
    let is_for_both = matches!(path, WATCH_TICKET | "/plimsoll.v1.Placement/CloseTicket");
    Some([Some(role), is_for_both.then_some(Role::Operator)].into_iter().flatten().collect())
}

fn role_for(path: &str) -> Option<Role> {
    let (service, rpc) = path.trim_start_matches('/').split_once('/')?;
    match service {
        "plimsoll.v1.Collector" => Some(Role::Agent),
        // the scaler returns the same totals of pools as GetDemand
        "plimsoll.v1.Stats" | "externalscaler.ExternalScaler" => Some(Role::Reader),
        "plimsoll.v1.Placement" if matches!(rpc, "GetPools" | "GetDemand") => Some(Role::Reader),
        "plimsoll.v1.Predictor" if rpc == "CorrectVerdict" => Some(Role::Operator),
        "plimsoll.v1.Predictor" | "plimsoll.v1.Placement" => Some(Role::Caller),
        service if service.starts_with("grpc.health.") || path.starts_with(REFLECTION) => None,
        // any other service is only for operators, until its role is added here
        _ => Some(Role::Operator),
    }
}

/// Whether the rpc is about a ticket. Tickets are stored under the name of their owner, so they
/// need a known caller.
fn is_of_tickets(path: &str) -> bool {
    path.starts_with("/plimsoll.v1.Placement/") && role_for(path) == Some(Role::Caller)
}

/// Whether the call may last: it is then counted as a stream.
pub(super) fn is_long_call(path: &str) -> bool {
    matches!(
        path,
        "/plimsoll.v1.Collector/Stream"
            | "/plimsoll.v1.Predictor/PredictBatch"
            | "/plimsoll.v1.Stats/Watch"
            | WATCH_TICKET
            | "/externalscaler.ExternalScaler/StreamIsActive"
    )
}

/// Whether the client may send for as long as it likes.
pub(super) fn is_client_stream(path: &str) -> bool {
    matches!(path, "/plimsoll.v1.Collector/Stream" | "/plimsoll.v1.Predictor/PredictBatch")
        || path.starts_with(REFLECTION)
}

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

/// Adds the caller to the request. Returns the slots that the call must hold.
///
/// # Errors
/// The caller is not admitted, or exceeds a bound; the status is the answer.
pub(super) fn admit<R>(guard: &Guard, request: &mut http::Request<R>) -> Result<CallSlots, Status> {
    let roles = roles_for(request.uri().path());
    let mut call = UsageSlot::default();
    if guard.is_open() {
        request.extensions_mut().insert(Caller::from(Identity::anyone()));
    } else if let Some(roles) = roles {
        let caller = check_caller(guard, request, roles)?;
        let from = request.extensions().get::<Peer>().map(|peer| peer.address.ip());
        call = caller.within(|caller| caller.call_place(from)).map_err(Refusal::Exceeded)?;
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

fn check_caller<R>(guard: &Guard, request: &http::Request<R>, roles: Roles) -> Result<Caller, Status> {
    let authorization = request.headers().get(http::header::AUTHORIZATION);
    let names = request.extensions().get::<Peer>().map(|peer| Arc::clone(&peer.names)).unwrap_or_default();
    let path = request.uri().path();
    let caller = Caller::admit(guard, authorization, names, roles, path).map_err(|denied| status(&denied))?;
    if is_of_tickets(path) {
        guard.known(&caller, path).map_err(|denied| status(&denied))?;
    }
    // the messages of agents have rates of their own, which are counted as messages arrive
    if !roles.has(Role::Agent) {
        guard.question(&caller).map_err(Refusal::Exceeded)?;
    }
    Ok(caller)
}

/// The status `UNAVAILABLE` for a call whose caller is no longer admitted, so that a client reconnects soon: then a renewed token is accepted and
/// an expired one is refused.
pub(super) fn ended(denied: &Denied) -> Status {
    let details = ErrorDetails::with_retry_info(Some(RETRY_DELAY));
    Status::with_error_details(Code::Unavailable, format!("this call ends here: {denied}"), details)
}

fn status(denied: &Denied) -> Status {
    let code = match denied {
        Denied::Unidentified | Denied::NotAccepted(_) => Code::Unauthenticated,
        Denied::NotNow | Denied::Changed => Code::Unavailable,
        Denied::NoGrant | Denied::NotAllowed { .. } => Code::PermissionDenied,
    };
    Status::new(code, denied.to_string())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::runtime::metrics::Metrics;

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
    fn a_call_that_no_guard_has_looked_at_comes_from_an_unknown_caller() {
        assert_eq!(*caller(&Request::new(())), Identity::unknown());
    }

    #[test]
    fn who_does_not_say_who_he_is_opens_watches_and_closes_no_tickets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.toml");
        std::fs::write(&path, "[anonymous]\nroles = [\"caller\", \"reader\"]\n").unwrap();
        let guard = Guard::open(Some(path), Arc::new(Metrics::new())).unwrap();
        let answer = |path: &str| {
            let mut request = http::Request::builder().uri(path).body(()).unwrap();
            admit(&guard, &mut request).map(drop).map_err(|status| status.code())
        };
        for rpc in ["OpenTicket", "WatchTicket", "CloseTicket"] {
            assert_eq!(answer(&format!("/plimsoll.v1.Placement/{rpc}")), Err(Code::Unauthenticated), "{rpc}");
        }
        for path in ["/plimsoll.v1.Predictor/Predict", "/plimsoll.v1.Placement/GetPools"] {
            assert_eq!(answer(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn every_rpc_of_ours_needs_a_role_and_what_is_not_known_needs_the_strongest() {
        for (path, expected) in [
            ("/plimsoll.v1.Collector/Stream", Some(Role::Agent)),
            ("/plimsoll.v1.Predictor/ShouldRetry", Some(Role::Caller)),
            ("/plimsoll.v1.Stats/Watch", Some(Role::Reader)),
            ("/plimsoll.v1.Placement/OpenTicket", Some(Role::Caller)),
            ("/plimsoll.v1.Placement/GetDemand", Some(Role::Reader)),
            ("/externalscaler.ExternalScaler/IsActive", Some(Role::Reader)),
            ("/externalscaler.ExternalScalerX/IsActive", Some(Role::Operator)),
            ("/grpc.health.v1.Health/Check", None),
            ("/plimsoll.v1.StatsX/Watch", Some(Role::Operator)),
            ("/plimsoll.v2.Stats/Watch", Some(Role::Operator)),
        ] {
            assert_eq!(roles_for(path), expected.map(Roles::from), "{path}");
        }
        for path in ["/plimsoll.v1.Placement/WatchTicket", "/plimsoll.v1.Placement/CloseTicket"] {
            let both: Roles = [Role::Caller, Role::Operator].into_iter().collect();
            assert_eq!(roles_for(path), Some(both), "an operator ends what others have left open: {path}");
        }
        let any: Roles = Role::ALL.into_iter().collect();
        assert_eq!(roles_for("/plimsoll.v1.Introspection/GetServer"), Some(any));
        assert_eq!(roles_for("/plimsoll.v1.IntrospectionX/GetServer"), Some(Role::Operator.into()));
    }
}
