//! Checks that the caller has the role for the path. A connection gets a permanent slot once one of
//! its requests was admitted here, or was proved to be a hook of GitLab. Probes and refused
//! requests do not count for that, because any client can send them.

use std::{borrow::Cow, sync::Arc};

use axum::{
    extract::Request,
    http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, header},
    response::Response,
};
use plimsoll_core::domain::FieldViolation;

use super::{refusal::refuse, shown_path};
use crate::{
    access::{
        guard::{Caller, Guard},
        identity::{Denied, Identity, Role, Roles, UsageSlot},
    },
    ci::gitlab::SECRET_HEADER,
    door::{
        admission::{self, Asked, NotAdmitted},
        net::Peer,
        permissions::{self, COLLECT_PATH},
    },
};

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
    let endpoint = permissions::of_path(path, changes);
    let Some(roles) = endpoint.who.roles() else { return Ok(None) };
    // the hook's secret proves the identity, and is checked later
    if has_hook_secret && path == COLLECT_PATH {
        return Ok(None);
    }
    if guard.is_open() {
        make_slot_permanent(request.extensions(), None);
        return Ok(None);
    }
    let authorization = authorization(request.headers(), roles);
    let asked = Asked {
        endpoint,
        roles,
        path,
        authorization: authorization.as_deref(),
        peer: request.extensions().get(),
    };
    let (caller, slot) =
        admission::admit(guard, asked).map_err(|refused| Box::new(refusal(path, &refused)))?;
    make_slot_permanent(request.extensions(), Some(&caller));
    // without its admission, which holds the header and so the buffer that the request was read into: calls may wait for hours
    request.extensions_mut().insert(Caller::from(Arc::clone(&caller)));
    Ok(Some(CallSlot(slot)))
}

/// A slot among the concurrent calls of a caller.
#[derive(Debug)]
pub(super) struct CallSlot(#[expect(dead_code, reason = "held for its end")] UsageSlot);

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
fn authorization(headers: &HeaderMap, roles: Roles) -> Option<Cow<'_, HeaderValue>> {
    let secret = || headers.get(SECRET_HEADER).filter(|_secret| roles.has(Role::Hook));
    let bearer = || HeaderValue::from_bytes(&[b"Bearer ", secret()?.as_bytes()].concat()).ok();
    headers.get(header::AUTHORIZATION).map(Cow::Borrowed).or_else(|| bearer().map(Cow::Owned))
}

fn refusal(path: &str, refused: &NotAdmitted) -> Response {
    let (status, text) = match refused {
        NotAdmitted::Exceeded(exceeded) => (StatusCode::TOO_MANY_REQUESTS, exceeded.to_string()),
        NotAdmitted::OverAll(text) => (StatusCode::FORBIDDEN, text.clone()),
        NotAdmitted::Denied(denied) => match denied {
            Denied::Unidentified | Denied::NotAccepted(_) => (StatusCode::UNAUTHORIZED, denied.to_string()),
            Denied::NotNow | Denied::Changed => (StatusCode::SERVICE_UNAVAILABLE, denied.to_string()),
            Denied::NoGrant | Denied::NotAllowed { .. } => (StatusCode::FORBIDDEN, denied.to_string()),
        },
    };
    let mut answer = refuse(path, status, &FieldViolation::new("authorization", text));
    if status == StatusCode::UNAUTHORIZED {
        // asks a browser for name and password: any name, and the token as password
        let schemes = HeaderValue::from_static("Basic realm=\"plimsoll\", Bearer realm=\"plimsoll\"");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, schemes);
    }
    if let NotAdmitted::Exceeded(exceeded) = refused {
        let after = exceeded.retry_after.as_secs().max(1);
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after));
    }
    answer
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;
    use crate::{access::identity::hash, door::BACKUP_PATH, runtime::metrics::Metrics};

    #[test]
    fn all_project_data_requires_all_project_access() {
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
