//! Who may call which rpc. A call that may not go on is answered here; the others carry who calls.

use std::{sync::Arc, time::Duration};

use tonic::{Code, Request, Status, codegen::http};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::{connected::Peer, status::of_exceeded};
use crate::{
    guard::{Guard, Pass},
    identity::{Denied, Exceeded, Identity, Role},
};

/// When a caller may come back whose call was ended because of what let it in.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What an rpc needs; `None` for those that everybody may call: health and the wire's own description.
fn role(path: &str) -> Option<Role> {
    let (service, rpc) = path.trim_start_matches('/').split_once('/')?;
    match service {
        "plimsoll.v1.Collector" => Some(Role::Agent),
        "plimsoll.v1.Stats" => Some(Role::Reader),
        "plimsoll.v1.Placement" if rpc == "GetPools" => Some(Role::Reader),
        "plimsoll.v1.Predictor" | "plimsoll.v1.Placement" => Some(Role::Caller),
        service if service.starts_with("grpc.health.") || service.starts_with("grpc.reflection.") => None,
        // what is new here is open to nobody until it says to whom
        _ => Some(Role::Operator),
    }
}

/// Who calls, as the guard found. Nobody, if a call came in that no guard has looked at.
pub(super) fn caller<T>(request: &Request<T>) -> Arc<Identity> {
    request.extensions().get().cloned().unwrap_or_else(Identity::nobody)
}

/// Notes in the request who calls, and by what he was let in.
///
/// # Errors
/// The answer to a call that may not go on.
pub(super) fn admit<R>(guard: &Guard, request: &mut http::Request<R>) -> Result<(), Status> {
    if guard.is_open() {
        request.extensions_mut().insert(Identity::anyone());
        return Ok(());
    }
    let path = request.uri().path();
    let Some(role) = role(path) else { return Ok(()) };
    let authorization = request.headers().get(http::header::AUTHORIZATION);
    let names = request.extensions().get::<Peer>().map(|peer| Arc::clone(&peer.names)).unwrap_or_default();
    let pass = Pass::new(guard, authorization, names, role, path).map_err(|denied| status(&denied))?;
    // what agents send is counted as it comes
    if role != Role::Agent {
        guard.question(pass.caller()).map_err(|exceeded| of_exceeded(&exceeded))?;
    }
    request.extensions_mut().insert(Arc::clone(pass.caller()));
    request.extensions_mut().insert(Arc::new(pass));
    Ok(())
}

/// What a call that lasts was let in by.
#[derive(Debug, Clone)]
pub(super) struct Admitted(Option<Arc<Pass>>);

/// By what a call was let in.
pub(super) fn admitted<T>(request: &Request<T>) -> Admitted {
    Admitted(request.extensions().get().cloned())
}

impl Admitted {
    /// Waits until the caller may not go on: gives the status with which his call ends. He may come back at once, with another token.
    pub(super) async fn over(&self) -> Status {
        match &self.0 {
            Some(pass) => ended(&pass.over().await),
            None => std::future::pending().await,
        }
    }

    /// Asks for something that is bounded for each caller.
    ///
    /// # Errors
    /// The status with which his call ends: he has gone beyond it.
    pub(super) fn within<T: Default>(
        &self,
        asked: impl FnOnce(&Identity) -> Result<T, Exceeded>,
    ) -> Result<T, Status> {
        let asked = self.0.as_ref().map_or_else(|| Ok(T::default()), |pass| pass.within(asked));
        asked.map_err(|exceeded| of_exceeded(&exceeded))
    }

    /// Whether the caller may go on.
    ///
    /// # Errors
    /// The status with which his call ends.
    pub(super) fn check(&self) -> Result<(), Status> {
        self.0.as_ref().map_or(Ok(()), |pass| pass.check().map_err(|denied| ended(&denied)))
    }
}

/// UNAVAILABLE, so that a client comes back soon: a token that was renewed meanwhile is good, and one that was not is refused then.
fn ended(denied: &Denied) -> Status {
    let details = ErrorDetails::with_retry_info(Some(AGAIN_AFTER));
    Status::with_error_details(Code::Unavailable, format!("this call ends here: {denied}"), details)
}

fn status(denied: &Denied) -> Status {
    let code = match denied {
        Denied::Nobody | Denied::NotAccepted(_) => Code::Unauthenticated,
        Denied::NotNow | Denied::Changed => Code::Unavailable,
        Denied::NoGrant | Denied::NotAllowed { .. } => Code::PermissionDenied,
    };
    Status::new(code, denied.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_no_guard_has_looked_at_comes_from_nobody() {
        assert_eq!(caller(&Request::new(())), Identity::nobody());
    }

    #[test]
    fn every_rpc_of_ours_needs_a_role_and_what_is_not_known_needs_the_strongest() {
        for (path, expected) in [
            ("/plimsoll.v1.Collector/Stream", Some(Role::Agent)),
            ("/plimsoll.v1.Predictor/ShouldRetry", Some(Role::Caller)),
            ("/plimsoll.v1.Stats/Watch", Some(Role::Reader)),
            ("/plimsoll.v1.Placement/OpenTicket", Some(Role::Caller)),
            ("/grpc.health.v1.Health/Check", None),
            ("/plimsoll.v1.StatsX/Watch", Some(Role::Operator)),
            ("/plimsoll.v2.Stats/Watch", Some(Role::Operator)),
        ] {
            assert_eq!(role(path), expected, "{path}");
        }
    }
}
