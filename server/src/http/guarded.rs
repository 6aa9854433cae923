//! Who may ask for which page. A connection keeps its place for good once one of its requests was let in here, or proved to be a hook
//! of GitLab: probes and refusals keep none, as anybody may cause them.

use std::borrow::Cow;

use axum::{
    extract::{Request, State},
    http::{Extensions, HeaderMap, StatusCode, header},
    middleware::Next,
    response::Response,
};

use super::{collect::SECRET, refusal::refuse, serving::Names};
use crate::{
    admin::backup::ENDPOINT,
    domain::Fault,
    guard::Guard,
    identity::{Denied, Role},
    incoming::Requests,
};

/// What a path needs; `None` for those that everybody may ask for.
fn role(path: &str, has_hook_secret: bool) -> Option<Role> {
    match path {
        "/livez" | "/readyz" => None,
        "/v1/allocation" => Some(Role::Caller),
        // GitLab proves with the hook's own secret who it is
        "/v1/collect" if has_hook_secret => None,
        "/v1/collect" => Some(Role::Hook),
        ENDPOINT => Some(Role::Operator),
        _ => Some(Role::Reader),
    }
}

/// Answers those who may not go on, and tells the others' handlers who calls.
pub(super) async fn guarded(
    State((guard, has_hook_secret)): State<(Guard, bool)>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let Some(role) = role(path, has_hook_secret) else { return next.run(request).await };
    if guard.is_open() {
        let_in(request.extensions());
        return next.run(request).await;
    }
    let authorization = authorization(request.headers(), role);
    let names = request.extensions().get::<Names>().cloned().unwrap_or_default();
    match guard.check(authorization.as_deref(), &names.0, role, path) {
        // these are over all projects, and cannot name one; a page names it
        Ok(identity) if !identity.projects.is_all() && matches!(path, "/metrics" | "/v1/allocation") => {
            let text = format!(
                "{} may see only some projects: ask over gRPC, with plimsoll stats --project",
                identity.name
            );
            refuse(path, StatusCode::FORBIDDEN, &Fault::new("authorization", text))
        }
        Ok(identity) => {
            if let Err(exceeded) = guard.question(&identity) {
                let fault = Fault::new("authorization", exceeded.to_string());
                let mut answer = refuse(path, StatusCode::TOO_MANY_REQUESTS, &fault);
                let after = exceeded.after.as_secs().max(1);
                answer.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(after));
                return answer;
            }
            let_in(request.extensions());
            request.extensions_mut().insert(identity);
            next.run(request).await
        }
        Err(denied) => denial(path, &denied),
    }
}

/// Lets who has shown a certificate in, for want of other proof: the TLS settings say whose are good.
pub(super) async fn certified(request: Request, next: Next) -> Response {
    if request.extensions().get::<Names>().is_some_and(|names| !names.0.is_empty()) {
        let_in(request.extensions());
    }
    next.run(request).await
}

/// The connection of this request keeps its place.
pub(super) fn let_in(of_request: &Extensions) {
    if let Some(requests) = of_request.get::<Requests>() {
        requests.let_in();
    }
}

/// The header that says who calls. A hook of GitLab has its secret in a header of its own: then that is a token of the file of access, and
/// so each project's hook can have one.
fn authorization(headers: &HeaderMap, role: Role) -> Option<Cow<'_, str>> {
    let text = |name: &str| headers.get(name).map(|said| said.to_str().unwrap_or_default());
    let secret = || text(SECRET).filter(|_secret| role == Role::Hook);
    text(header::AUTHORIZATION.as_str())
        .map(Cow::Borrowed)
        .or_else(|| Some(format!("Bearer {}", secret()?).into()))
}

fn denial(path: &str, denied: &Denied) -> Response {
    let status = match denied {
        Denied::Nobody | Denied::NotAccepted(_) => StatusCode::UNAUTHORIZED,
        Denied::NotNow | Denied::Changed => StatusCode::SERVICE_UNAVAILABLE,
        Denied::NoGrant | Denied::NotAllowed { .. } => StatusCode::FORBIDDEN,
    };
    let mut answer = refuse(path, status, &Fault::new("authorization", denied.to_string()));
    if status == StatusCode::UNAUTHORIZED {
        // a browser asks for a name and a password: any name, and the token
        let schemes = header::HeaderValue::from_static("Basic realm=\"plimsoll\", Bearer realm=\"plimsoll\"");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, schemes);
    }
    answer
}
