//! Checks that the caller has the role for the path. A connection gets a permanent slot once one of
//! its requests was admitted here, or was proved to be a hook of GitLab. Probes and refused
//! requests do not count for that, because any client can send them.

use std::{borrow::Cow, net::IpAddr, sync::Arc};

use axum::{
    extract::Request,
    http::{Extensions, HeaderMap, Method, StatusCode, header},
    response::Response,
};
use plimsoll_core::domain::FieldViolation;

use super::{refusal::refuse, shown_path, xml_rpc};
use crate::{
    access::{
        guard::{Caller, Guard},
        identity::{Denied, ExceededBound, Identity, Role, UsageSlot},
    },
    ci::gitlab::SECRET_HEADER,
    door::{BACKUP_PATH, net::Peer},
};

/// The role that a path requires; `None` for paths open to every caller.
fn role_for(path: &str, changes: bool, has_hook_secret: bool) -> Option<Role> {
    match path {
        // sent by the form that corrects a cause
        path if changes && path.starts_with("/attempts/") => Some(Role::Operator),
        "/livez" | "/readyz" | "/readyz/reads" => None,
        // the program contains no secret, and a job without a token should be measured too
        path if path.starts_with("/agent/") => None,
        "/v1/allocation" => Some(Role::Caller),
        path if changes && is_of_tickets(path) => Some(Role::Caller),
        // the hook's secret proves the identity, and is checked later
        "/v1/collect" if has_hook_secret => None,
        "/v1/collect" => Some(Role::Hook),
        BACKUP_PATH => Some(Role::Operator),
        _ => Some(Role::Reader),
    }
}

/// Whether changes at this path are changes of tickets. Tickets are stored under the name of their
/// owner, so they need a known caller.
fn is_of_tickets(path: &str) -> bool {
    matches!(path, "/" | xml_rpc::PATH)
}

/// What a caller with `projects` can use instead of this path, because the answer here is over all
/// projects.
fn alternative_for(path: &str) -> Option<&'static str> {
    match path {
        "/metrics" => Some("ask over gRPC, with plimsoll stats --project"),
        BACKUP_PATH => {
            Some("a backup holds all of them, and needs an operator without projects in the access file")
        }
        _ => None,
    }
}

/// Adds the caller's identity to the request; returns the refusal for a caller without permission.
/// The returned slot must be held until the answer is sent.
pub(super) fn admit(
    request: &mut Request,
    guard: &Guard,
    has_hook_secret: bool,
) -> Result<Option<CallSlot>, Box<Response>> {
    // without the secret that a path may contain, even a path sent to the wrong listener
    let path = shown_path(request.uri());
    let changes = *request.method() == Method::POST;
    let Some(role) = role_for(path, changes, has_hook_secret) else { return Ok(None) };
    if guard.is_open() {
        make_slot_permanent(request.extensions(), None);
        return Ok(None);
    }
    let authorization = authorization(request.headers(), role);
    let peer = request.extensions().get::<Peer>();
    let (names, from) = peer.map(|peer| (Arc::clone(&peer.names), peer.address.ip())).unzip();
    let identity = guard
        .check(authorization.as_deref(), &names.unwrap_or_default(), role, path)
        .and_then(|identity| {
            if changes && is_of_tickets(path) {
                guard.known(&identity, path)?;
            }
            Ok(identity)
        })
        .map_err(|denied| Box::new(denied_response(path, &denied)))?;
    if let Some(instead) = alternative_for(path).filter(|_| !identity.projects.is_all()) {
        let text = format!("{} may see only some projects: {instead}", identity.name);
        return Err(Box::new(refuse(
            path,
            StatusCode::FORBIDDEN,
            &FieldViolation::new("authorization", text),
        )));
    }
    let place = take_call_slot(guard, &identity, from)
        .map_err(|exceeded| Box::new(exceeded_response(path, &exceeded)))?;
    make_slot_permanent(request.extensions(), Some(&identity));
    request.extensions_mut().insert(Caller::from(identity));
    Ok(Some(place))
}

/// A slot among the concurrent calls of a caller.
#[derive(Debug)]
pub(super) struct CallSlot(#[expect(dead_code, reason = "held for its end")] UsageSlot);

/// Counts a request against the caller's rate, and takes one of its slots.
fn take_call_slot(guard: &Guard, caller: &Identity, from: Option<IpAddr>) -> Result<CallSlot, ExceededBound> {
    guard.question(caller)?;
    let place = caller.call_place(from).inspect_err(|exceeded| guard.exceeded(caller, exceeded))?;
    Ok(CallSlot(place))
}

fn exceeded_response(path: &str, exceeded: &ExceededBound) -> Response {
    let fault = FieldViolation::new("authorization", exceeded.to_string());
    let mut answer = refuse(path, StatusCode::TOO_MANY_REQUESTS, &fault);
    let after = exceeded.retry_after.as_secs().max(1);
    answer.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(after));
    answer
}

/// Gives the connection a permanent slot if it has a client certificate: the TLS settings accept
/// only valid ones.
pub(super) fn make_certified_slot_permanent(of_request: &Extensions) {
    if of_request.get::<Peer>().is_some_and(|peer| !peer.names.is_empty()) {
        make_slot_permanent(of_request, None);
    }
}

/// Gives the connection of this request a permanent slot, if its caller may have one: `None` if no proof is needed.
pub(super) fn make_slot_permanent(of_request: &Extensions, caller: Option<&Identity>) {
    if let Some(peer) = of_request.get::<Peer>() {
        let own = || caller.map_or_else(|| Some(UsageSlot::default()), Identity::connection_slot);
        peer.requests.mark_admitted(own);
    }
}

/// The header with the caller's token. GitLab sends the secret of a hook in a header of its own.
/// That secret may be a token of the access file, so that each project's hook can have its own.
fn authorization(headers: &HeaderMap, role: Role) -> Option<Cow<'_, str>> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let secret = || text(SECRET_HEADER).filter(|_secret| role == Role::Hook);
    text(header::AUTHORIZATION.as_str())
        .map(Cow::Borrowed)
        .or_else(|| Some(format!("Bearer {}", secret()?).into()))
}

fn denied_response(path: &str, denied: &Denied) -> Response {
    let status = match denied {
        Denied::Unidentified | Denied::NotAccepted(_) => StatusCode::UNAUTHORIZED,
        Denied::NotNow | Denied::Changed => StatusCode::SERVICE_UNAVAILABLE,
        Denied::NoGrant | Denied::NotAllowed { .. } => StatusCode::FORBIDDEN,
    };
    let mut answer = refuse(path, status, &FieldViolation::new("authorization", denied.to_string()));
    if status == StatusCode::UNAUTHORIZED {
        // asks a browser for name and password: any name, and the token as password
        let schemes = header::HeaderValue::from_static("Basic realm=\"plimsoll\", Bearer realm=\"plimsoll\"");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, schemes);
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::Body;

    use super::*;
    use crate::{access::identity::hash, runtime::metrics::Metrics};

    #[test]
    fn what_holds_all_projects_is_for_callers_of_all_projects() {
        let dir = tempfile::tempdir().unwrap();
        let token = |name: &str, projects: &str| {
            let sha256 = hash(name);
            format!(
                "[[token]]\nname = \"of-{name}\"\nsha256 = \"{sha256}\"\nroles = [\"operator\", \"reader\"]\n{projects}\n"
            )
        };
        let file = dir.path().join("access.toml");
        let text =
            token("all", "") + &token("one", "projects = [\"team/*\"]") + &token("any", "projects = [\"*\"]");
        std::fs::write(&file, text).unwrap();
        let guard = Guard::open(Some(file), Arc::new(Metrics::new())).unwrap();
        let ask = |token: &str, path: &str| {
            let request = Request::builder().uri(path).header("authorization", format!("Bearer {token}"));
            let admitted = admit(&mut request.body(Body::empty()).unwrap(), &guard, false);
            admitted.map_or_else(|refusal| refusal.status().as_u16(), |_place| 200)
        };
        for path in [BACKUP_PATH, "/metrics"] {
            let answers = [ask("all", path), ask("one", path), ask("any", path)];
            assert_eq!(answers, [200, 403, 403], "{path}");
        }
        assert_eq!((ask("one", "/attempts"), ask("one", "/v1/allocation")), (200, 403), "no caller");
    }
}
