//! Who may call which rpc. A call that may not go on is answered here; the others carry who calls.

use std::sync::Arc;

use tonic::{Code, Request, Status, codegen::http};

use super::connected::Peer;
use crate::{
    guard::Guard,
    identity::{Denied, Identity, Role},
};

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

/// Notes in the request who calls.
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
    // a header that is no text is no token
    let authorization = authorization.map(|header| header.to_str().unwrap_or_default());
    let names = request.extensions().get::<Peer>().map(|peer| Arc::clone(&peer.names)).unwrap_or_default();
    let identity = guard.check(authorization, &names, role, path).map_err(|denied| status(&denied))?;
    request.extensions_mut().insert(identity);
    Ok(())
}

fn status(denied: &Denied) -> Status {
    let code = match denied {
        Denied::Nobody | Denied::NotAccepted(_) => Code::Unauthenticated,
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
